import {
  type Codec,
  Compression,
  FIELD_HEADERS_LENGTH,
  FIELD_KEY_LENGTH,
  FIELD_PAYLOAD_LENGTH,
  FIELDS,
} from "../runtime/codec.ts";
import { DIRECT_BLOCK_BYTES, type File, type FileSystem } from "../runtime/file-system.ts";
import type { Admission } from "./admission.ts";
import { type Batch, BatchPool } from "./batch.ts";
import { segmentName } from "./names.ts";
import {
  encodeSegmentFooter,
  MAX_RECORDS_PER_SEGMENT,
  SEGMENT_FOOTER_LENGTH,
  SEGMENT_HEADER_LENGTH,
} from "./segment.ts";
import { SegmentEntry } from "./segment-entry.ts";
import { TailBlock, wholeBlocks } from "./tail-block.ts";

/** Documented cap of one barrier's bytes (storage.md 14.2); larger buffered writes also get slower per byte. */
const BATCH_BYTES = 1024 * 1024;
const MIN_BATCH_BYTES = 64 * 1024;
/** After this long without an append the spare buffers are given back. */
const IDLE_MS = 5_000;
/** Frame overhead of a record with both checksums (storage.md 3.4). */
const RECORD_OVERHEAD_BYTES = 36 + 8 + 8;

export interface PendingOptions {
  readonly root: string;
  readonly maxSegmentBytes: number;
  readonly maxPendingBytes: number;
  /** Batches are written around the page cache, in whole blocks (storage.md 16). Default false. */
  readonly directWrites?: boolean;
  /** How payloads are stored. Default: as they are. */
  readonly compression?: Compression;
}

/**
 * The records that are appended and not yet with the I/O thread. Mints offsets and sequences, seals records into batches
 * (one that is being filled, closed ones that wait behind it), and plans the segments that they go to (storage.md 14.1).
 */
export class PendingRecords {
  readonly #options: PendingOptions;
  readonly #files: FileSystem;
  readonly #codec: Codec;
  readonly #pool: BatchPool;
  readonly #admission: Admission;
  readonly #headerOf: (segment: SegmentEntry) => Uint8Array;
  /** Most bytes of records in one batch, unless it is a single record. */
  readonly #batchBytes: number;
  /** Of the segment being filled, with direct writes. */
  readonly #tailBlock: TailBlock | undefined;
  readonly #result = new Float64Array(4);

  #nextOffset: number;
  #nextSequence: number;
  /** The segment that records are being sealed for; its file may still have to be created. */
  #fillSegment: SegmentEntry;
  #filling: Batch | undefined;
  /** Closed batches, oldest first. */
  #waiting: Batch[] = [];
  #largePending = false;
  /** Where trimIdle() found the log, and since when. */
  #offsetSeen = 0;
  #offsetSeenMs = 0;

  /**
   * `last` is the segment to go on with, its file open; without one, segment `nextSegmentId` is planned. `headerOf` makes the
   * header of a planned segment. Throws FileSystemError.
   */
  constructor(
    options: PendingOptions,
    start: { readonly nextSegmentId: number; readonly nextOffset: number; readonly nextSequence: number },
    last: SegmentEntry | undefined,
    files: FileSystem,
    codec: Codec,
    headerOf: (segment: SegmentEntry) => Uint8Array,
    admission: Admission,
  ) {
    this.#options = options;
    this.#files = files;
    this.#codec = codec;
    this.#headerOf = headerOf;
    this.#admission = admission;
    this.#nextOffset = start.nextOffset;
    this.#nextSequence = start.nextSequence;
    // Never more than a segment: recovery takes a larger torn end for more than a power cut (storage.md 19).
    const batchBytes = Math.min(
      options.maxSegmentBytes,
      Math.max(MIN_BATCH_BYTES, Math.min(BATCH_BYTES, options.maxPendingBytes / 2)),
    );
    this.#batchBytes = batchBytes;
    this.#tailBlock = options.directWrites ? new TailBlock() : undefined;
    // Of a buffer for tiny segments the block that is carried over would take all.
    const carried = batchBytes < MIN_BATCH_BYTES ? DIRECT_BLOCK_BYTES : 0;
    const bufferBytes = options.directWrites ? wholeBlocks(batchBytes + carried) : batchBytes;
    this.#pool = new BatchPool(options.maxPendingBytes, bufferBytes, (length) => files.alignedBuffer(length));
    this.#fillSegment = this.#goOnWith(last) ?? this.#planSegment(start.nextSegmentId);
  }

  /** Offset of the next record to be appended. */
  get nextOffset(): number {
    return this.#nextOffset;
  }

  /** Whether an append would take something, unless its first record is one of the largest. */
  get hasRoom(): boolean {
    return this.#filling !== undefined || this.#pool.spare;
  }

  /** Largest key + headers + payload that is accepted: the record cap is 16 MiB, and below a segment (storage.md 3.4). */
  get maxBodyBytes(): number {
    return Math.min(16 * 1024 * 1024, this.#options.maxSegmentBytes - 1) - RECORD_OVERHEAD_BYTES;
  }

  /** The segment of the oldest record here, or the one that the next record goes to. */
  get nextSegment(): SegmentEntry {
    return this.#waiting[0]?.segment ?? this.#fillSegment;
  }

  /** Seals rows [first, end) of `table`; returns how many there was room and allowance for. */
  append(chunk: Uint8Array, table: Int32Array, first: number, end: number): number {
    let at = first;
    while (at < end) {
      const allowance = this.#admission.allowance;
      if (allowance === 0) break;
      const batch = this.#filling ?? this.#startBatch();
      if (batch === undefined) break;
      const segment = batch.segment;
      const room = this.#options.maxSegmentBytes - segment.end;
      if ((room <= 0 && segment.count > 0) || segment.count >= MAX_RECORDS_PER_SEGMENT) {
        // A record as large as the segment and the footer are two writes, for the same reason as the batch's size.
        if (batch.end - batch.start + SEGMENT_FOOTER_LENGTH > this.#options.maxSegmentBytes) {
          this.#closeFilling();
        } else {
          this.#sealFilling(batch);
        }
        continue;
      }
      // An empty segment takes one record whatever its size; a full one takes none.
      const stopAt = batch.end + Math.min(segment.count === 0 ? Math.max(room, 1) : room, allowance);
      const written = this.#codec.seal(
        chunk,
        table,
        at,
        end,
        batch.buffer,
        batch.end,
        batch.limit,
        stopAt,
        this.#nextSequence,
        this.#result,
        this.#options.compression ?? Compression.None,
      );
      if (written === 0) {
        if (batch.count > 0) this.#closeFilling();
        else if (!this.#enlarge(batch, table, at)) break;
        continue;
      }
      const sealedEnd = this.#result[0];
      segment.addAnchor(this.#nextOffset, batch.position + batch.end);
      segment.count += written;
      segment.end += sealedEnd - batch.end;
      this.#admission.appended(sealedEnd - batch.end);
      batch.end = sealedEnd;
      batch.count += written;
      batch.bodyBytes += bodyBytesOf(table, at, at + written);
      this.#nextOffset += written;
      this.#nextSequence += written;
      at += written;
    }
    return at - first;
  }

  /**
   * What the I/O thread may have next. While it works on a batch of segment `behind`, only a full one of the same segment
   * goes behind it: the thread need not wait for this one then, and batches do not become smaller.
   */
  take(behind: SegmentEntry | undefined): Batch | undefined {
    if (behind !== undefined && this.#waiting[0]?.segment !== behind) return undefined;
    const waiting = this.#waiting.shift();
    if (waiting !== undefined) return waiting;
    if (behind !== undefined) return undefined;
    const filling = this.#filling;
    if (filling === undefined || filling.count === 0) return undefined;
    this.#closeFilling();
    return this.#waiting.shift();
  }

  /** Takes a batch back that cannot be written yet; it is the next one again. */
  putBack(batch: Batch): void {
    this.#waiting.unshift(batch);
  }

  /** The batch is written or given up. `free` is its buffer, or another one in its place; undefined if somebody keeps it. */
  release(batch: Batch, free: Uint8Array | undefined): void {
    if (batch.buffer.length > this.#pool.batchBytes) this.#largePending = false;
    this.#pool.give(free);
  }

  /** Forgets all records here. */
  drop(): void {
    this.#closeFilling();
    for (const batch of this.#waiting) this.release(batch, batch.buffer);
    this.#waiting = [];
  }

  /** After drop(): offsets are minted again from `offset` on, for `last` if it can go on, else for a segment `nextSegmentId`. */
  mintFrom(offset: number, last: SegmentEntry | undefined, nextSegmentId: number): void {
    this.#nextSequence -= this.#nextOffset - offset;
    this.#nextOffset = offset;
    this.#fillSegment = this.#goOnWith(last) ?? this.#planSegment(nextSegmentId);
  }

  /** To be called a few times a second while nothing is being written: frees spare buffers once traffic has stopped. */
  trimIdle(nowMs: number): boolean {
    if (this.#nextOffset !== this.#offsetSeen) {
      this.#offsetSeen = this.#nextOffset;
      this.#offsetSeenMs = nowMs;
      return false;
    }
    const trims = nowMs - this.#offsetSeenMs >= IDLE_MS && this.#filling === undefined;
    if (trims) this.#pool.trim();
    return trims;
  }

  #startBatch(): Batch | undefined {
    const buffer = this.#pool.take();
    if (buffer === undefined) return undefined;
    const start = this.#tailBlock?.carryOver(buffer) ?? 0;
    this.#filling = {
      buffer,
      start,
      end: start,
      limit: Math.min(start + this.#batchBytes, buffer.length) - SEGMENT_FOOTER_LENGTH,
      segment: this.#fillSegment,
      position: this.#fillSegment.end - start,
      baseOffset: this.#nextOffset,
      count: 0,
      bodyBytes: 0,
      seals: false,
    };
    return this.#filling;
  }

  #closeFilling(): void {
    if (this.#filling === undefined) return;
    this.#tailBlock?.keep(this.#filling.buffer, this.#filling.end);
    this.#waiting.push(this.#filling);
    this.#filling = undefined;
  }

  /** The filling batch ends its segment: its footer follows the records in the same write. */
  #sealFilling(batch: Batch): void {
    const segment = batch.segment;
    const footer = encodeSegmentFooter(
      { segmentId: segment.id, lastSequence: this.#nextSequence - 1, recordCount: segment.count },
      this.#codec,
    );
    batch.buffer.set(footer, batch.end);
    batch.end += SEGMENT_FOOTER_LENGTH;
    batch.seals = true;
    this.#admission.sealed(SEGMENT_FOOTER_LENGTH);
    this.#closeFilling();
    this.#fillSegment = this.#planSegment(segment.id + 1);
  }

  /** Gives an empty batch a buffer that holds record `row` alone. One such buffer at a time: it may be 16 MiB. */
  #enlarge(batch: Batch, table: Int32Array, row: number): boolean {
    const limit = batch.start + bodyBytesOf(table, row, row + 1) + RECORD_OVERHEAD_BYTES;
    const length = limit + SEGMENT_FOOTER_LENGTH;
    if (batch.limit < limit && length <= batch.buffer.length) {
      // Of tiny segments the records of a batch end long before its buffer does.
      batch.limit = limit;
      return true;
    }
    if (this.#largePending) return false;
    const spare = batch.buffer;
    batch.limit = limit;
    batch.buffer = this.#files.alignedBuffer(this.#tailBlock === undefined ? length : wholeBlocks(length));
    batch.buffer.set(spare.subarray(0, batch.start));
    this.#pool.restore(spare);
    this.#largePending = true;
    return true;
  }

  #planSegment(id: number): SegmentEntry {
    const path = `${this.#options.root}/${segmentName(id)}`;
    const segment = new SegmentEntry(id, path, this.#nextOffset, this.#nextSequence, SEGMENT_HEADER_LENGTH);
    segment.header = this.#headerOf(segment);
    this.#tailBlock?.begin(segment.header);
    return segment;
  }

  #goOnWith(segment: SegmentEntry | undefined): SegmentEntry | undefined {
    if (segment !== undefined) this.#tailBlock?.readBack(segment.file as File, segment.end);
    return segment;
  }
}

function bodyBytesOf(table: Int32Array, first: number, end: number): number {
  let bytes = 0;
  for (let at = first * FIELDS; at < end * FIELDS; at += FIELDS) {
    bytes += table[at + FIELD_KEY_LENGTH] + table[at + FIELD_HEADERS_LENGTH] + table[at + FIELD_PAYLOAD_LENGTH];
  }
  return bytes;
}
