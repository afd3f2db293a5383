import { type Codec, ScanStop } from "../runtime/codec.ts";
import type { ReadableFile } from "./byte-window.ts";
import type { FrameScanner } from "./frame-scanner.ts";
import type { LossEvent, LossReason } from "./loss-report.ts";
import { readExactly } from "./read-exactly.ts";
import { hasContradictoryFlags, MIN_FRAME_LENGTH } from "./record.ts";
import {
  decodeSegmentFooter,
  SEGMENT_FOOTER_LENGTH,
  SEGMENT_HEADER_LENGTH,
  SegmentError,
  type SegmentFooter,
  type SegmentHeader,
  segmentVersion,
} from "./segment.ts";
import { StorageError } from "./storage-error.ts";
import { MAX_OFFSET, viewOf } from "./u64.ts";

const ZERO_SEARCH_BYTES = 256 * 1024;

/** What a walk over a whole segment found (storage.md 6.2, 18.1 step 8, 18.2). */
export interface SegmentOutcome {
  readonly recordCount: number;
  /** End of the last intact record. */
  readonly endPosition: number;
  readonly sealed: boolean;
  /** Length the file should have: up to the footer's end when sealed, up to the last intact record otherwise. */
  readonly keepLength: number;
  /** What is behind the last intact record, unless that is nothing or zeros. */
  readonly loss: LossEvent | undefined;
}

/**
 * One pass over a segment of known header: frames first, then what the end means. `next()` until it returns 0, then
 * `outcome()`.
 */
export class SegmentWalk {
  readonly #codec: Codec;
  readonly #scanner: FrameScanner;
  readonly #file: ReadableFile;
  readonly #header: SegmentHeader;
  readonly #size: number;
  readonly #tolerant: boolean;
  #candidate: SegmentFooter | undefined;
  #sealed = false;

  /**
   * `size` is the file's length in bytes. `tolerant`: a frame of another sequence and a footer of another segment are damage
   * like any other, not an error. Throws FileSystemError, and StorageError OutOfRange.
   */
  constructor(
    codec: Codec,
    scanner: FrameScanner,
    file: ReadableFile,
    header: SegmentHeader,
    size: number,
    tolerant = false,
  ) {
    this.#codec = codec;
    this.#scanner = scanner;
    this.#file = file;
    this.#header = header;
    this.#size = size;
    this.#tolerant = tolerant;
    this.#candidate = footerAt(codec, file, size - SEGMENT_FOOTER_LENGTH, header, size);
    const bodyEnd = this.#candidate === undefined ? size : size - SEGMENT_FOOTER_LENGTH;
    const mostRecords = Math.ceil(size / MIN_FRAME_LENGTH);
    if (Math.max(header.baseOffset, header.baseSequence) + mostRecords > MAX_OFFSET) {
      throw new StorageError("OutOfRange", `segment ${header.segmentId} reaches above offset 2^53 - 1`);
    }
    scanner.begin(file, SEGMENT_HEADER_LENGTH, bodyEnd, header.baseSequence);
  }

  /**
   * The next intact frames: rows of the scanner's table, 0 at the end. Throws FileSystemError, and StorageError
   * FooterSegmentMismatch for a footer that fits the body and names another segment.
   */
  next(): number {
    for (;;) {
      const found = this.#scanner.next();
      if (found > 0) return found;
      const candidate = this.#candidate;
      if (candidate === undefined || this.#sealed) return 0;
      if (this.#scanner.position === this.#size - SEGMENT_FOOTER_LENGTH && this.#agrees(candidate)) {
        if (candidate.segmentId === this.#header.segmentId) {
          this.#sealed = true;
          return 0;
        }
        if (!this.#tolerant) {
          throw new StorageError(
            "FooterSegmentMismatch",
            `footer segment_id ${candidate.segmentId} does not match header ${this.#header.segmentId}`,
          );
        }
      }
      // Not a footer after all: its bytes are looked at as records.
      this.#candidate = undefined;
      this.#scanner.extend(this.#size);
    }
  }

  /** What the walk found, after next() returned 0. Throws FileSystemError and StorageError. */
  outcome(): SegmentOutcome {
    const scanner = this.#scanner;
    const endPosition = scanner.position;
    const base = { recordCount: scanner.count, endPosition };
    if (this.#sealed) return { ...base, sealed: true, keepLength: this.#size, loss: undefined };
    if (scanner.stop === ScanStop.SequenceMismatch && !this.#tolerant) {
      const found = viewOf(scanner.stoppedBytes()).getBigUint64(4, true);
      const expected = this.#header.baseSequence + scanner.count;
      throw new StorageError(
        "RecoveredSequenceMismatch",
        `record ${scanner.count} has sequence ${found}, expected ${expected}`,
      );
    }
    if (scanner.stop === ScanStop.Encrypted) {
      throw new StorageError("UnsupportedFeature", `segment ${this.#header.segmentId} holds an encrypted record`);
    }
    const writtenEnd = lastNonZero(this.#file, endPosition, this.#size);
    // A seal whose footer reached the disk and whose cut to length did not (end of storage.md 18.2).
    const footerEnd = endPosition + SEGMENT_FOOTER_LENGTH;
    if (writtenEnd > endPosition && writtenEnd <= footerEnd) {
      const footer = footerAt(this.#codec, this.#file, endPosition, this.#header, this.#size);
      if (footer !== undefined && footer.segmentId === this.#header.segmentId && this.#agrees(footer)) {
        return { ...base, sealed: true, keepLength: footerEnd, loss: undefined };
      }
    }
    const loss: LossEvent | undefined =
      writtenEnd === endPosition
        ? undefined
        : {
            segmentId: this.#header.segmentId,
            start: endPosition,
            end: writtenEnd,
            recordsLostEstimate: 1,
            reason: lossReason(scanner.stop, scanner.stoppedBytes()),
          };
    return { ...base, sealed: false, keepLength: endPosition, loss };
  }

  #agrees(footer: SegmentFooter): boolean {
    return footer.recordCount === this.#scanner.count && lastSequenceFits(footer, this.#header);
  }
}

/**
 * The footer at the end of a segment file if it can be true without a look at the body: intact, of this segment, its
 * counts in agreement with the header and the length. Undefined otherwise. Throws FileSystemError.
 */
export function plausibleFooter(
  codec: Codec,
  file: ReadableFile,
  header: SegmentHeader,
  size: number,
): SegmentFooter | undefined {
  const footer = footerAt(codec, file, size - SEGMENT_FOOTER_LENGTH, header, size);
  if (footer === undefined || footer.segmentId !== header.segmentId || !lastSequenceFits(footer, header)) {
    return undefined;
  }
  const bodyLength = size - SEGMENT_HEADER_LENGTH - SEGMENT_FOOTER_LENGTH;
  if (footer.recordCount === 0) return bodyLength === 0 ? footer : undefined;
  return footer.recordCount * MIN_FRAME_LENGTH <= bodyLength ? footer : undefined;
}

/** One past the last byte of file[start, end) that is not zero; `start` when all are. Throws FileSystemError. */
export function lastNonZero(file: ReadableFile, start: number, end: number): number {
  const bytes = new Uint8Array(Math.min(ZERO_SEARCH_BYTES, Math.max(0, end - start)));
  const zeros = new Uint8Array(bytes.length);
  let chunkEnd = end;
  while (chunkEnd > start) {
    const chunkStart = Math.max(start, chunkEnd - ZERO_SEARCH_BYTES);
    const length = chunkEnd - chunkStart;
    readExactly(file, bytes, 0, length, chunkStart);
    // Preallocation is most of what is looked at, and a compare of memory is many times faster than a loop.
    if (Buffer.compare(bytes.subarray(0, length), zeros.subarray(0, length)) !== 0) {
      let at = length;
      while (bytes[at - 1] === 0) at--;
      return chunkStart + at;
    }
    chunkEnd = chunkStart;
  }
  return start;
}

function footerAt(
  codec: Codec,
  file: ReadableFile,
  position: number,
  header: SegmentHeader,
  size: number,
): SegmentFooter | undefined {
  if (position < SEGMENT_HEADER_LENGTH || position + SEGMENT_FOOTER_LENGTH > size) return undefined;
  const bytes = new Uint8Array(SEGMENT_FOOTER_LENGTH);
  readExactly(file, bytes, 0, bytes.length, position);
  try {
    const footer = decodeSegmentFooter(bytes, codec);
    return footer.version === segmentVersion(header.flags) ? footer : undefined;
  } catch (error) {
    if (error instanceof SegmentError) return undefined;
    throw error;
  }
}

/** An empty sealed segment has no last record, so its field says nothing. */
function lastSequenceFits(footer: SegmentFooter, header: SegmentHeader): boolean {
  return footer.recordCount === 0 || footer.lastSequence === header.baseSequence + footer.recordCount - 1;
}

/** What storage.md 18.2 calls the damage that stopped a walk. */
export function lossReason(stop: ScanStop, frame: Uint8Array): LossReason {
  switch (stop) {
    case ScanStop.SequenceMismatch:
      return "SequenceGap";
    case ScanStop.Truncated:
      return "TornTail";
    case ScanStop.BadMagic:
    case ScanStop.UnsupportedVersion:
    case ScanStop.BadHeaderCrc:
    case ScanStop.TooLarge:
      return "CorruptRecordHeader";
    case ScanStop.BadLength:
      return hasContradictoryFlags(frame[3]) ? "CorruptRecordHeader" : "CorruptRecordBody";
    default:
      return "CorruptRecordBody";
  }
}
