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
import type { FileSystem } from "../runtime/file-system.ts";
import { requireDataDirectory } from "./data-directory.ts";
import { FrameScanner } from "./frame-scanner.ts";
import { layoutNeedsMarker } from "./layout-marker.ts";
import type { LossEvent } from "./loss-report.ts";
import { unbornLoss } from "./recovery-plan.ts";
import { inspectChain, type SegmentChain, type SegmentFile, unsealedPredecessor } from "./segment-chain.ts";
import { SegmentWalk } from "./segment-walk.ts";
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
 * Throws DataDirectoryError NotFound or NotADirectory, StorageError for a chain that does not hold, and FileSystemError.
 */
export function readLog(files: FileSystem, codec: Codec, root: string): OfflineLog {
  requireDataDirectory(files, root);
  layoutNeedsMarker(files, root, codec);
  return new OfflineLog(files, codec, inspectChain(files, codec, root, false));
}

/** The records of a stopped log, and what is behind them. Memory is one window (or one record, if that is larger). */
export class OfflineLog implements Iterable<OfflineRecord> {
  readonly segmentCount: number;
  readonly earliestOffset: number;
  readonly #files: FileSystem;
  readonly #codec: Codec;
  readonly #chain: SegmentChain;
  #lastLoss: readonly LossEvent[] | undefined;

  constructor(files: FileSystem, codec: Codec, chain: SegmentChain) {
    this.#files = files;
    this.#codec = codec;
    this.#chain = chain;
    this.segmentCount = chain.sealed.length + (chain.last === undefined ? 0 : 1);
    this.earliestOffset = chain.sealed[0]?.baseOffset ?? chain.last?.header.baseOffset ?? 0;
  }

  [Symbol.iterator](): Iterator<OfflineRecord> {
    return this.records(0);
  }

  /**
   * The intact records from `fromOffset` on, in order. Throws FileSystemError, and StorageError when the body of a
   * segment turns out not to be what its footer says.
   */
  *records(fromOffset: number): Generator<OfflineRecord, void> {
    const scanner = new FrameScanner(this.#codec);
    const { sealed, sealedFiles, last } = this.#chain;
    for (let i = 0; i < sealed.length; i++) {
      if (sealed[i].baseOffset + sealed[i].recordCount <= fromOffset) continue;
      yield* this.#walk(scanner, sealedFiles[i], fromOffset, false);
    }
    if (last !== undefined) yield* this.#walk(scanner, last, fromOffset, true);
  }

  /** What recovery would cut off, whether or not the records were read to the end. Throws as records() does. */
  losses(): readonly LossEvent[] {
    const { last, unborn } = this.#chain;
    if (this.#lastLoss === undefined && last !== undefined) {
      for (const _ of this.#walk(new FrameScanner(this.#codec), last, Number.POSITIVE_INFINITY, true));
    }
    return [...(unborn === undefined ? [] : [unbornLoss(unborn.id)]), ...(this.#lastLoss ?? [])];
  }

  *#walk(
    scanner: FrameScanner,
    segment: SegmentFile,
    fromOffset: number,
    isLast: boolean,
  ): Generator<OfflineRecord, void> {
    const file = this.#files.open(segment.path, "read");
    try {
      const walk = new SegmentWalk(this.#codec, scanner, file, segment.header, segment.size);
      const sequenceShift = segment.header.baseSequence - segment.header.baseOffset;
      let offset = segment.header.baseOffset;
      for (let found = walk.next(); found > 0; found = walk.next()) {
        for (let row = Math.max(0, fromOffset - offset); row < found; row++) {
          yield new ScannedRecord(scanner, row, offset + row, offset + row + sequenceShift);
        }
        offset += found;
      }
      const outcome = walk.outcome();
      if (isLast) this.#lastLoss = outcome.loss === undefined ? [] : [outcome.loss];
      else if (!outcome.sealed) throw unsealedPredecessor(segment.id);
    } finally {
      file.close();
    }
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
