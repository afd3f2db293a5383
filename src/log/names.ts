/**
 * File names of a log root (storage.md 2). Parsing is strict: a name that is not exactly what the formatter writes is
 * foreign, and foreign files are never opened, never deleted.
 */

export const LOCK_FILE = "LOCK";
export const WRITE_PROBE_FILE = ".ironbus-write-probe";
export const LAYOUT_FILE = "layout.meta";
export const COUNTERS_FILE = "counters.ckpt";
export const COLD_MANIFEST_FILE = "cold-manifest.ckpt";
export const SHARED_WAL_DIRECTORY = "shared-wal";
export const QUARANTINE_DIRECTORY = "quarantine";
export const RECOVERY_REPORT_FILE = "recovery-report.json";

/** `seg-<016x>.log` */
export function segmentName(id: number): string {
  return `seg-${id.toString(16).padStart(16, "0")}.log`;
}

/** `seg-<016x>.tindex`, the time index of that segment (storage.md 12.2). */
export function timeIndexName(id: number): string {
  return `seg-${id.toString(16).padStart(16, "0")}.tindex`;
}

/** The id of a segment file name, or undefined for a foreign name. */
export function parseSegmentName(name: string): bigint | undefined {
  const match = /^seg-([0-9a-f]{16})\.log$/.exec(name);
  return match ? BigInt(`0x${match[1]}`) : undefined;
}

export type GroupCheckpoint = "cursor" | "attempts";

/** True for a legal group or stream name: 1 to 128 graphic ASCII bytes. The default's name is the empty string. */
export function isValidName(name: string): boolean {
  return /^[\x21-\x7e]{1,128}$/.test(name);
}

/**
 * `cursor.ckpt` of the default group (""), `cursor-<hex(group)>.ckpt` of a named one. Throws RangeError for an
 * illegal group name. A legal name may still be too long for the file system (ENAMETOOLONG when it is opened).
 */
export function groupCheckpointName(kind: GroupCheckpoint, group: string): string {
  if (group === "") return `${kind}.ckpt`;
  if (!isValidName(group)) throw new RangeError("a group name is 1 to 128 graphic ASCII bytes");
  let hex = "";
  for (let i = 0; i < group.length; i++) hex += group.charCodeAt(i).toString(16);
  return `${kind}-${hex}.ckpt`;
}

/** The kind and group of a group's checkpoint file, or undefined for a foreign name. */
export function parseGroupCheckpointName(name: string): { kind: GroupCheckpoint; group: string } | undefined {
  const match = /^(cursor|attempts)(?:-((?:[0-9a-f]{2}){1,128}))?\.ckpt$/.exec(name);
  if (match === null) return undefined;
  let group = "";
  const hex = match[2] ?? "";
  for (let i = 0; i < hex.length; i += 2) group += String.fromCharCode(Number.parseInt(hex.slice(i, i + 2), 16));
  if (group !== "" && !isValidName(group)) return undefined;
  return { kind: match[1] as GroupCheckpoint, group };
}

export interface QuarantineBlobName {
  readonly segmentId: bigint;
  /** A reason label of storage.md 19. */
  readonly label: string;
  /** Byte span within the segment file. */
  readonly start: number;
  readonly end: number;
}

/** `q-<016x segment>-<label>-<start>-<end>.bin` */
export function quarantineName(segmentId: number, label: string, start: number, end: number): string {
  return `q-${segmentId.toString(16).padStart(16, "0")}-${label}-${start}-${end}.bin`;
}

/** The parts of a quarantine blob's name, or undefined for a foreign name. */
export function parseQuarantineName(name: string): QuarantineBlobName | undefined {
  const match = /^q-([0-9a-f]{16})-([a-z][a-z0-9_]*)-(0|[1-9][0-9]{0,15})-(0|[1-9][0-9]{0,15})\.bin$/.exec(name);
  if (match === null) return undefined;
  const start = Number(match[3]);
  const end = Number(match[4]);
  if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end) || end < start) return undefined;
  return { segmentId: BigInt(`0x${match[1]}`), label: match[2], start, end };
}
