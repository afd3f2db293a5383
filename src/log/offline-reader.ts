import {
  type Codec,
  FIELD_FLAGS,
  FIELD_HEADERS,
  FIELD_HEADERS_LENGTH,
  FIELD_KEY,
  FIELD_KEY_LENGTH,
  FIELD_PAYLOAD,
  FIELD_PAYLOAD_LENGTH,
  FIELD_TIMESTAMP,
  FIELDS,
} from "../runtime/codec.ts";
import { type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import type { ReadableFile } from "./byte-window.ts";
import { requireDataDirectory } from "./data-directory.ts";
import { FrameScanner } from "./frame-scanner.ts";
import { holeBehind } from "./gap-list.ts";
import { layoutNeedsMarker } from "./layout-marker.ts";
import { holeOf, lossOf } from "./log-survey.ts";
import type { LossEvent } from "./loss-report.ts";
import { PatchyFile } from "./patchy-file.ts";
import { planRecovery, type RecoveryMode, type RecoveryPlan } from "./recovery-plan.ts";
import { Salvage } from "./salvage.ts";
import { SEGMENT_HEADER_LENGTH } from "./segment.ts";
import { type Hole, type SegmentInfo, unsealedPredecessor } from "./segment-chain.ts";
import { viewOf } from "./u64.ts";

/** One record of a stopped log, valid until the iteration goes on. */
export interface OfflineRecord {
  readonly offset: number;
  readonly sequence: number;
  /** u64, as the producer gave it. */
  readonly timestampMs: bigint;
  /** Stored flag byte (storage.md 3.2). */
  readonly flags: number;
  readonly keyLength: number;
  readonly headersLength: number;
  readonly storedPayloadLength: number;
  readonly key: Uint8Array;
  readonly headers: Uint8Array;
  /** As stored: a compressed object when the COMPRESSED flag is set (`decompressPayload`). */
  readonly payload: Uint8Array;
}

/**
 * Reads the stopped log below `root` as it is, changing nothing and without a cap on what is damaged (storage.md 18.4).
 * Throws DataDirectoryError NotFound or NotADirectory, FileSystemError, and StorageError for what this build cannot read;
 * in mode `strict` also for a chain that does not hold.
 */
export function readLog(files: FileSystem, codec: Codec, root: string, recovery: RecoveryMode = "salvage"): OfflineLog {
  requireDataDirectory(files, root);
  layoutNeedsMarker(files, root, codec);
  return new OfflineLog(files, codec, planRecovery(files, codec, root, { recovery }), recovery);
}

/**
 * The records of a stopped log, and what is lost of it. Memory is one window (or one record, if that is larger) and the
 * list of what is lost.
 */
export class OfflineLog implements Iterable<OfflineRecord> {
  readonly earliestOffset: number;
  readonly #files: FileSystem;
  readonly #codec: Codec;
  readonly #plan: RecoveryPlan;
  readonly #recovery: RecoveryMode;
  /** By path: the holes of segments whose damage was met while their records were read. */
  readonly #holes = new Map<string, readonly Hole[]>();
  readonly #found: LossEvent[] = [];

  constructor(files: FileSystem, codec: Codec, plan: RecoveryPlan, recovery: RecoveryMode) {
    this.#files = files;
    this.#codec = codec;
    this.#plan = plan;
    this.#recovery = recovery;
    this.earliestOffset = plan.earliestOffset;
  }

  get segmentCount(): number {
    return this.#plan.segments.length;
  }

  [Symbol.iterator](): Iterator<OfflineRecord> {
    return this.records(0);
  }

  /**
   * The intact records from `fromOffset` on, in order; offsets of lost ones are left out. Throws FileSystemError; in mode
   * `strict` StorageError when the body of a segment turns out not to be what its footer says.
   */
  *records(fromOffset: number): Generator<OfflineRecord, void> {
    const scanner = new FrameScanner(this.#codec);
    for (const segment of this.#plan.segments) {
      if (segment.baseOffset + segment.recordCount > fromOffset) yield* this.#recordsOf(scanner, segment, fromOffset);
    }
  }

  /** What recovery would give up, and the damage that was met in the records read so far. */
  losses(): readonly LossEvent[] {
    return [...this.#plan.losses, ...this.#found];
  }

  *#recordsOf(scanner: FrameScanner, segment: SegmentInfo, fromOffset: number): Generator<OfflineRecord, void> {
    const { path, baseOffset, baseSequence, endPosition, recordCount } = segment;
    const shift = baseSequence - baseOffset;
    const opened = this.#files.open(path, "read");
    try {
      const file = this.#recovery === "strict" ? opened : new PatchyFile(opened);
      let holes = this.#holes.get(path) ?? segment.holes;
      let offset = baseOffset;
      let position = SEGMENT_HEADER_LENGTH;
      for (let index = 0; ; index++) {
        const hole = holes[index];
        const endOffset = hole?.start ?? baseOffset + recordCount;
        scanner.begin(file, position, hole?.startPosition ?? endPosition, offset + shift, endOffset + shift);
        for (let found = scanner.next(); found > 0; found = scanner.next()) {
          for (let row = Math.max(0, fromOffset - offset); row < found; row++) {
            yield new ScannedRecord(scanner, row, offset + row, offset + row + shift);
          }
          offset += found;
        }
        if (offset < endOffset) {
          if (this.#recovery === "strict") throw unsealedPredecessor(segment.id);
          holes = this.#salvage(segment, file);
          index = holeBehind(holes, offset) - 1;
          if (holes[index + 1]?.start !== offset) throw new FileSystemError("EIO", "read", path, "file changes");
          continue;
        }
        if (hole === undefined) return;
        offset = hole.end;
        position = hole.endPosition;
      }
    } finally {
      opened.close();
    }
  }

  /** The holes of a segment of which the body is not what its footer says. */
  #salvage(segment: SegmentInfo, file: ReadableFile): readonly Hole[] {
    const { id, path, baseOffset, baseSequence, recordCount, endPosition } = segment;
    const from = { position: SEGMENT_HEADER_LENGTH, sequence: baseSequence };
    const to = { position: endPosition, sequence: baseSequence + recordCount };
    const spans = new Salvage(this.#codec, file).between(from, to);
    const holes = spans.map((span) => holeOf(span, baseOffset - baseSequence));
    this.#holes.set(path, holes);
    this.#found.push(...spans.map((span) => lossOf(span, id)));
    return holes;
  }
}

/** A row of the scanner's table; the bytes are looked at only when they are asked for. */
class ScannedRecord implements OfflineRecord {
  readonly offset: number;
  readonly sequence: number;
  readonly #window: Uint8Array;
  readonly #table: Int32Array;
  readonly #row: number;

  constructor(scanner: FrameScanner, row: number, offset: number, sequence: number) {
    this.offset = offset;
    this.sequence = sequence;
    this.#window = scanner.window;
    this.#table = scanner.table;
    this.#row = row * FIELDS;
  }

  get timestampMs(): bigint {
    return viewOf(this.#window).getBigUint64(this.#table[this.#row + FIELD_TIMESTAMP], true);
  }

  get flags(): number {
    return this.#table[this.#row + FIELD_FLAGS];
  }

  get keyLength(): number {
    return this.#table[this.#row + FIELD_KEY_LENGTH];
  }

  get headersLength(): number {
    return this.#table[this.#row + FIELD_HEADERS_LENGTH];
  }

  get storedPayloadLength(): number {
    return this.#table[this.#row + FIELD_PAYLOAD_LENGTH];
  }

  get key(): Uint8Array {
    return this.#bytes(FIELD_KEY, this.keyLength);
  }

  get headers(): Uint8Array {
    return this.#bytes(FIELD_HEADERS, this.headersLength);
  }

  get payload(): Uint8Array {
    return this.#bytes(FIELD_PAYLOAD, this.storedPayloadLength);
  }

  #bytes(field: number, length: number): Uint8Array {
    const start = this.#table[this.#row + field];
    return this.#window.subarray(start, start + length);
  }
}
