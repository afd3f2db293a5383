import type { Codec } from "../runtime/codec.ts";
import type { DirectoryEntry, File, FileSystem } from "../runtime/file-system.ts";
import { FrameScanner } from "./frame-scanner.ts";
import { COLD_MANIFEST_FILE, parseSegmentName } from "./names.ts";
import { readExactly } from "./read-exactly.ts";
import {
  decodeSegmentHeader,
  SEGMENT_FOOTER_LENGTH,
  SEGMENT_HEADER_LENGTH,
  SegmentError,
  SegmentFlag,
  type SegmentHeader,
  segmentHeaderCrcHolds,
} from "./segment.ts";
import { lastNonZero, plausibleFooter, SegmentWalk } from "./segment-walk.ts";
import { mayHaveSettled } from "./settled.ts";
import { StorageError } from "./storage-error.ts";

/** A span of a segment whose records are lost. */
export interface Hole {
  /** Offsets [start, end). */
  readonly start: number;
  readonly end: number;
  /** File positions [startPosition, endPosition): what lies there is not to be read. */
  readonly startPosition: number;
  readonly endPosition: number;
}

/** A segment whose place in the log and whose end are known. */
export interface SegmentInfo {
  readonly id: number;
  readonly path: string;
  readonly baseOffset: number;
  readonly baseSequence: number;
  /** Wall clock at its creation, as its header says; undefined when that does not hold. */
  readonly createdUnixMs?: number;
  /** Offsets that it covers, those of its holes included. */
  readonly recordCount: number;
  /** File position after its last record. */
  readonly endPosition: number;
  /** It ends with a footer that holds. */
  readonly sealed: boolean;
  /** Ascending, disjoint. Those of a segment whose body was not read are not known yet. */
  readonly holes: readonly Hole[];
}

/** A segment whose header is known and whose body was not looked at. */
export interface SegmentFile {
  readonly id: number;
  readonly path: string;
  /** Length of the file, bytes. */
  readonly size: number;
  readonly header: SegmentHeader;
}

/** The segments of one log root, proved to follow each other. */
export interface SegmentChain {
  /** All but the last, ascending; each sealed. */
  readonly sealed: readonly SegmentInfo[];
  readonly last: SegmentFile | undefined;
  /** A file whose creation was cut before its header was there: it never held a record (storage.md 18.1 step 4). */
  readonly unborn: { readonly id: number; readonly path: string } | undefined;
}

/** A file that is named as a segment. */
export interface ListedFile {
  /** As the name says. */
  readonly id: number;
  readonly path: string;
  readonly size: number;
}

/**
 * Reads headers and footers of all segments below `root` and checks that they follow each other (storage.md 18.1 steps
 * 3, 4 and 6). With `fullScan` every body is read, otherwise a body is believed to be what its footer says and only the
 * last segment is left to be walked. Changes nothing. Throws StorageError and FileSystemError.
 */
export function inspectChain(files: FileSystem, codec: Codec, root: string, fullScan: boolean): SegmentChain {
  refuseOffloaded(files, root);
  const names = files.list(root);
  const listed = listSegments(files, root, names, ({ path }) => {
    throw new StorageError("OutOfRange", `${path}: no log has a segment with an id of 2^52 or more`);
  });
  const unborn = takeUnborn(files, codec, listed, () => mayHaveSettled(files, codec, root));
  const sealed: SegmentInfo[] = [];
  let scanner: FrameScanner | undefined;
  for (let i = 0; i < listed.length; i++) {
    const { id, path, size } = listed[i];
    const file = files.open(path, "read");
    try {
      const header = readHeader(file, size, codec, id);
      checkContinues(header, sealed.at(-1));
      const segment: SegmentFile = { id, path, size, header };
      if (i === listed.length - 1) return { sealed, last: segment, unborn };
      const footer = fullScan ? undefined : plausibleFooter(codec, file, header, size);
      if (footer !== undefined) {
        sealed.push(infoOf(segment, footer.recordCount, size - SEGMENT_FOOTER_LENGTH, true));
      } else {
        scanner ??= new FrameScanner(codec);
        sealed.push(walkSealed(codec, scanner, file, segment));
      }
    } finally {
      file.close();
    }
  }
  return { sealed, last: undefined, unborn };
}

/**
 * No log gets as far as this id, at a thousand new segments a second not in 100,000 years: a file without a header that is
 * named so is none of its segments, and to go on behind it would leave no ids.
 */
export const FOREIGN_SEGMENT_ID = 2 ** 52;

/**
 * The files of `names` that are segments by their names, ascending by id, but for those with ids which no log can have that
 * `isForeign` says true of. Their `id` is NaN above 2^53 - 1. Throws what `isForeign` throws.
 */
export function listSegments(
  files: FileSystem,
  root: string,
  names: readonly DirectoryEntry[],
  isForeign: (file: ListedFile) => boolean,
): ListedFile[] {
  const listed: ListedFile[] = [];
  for (const { name, kind } of names) {
    const id = kind === "file" ? parseSegmentName(name) : undefined;
    if (id === undefined) continue;
    const path = `${root}/${name}`;
    const safeId = id > BigInt(Number.MAX_SAFE_INTEGER) ? Number.NaN : Number(id);
    const file = { id: safeId, path, size: files.stat(path)?.size ?? 0 };
    if (safeId < FOREIGN_SEGMENT_ID || !isForeign(file)) listed.push(file);
  }
  return listed.sort((a, b) => a.id - b.id);
}

/** Refuses what has no shape that this build could look at. Throws StorageError UnsupportedFeature. */
export function refuseOffloaded(files: FileSystem, root: string): void {
  if (files.stat(`${root}/${COLD_MANIFEST_FILE}`) === undefined) return;
  throw new StorageError("UnsupportedFeature", `${root} has offloaded segments (${COLD_MANIFEST_FILE})`);
}

/** Refuses a segment written by a feature that this build does not have. Throws StorageError UnsupportedFeature. */
export function refuseUnsupported(header: SegmentHeader): void {
  const { segmentId, flags } = header;
  if (flags & SegmentFlag.Compacted) {
    throw new StorageError("UnsupportedFeature", `segment ${segmentId} is compacted, which this build cannot read`);
  }
  if (flags & SegmentFlag.Encrypted) {
    throw new StorageError("UnsupportedFeature", `segment ${segmentId} is encrypted, which this build cannot read`);
  }
}

/** SegmentInfo out of a segment's file and what was found of its body. */
export function infoOf(segment: SegmentFile, recordCount: number, endPosition: number, sealed: boolean): SegmentInfo {
  const { id, path } = segment;
  const { baseOffset, baseSequence } = segment.header;
  const createdUnixMs = Number(segment.header.createdUnixMs);
  return { id, path, baseOffset, baseSequence, createdUnixMs, recordCount, endPosition, sealed, holes: [] };
}

export function unsealedPredecessor(id: number): StorageError {
  return new StorageError("UnsealedPredecessor", `predecessor segment ${id} is not sealed`);
}

/**
 * Takes the highest segment out of the list if it never came to be: no header, and not a byte behind where the header
 * belongs. Beside other segments that is a cut creation. Alone it is one only as the very first segment of a log in which
 * no group has settled anything; otherwise records have been there, and what is left of them is not nothing.
 */
export function takeUnborn(
  files: FileSystem,
  codec: Codec,
  listed: ListedFile[],
  mayHaveHadRecords: () => boolean,
): { id: number; path: string } | undefined {
  const last = listed.at(-1);
  if (last === undefined) return undefined;
  const file = files.open(last.path, "read");
  try {
    const header = headerBytes(file, last.size);
    if (segmentHeaderCrcHolds(header, codec)) return undefined;
    if (listed.length === 1 && (last.id !== 0 || header.some((byte) => byte !== 0) || mayHaveHadRecords())) {
      return undefined;
    }
    if (lastNonZero(file, SEGMENT_HEADER_LENGTH, last.size) > SEGMENT_HEADER_LENGTH) return undefined;
  } finally {
    file.close();
  }
  listed.pop();
  return { id: last.id, path: last.path };
}

function headerBytes(file: File, size: number): Uint8Array {
  const bytes = new Uint8Array(Math.min(size, SEGMENT_HEADER_LENGTH));
  readExactly(file, bytes, 0, bytes.length, 0);
  return bytes;
}

function readHeader(file: File, size: number, codec: Codec, id: number): SegmentHeader {
  let header: SegmentHeader;
  try {
    header = decodeSegmentHeader(headerBytes(file, size), codec);
  } catch (error) {
    if (!(error instanceof SegmentError)) throw error;
    throw new StorageError("SegmentDecode", `segment decode error: ${error.message} (segment ${id})`, { cause: error });
  }
  if (header.segmentId !== id) {
    throw new StorageError("SegmentIdMismatch", `segment file ${id} holds a header for segment ${header.segmentId}`);
  }
  refuseUnsupported(header);
  return header;
}

function checkContinues(header: SegmentHeader, previous: SegmentInfo | undefined): void {
  if (previous === undefined) return;
  const offset = previous.baseOffset + previous.recordCount;
  const sequence = previous.baseSequence + previous.recordCount;
  if (header.baseOffset === offset && header.baseSequence === sequence) return;
  throw new StorageError(
    "SegmentChainBroken",
    `segment ${header.segmentId} base (${header.baseOffset},${header.baseSequence}) ` +
      `does not continue from (${offset},${sequence})`,
  );
}

function walkSealed(codec: Codec, scanner: FrameScanner, file: File, segment: SegmentFile): SegmentInfo {
  const walk = new SegmentWalk(codec, scanner, file, segment.header, segment.size);
  while (walk.next() > 0);
  const outcome = walk.outcome();
  // A footer followed by zeros is repaired at the end of the log only; here the cut was synced before the next segment.
  if (!outcome.sealed || outcome.keepLength !== segment.size) throw unsealedPredecessor(segment.id);
  return infoOf(segment, outcome.recordCount, outcome.endPosition, true);
}
