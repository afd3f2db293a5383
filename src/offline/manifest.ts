import { LOCK_FILE } from "../log/names.ts";
import { OfflineError } from "./offline-error.ts";

/**
 * The `MANIFEST` of a backup (storage.md 21.1), UTF-8, a newline after every line:
 *
 * IBBKP <version>
 * range <earliest retained> <durable head> cursors <n> dlq <n>
 * files <count>
 * <crc32c> <length> <relative path>        one line for each file
 */

export const MANIFEST_FILE = "MANIFEST";
export const BACKUP_FORMAT_VERSION = 1;
/** Room for more than 200,000 files; a reader never holds more than this. */
export const MAX_MANIFEST_BYTES = 16 * 1024 * 1024;

export interface ManifestFile {
  /** CRC-32C of all of the file's bytes. */
  readonly crc: number;
  readonly lengthBytes: number;
  /** Relative to `data/`, `/` between its parts. */
  readonly path: string;
}

export interface Manifest {
  /** First retained offset of the default stream. */
  readonly earliestRetained: number;
  /** Offset after its last record. */
  readonly durableHead: number;
  /** Cursor checkpoint files at the root. */
  readonly cursors: number;
  /** Records in `dlq/`. */
  readonly dlqRecords: number;
  readonly files: readonly ManifestFile[];
}

/** Why a name cannot stand in a manifest, or undefined when it can. */
export function unrepresentable(name: string): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a line break would end the manifest's line
  if (/[\u0000-\u001f\u007f]/.test(name)) return "its name holds a control character";
  // What a name that is not UTF-8 is read as.
  if (name.includes("\ufffd")) return "its name is not UTF-8";
  return undefined;
}

/** The bytes of a manifest. Throws OfflineError UnsupportedEntry when they are more than a reader takes. */
export function formatManifest(manifest: Manifest): Uint8Array {
  const { earliestRetained, durableHead, cursors, dlqRecords, files } = manifest;
  const lines = [
    `IBBKP ${BACKUP_FORMAT_VERSION}`,
    `range ${earliestRetained} ${durableHead} cursors ${cursors} dlq ${dlqRecords}`,
    `files ${files.length}`,
    ...files.map(({ crc, lengthBytes, path }) => `${crc} ${lengthBytes} ${path}`),
  ];
  const bytes = new TextEncoder().encode(`${lines.join("\n")}\n`);
  if (bytes.length > MAX_MANIFEST_BYTES) {
    throw new OfflineError("UnsupportedEntry", `a backup of ${files.length} files has too long a manifest`);
  }
  return bytes;
}

/** Reads a manifest, trusting nothing in it. Throws OfflineError InvalidManifest. */
export function parseManifest(bytes: Uint8Array): Manifest {
  if (bytes.length > MAX_MANIFEST_BYTES) throw invalid(`${bytes.length} bytes are more than ${MAX_MANIFEST_BYTES}`);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw invalid("not UTF-8");
  }
  checkVersion(text);
  if (!text.endsWith("\n")) throw invalid("the last line is cut");
  const lines = text.split("\n");
  lines.pop();
  const range = /^range (\d+) (\d+) cursors (\d+) dlq (\d+)$/.exec(lines[1] ?? "");
  if (range === null) throw invalid("no range on line 2");
  const [earliestRetained, durableHead, cursors, dlqRecords] = range.slice(1).map((digits) => whole(digits, 2));
  if (earliestRetained > durableHead) throw invalid("the range ends before it begins");
  const count = /^files (\d+)$/.exec(lines[2] ?? "");
  if (count === null) throw invalid("no file count on line 3");
  if (lines.length - 3 !== whole(count[1], 3)) {
    throw invalid(`it announces ${count[1]} file(s) and lists ${lines.length - 3}`);
  }
  const files = lines.slice(3).map((line, index) => parseFile(line, index + 4));
  checkPaths(files);
  return { earliestRetained, durableHead, cursors, dlqRecords, files };
}

function checkVersion(text: string): void {
  const first = /^IBBKP (\d{1,20})\n/.exec(text);
  if (first === null) throw invalid("it does not begin with IBBKP and a version");
  const version = BigInt(first[1]);
  if (version > BigInt(BACKUP_FORMAT_VERSION)) {
    throw new OfflineError(
      "InvalidManifest",
      `backup format version ${version} is newer than this build supports (${BACKUP_FORMAT_VERSION})`,
    );
  }
  if (version !== BigInt(BACKUP_FORMAT_VERSION)) throw invalid(`there is no format version ${version}`);
}

function parseFile(line: string, lineNumber: number): ManifestFile {
  const match = /^(\d+) (\d+) (.+)$/s.exec(line);
  if (match === null) throw invalid(`line ${lineNumber} names no file`);
  const crc = whole(match[1], lineNumber);
  if (crc > 0xffff_ffff) throw invalid(`line ${lineNumber} has no 32-bit checksum`);
  const path = match[3];
  for (const part of path.split("/")) {
    const problem = part === "" || part === "." || part === ".." ? "it has an unsafe part" : unrepresentable(part);
    if (problem !== undefined) throw invalid(`the path on line ${lineNumber} is refused: ${problem}`);
  }
  if (path === LOCK_FILE) throw invalid(`line ${lineNumber} lists ${LOCK_FILE}`);
  return { crc, lengthBytes: whole(match[2], lineNumber), path };
}

/** No file twice, and none that would have to be a directory for another one. */
function checkPaths(files: readonly ManifestFile[]): void {
  const paths = new Set<string>();
  for (const { path } of files) {
    if (paths.has(path)) throw invalid(`it lists ${path} twice`);
    paths.add(path);
  }
  for (const { path } of files) {
    for (let slash = path.indexOf("/"); slash >= 0; slash = path.indexOf("/", slash + 1)) {
      const directory = path.slice(0, slash);
      if (paths.has(directory)) throw invalid(`${directory} is both a file and a directory`);
    }
  }
}

function whole(digits: string, lineNumber: number): number {
  const value = Number(digits);
  if (!Number.isSafeInteger(value) || String(value) !== digits) {
    throw invalid(`line ${lineNumber} has the number ${digits.slice(0, 32)}`);
  }
  return value;
}

function invalid(detail: string): OfflineError {
  return new OfflineError("InvalidManifest", `invalid backup manifest: ${detail}`);
}
