import type { Clock } from "../runtime/clock.ts";
import { type Codec, FIELD_HEADERS_LENGTH, FIELD_KEY_LENGTH, FIELD_PAYLOAD_LENGTH, FIELDS } from "../runtime/codec.ts";
import type { Barrier, File, FileSystem, FileSystemError, IoQueue } from "../runtime/file-system.ts";
import { type Batch, BatchPool } from "./batch.ts";
import { BarrierPolicy, type Durability } from "./durability.ts";
import { identityProblem } from "./file-identity.ts";
import { segmentName } from "./names.ts";
import {
  encodeSegmentFooter,
  MAX_RECORDS_PER_SEGMENT,
  SEGMENT_FOOTER_LENGTH,
  SEGMENT_HEADER_LENGTH,
} from "./segment.ts";
import { SegmentEntry } from "./segment-entry.ts";
import { SegmentMaker } from "./segment-maker.ts";

/** Documented cap of one barrier's bytes (storage.md 14.2); larger buffered writes also get slower per byte. */
const BATCH_BYTES = 1024 * 1024;
/** Frame overhead of a record with both checksums (storage.md 3.4). */
const RECORD_OVERHEAD_BYTES = 36 + 8 + 8;
/** Below this a relaxed-level write is cheaper on the main thread than the hand-over to the I/O thread. */
const DIRECT_WRITE_BYTES = 64 * 1024;
/** Batches that the I/O thread may have: the one it works on, and the next. */
const MAX_FLYING = 2;
/** How often the active file's path is compared with the open inode (README ruling 12). */
const IDENTITY_CHECK_MS = 500;
/** After this long without an append the spare batches are given back. */
const IDLE_MS = 5_000;

export interface WriterOptions {
  readonly root: string;
  readonly maxSegmentBytes: number;
  readonly maxPendingBytes: number;
  readonly durability: Durability;
}

/** Where the writer goes on after recovery. */
export interface WriterStart {
  /** All segments, ascending; an unsealed last one is resumed, otherwise a new one is created. */
  readonly segments: SegmentEntry[];
  readonly nextSegmentId: number;
  readonly nextOffset: number;
  readonly nextSequence: number;
}

export interface WriterEvents {
  /** A head moved, or room was made. */
  advanced(): void;
  /** Records from this offset on were given up before they were written; their offsets will be used again. */
  rejected(fromOffset: number): void;
  /** A write or barrier failed. Nothing will be appended any more. */
  froze(error: Error): void;
}

/**
 * The one writer of a log: mints offsets, seals records into batches, and has one batch at a time written and synced
 * (storage.md 14). A failed write or barrier freezes it for good; the barrier is never tried again (storage.md 17).
 */
export class LogWriter {
  readonly segments: SegmentEntry[];
  readonly #options: WriterOptions;
  readonly #files: FileSystem;
  readonly #codec: Codec;
  readonly #clock: Clock;
  readonly #events: WriterEvents;
  readonly #queue: IoQueue;
  readonly #directory: File;
  readonly #maker: SegmentMaker;
  readonly #pool: BatchPool;
  readonly #policy: BarrierPolicy;
  readonly #result = new Float64Array(4);

  #nextOffset: number;
  #nextSequence: number;
  #visibleHead: number;
  #durableHead: number;
  /** The segment that records are being sealed for; its file may still have to be created. */
  #fillSegment: SegmentEntry;
  #filling: Batch | undefined;
  /** Closed batches that wait for the one in flight. */
  #waiting: Batch[] = [];
  #largePending = false;
  /** A segment is being made, or a barrier of its own runs: nothing else may. */
  #busy = false;
  /** Batches with the I/O thread. It takes them one by one, so there is one barrier at a time. */
  #flying = 0;
  /** The segment of the last of them. */
  #flyingSegment: SegmentEntry | undefined;
  /** Where a write or barrier failed: cleaned up once nothing is under way any more. */
  #doubtful: SegmentEntry | undefined;
  #batchStartedMs: number | undefined;
  #pumping = false;
  #frozen: Error | undefined;
  #lastIdentityCheckMs: number;
  #lastSeenOffset = 0;
  #lastAppendMs = 0;
  #closing: (() => void) | undefined;

  constructor(
    options: WriterOptions,
    start: WriterStart,
    files: FileSystem,
    codec: Codec,
    clock: Clock,
    events: WriterEvents,
  ) {
    this.#options = options;
    this.#files = files;
    this.#codec = codec;
    this.#clock = clock;
    this.#events = events;
    this.segments = start.segments;
    this.#nextOffset = start.nextOffset;
    this.#nextSequence = start.nextSequence;
    this.#visibleHead = start.nextOffset;
    this.#durableHead = start.nextOffset;
    // Never more than a segment: recovery takes a larger torn end for more than a power cut (storage.md 19).
    const batchBytes = Math.min(
      options.maxSegmentBytes,
      Math.max(64 * 1024, Math.min(BATCH_BYTES, options.maxPendingBytes / 2)),
    );
    this.#pool = new BatchPool(options.maxPendingBytes, batchBytes, (length) => files.alignedBuffer(length));
    this.#policy = new BarrierPolicy(options.durability, clock.monotonicMs());
    this.#lastIdentityCheckMs = clock.monotonicMs();
    this.#queue = files.createQueue();
    this.#directory = files.openDirectory(options.root);
    this.#maker = new SegmentMaker({ files, codec, clock }, this.#queue, this.#directory, options.maxSegmentBytes);
    const last = start.segments[start.segments.length - 1];
    if (last !== undefined && !last.sealed) {
      this.#fillSegment = last;
      last.file = this.#maker.resume(last);
    } else {
      const first = this.#planSegment(start.nextSegmentId);
      this.#fillSegment = first;
      first.file = this.#maker.createNow(first);
      this.segments.push(first);
    }
  }

  /** Offset of the next record to be appended. */
  get nextOffset(): number {
    return this.#nextOffset;
  }

  /** Exclusive bound of what consumers may see. */
  get visibleHead(): number {
    return this.#visibleHead;
  }

  /** Exclusive bound of what a completed barrier covers. */
  get durableHead(): number {
    return this.#durableHead;
  }

  /** Why the writer stopped for good, if it did. */
  get frozen(): Error | undefined {
    return this.#frozen;
  }

  /** Monotonic time at which the I/O thread began the batch or barrier that it is at; undefined when it is at none. */
  get batchStartedMs(): number | undefined {
    return this.#batchStartedMs;
  }

  /** Whether an append would take something, unless its first record is one of the largest. */
  get hasRoom(): boolean {
    return this.#filling !== undefined || this.#pool.spare;
  }

  /** Largest key + headers + payload that is accepted: the record cap is 16 MiB, and below a segment (storage.md 3.4). */
  get maxBodyBytes(): number {
    return Math.min(16 * 1024 * 1024, this.#options.maxSegmentBytes - 1) - RECORD_OVERHEAD_BYTES;
  }

  /**
   * Appends rows [first, end) of `table` (positions into `chunk`), which become the records `nextOffset`, ... Returns
   * how many were taken: fewer when the pending bound is reached (go on at `advanced`), 0 once frozen. Nothing is
   * acknowledged by this; call pump() when the turn's appends are done.
   */
  append(chunk: Uint8Array, table: Int32Array, first: number, end: number): number {
    let at = first;
    while (at < end && this.#frozen === undefined) {
      const batch = this.#filling ?? this.#startBatch();
      if (batch === undefined) break;
      const segment = batch.segment;
      const room = this.#options.maxSegmentBytes - segment.end;
      if ((room <= 0 && segment.count > 0) || segment.count >= MAX_RECORDS_PER_SEGMENT) {
        // A record as large as the segment and the footer are two writes, for the same reason as the batch's size.
        if (batch.end + SEGMENT_FOOTER_LENGTH > this.#options.maxSegmentBytes) {
          this.#closeFilling();
        } else {
          this.#sealFilling(batch);
        }
        continue;
      }
      // An empty segment takes one record whatever its size; a full one takes none.
      const stopAt = batch.end + (segment.count === 0 ? Math.max(room, 1) : room);
      const limit = batch.buffer.length - SEGMENT_FOOTER_LENGTH;
      const written = this.#codec.seal(
        chunk,
        table,
        at,
        end,
        batch.buffer,
        batch.end,
        limit,
        stopAt,
        this.#nextSequence,
        this.#result,
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
      batch.end = sealedEnd;
      batch.count += written;
      this.#nextOffset += written;
      this.#nextSequence += written;
      at += written;
    }
    return at - first;
  }

  /** Hands the next batch to the I/O thread if it is free. Call it whenever a turn's work has been appended. */
  pump(): void {
    // A write done on this thread completes inside the loop and may lead back here through `advanced`.
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      while (!this.#busy && this.#frozen === undefined && this.#flying < MAX_FLYING) {
        const batch = this.#nextBatch();
        if (batch === undefined) break;
        if (batch.segment.file === undefined) this.#create(batch.segment, batch);
        else this.#write(batch);
      }
    } finally {
      this.#pumping = false;
    }
    this.#finishClosing();
  }

  /** To be called a few times a second: late barriers of level `interval`, the identity check, spare memory. */
  tick(): void {
    if (this.#frozen !== undefined || this.#busy || this.#flying > 0) return;
    if (!this.#checkIdentity()) return;
    const nowMs = this.#clock.monotonicMs();
    if (this.#policy.overdue(nowMs)) this.#barrierOnly();
    if (this.#nextOffset !== this.#lastSeenOffset) {
      this.#lastSeenOffset = this.#nextOffset;
      this.#lastAppendMs = nowMs;
    } else if (nowMs - this.#lastAppendMs >= IDLE_MS && this.#filling === undefined) {
      this.#pool.trim();
    }
  }

  /** Writes and syncs what is pending, at every durability level, then releases the files. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#closing = () => {
        this.#queue.close(() => {
          for (const segment of this.segments) segment.file?.close();
          this.#directory.close();
          resolve();
        });
      };
      this.pump();
    });
  }

  #finishClosing(): void {
    if (this.#closing === undefined || this.#busy || this.#flying > 0) return;
    if (this.#frozen === undefined && this.#policy.unsyncedBytes > 0) {
      this.#barrierOnly();
      return;
    }
    const done = this.#closing;
    this.#closing = undefined;
    done();
  }

  #startBatch(): Batch | undefined {
    const buffer = this.#pool.take();
    if (buffer === undefined) return undefined;
    this.#filling = {
      buffer,
      end: 0,
      segment: this.#fillSegment,
      position: this.#fillSegment.end,
      baseOffset: this.#nextOffset,
      count: 0,
      seals: false,
    };
    return this.#filling;
  }

  #closeFilling(): void {
    if (this.#filling === undefined) return;
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
    this.#closeFilling();
    this.#fillSegment = this.#planSegment(segment.id + 1);
  }

  /** Gives an empty batch a buffer that holds record `row` alone. One such buffer at a time: it may be 16 MiB. */
  #enlarge(batch: Batch, table: Int32Array, row: number): boolean {
    if (this.#largePending) return false;
    const at = row * FIELDS;
    const body = table[at + FIELD_KEY_LENGTH] + table[at + FIELD_HEADERS_LENGTH] + table[at + FIELD_PAYLOAD_LENGTH];
    const spare = batch.buffer;
    batch.buffer = this.#files.alignedBuffer(body + RECORD_OVERHEAD_BYTES + SEGMENT_FOOTER_LENGTH);
    this.#pool.restore(spare);
    this.#largePending = true;
    return true;
  }

  /**
   * What the I/O thread may have next. While it has a batch, only a full one of the same segment goes behind it: the thread
   * need not wait for this one then, and batches do not become smaller.
   */
  #nextBatch(): Batch | undefined {
    if (this.#flying > 0 && this.#waiting[0]?.segment !== this.#flyingSegment) return undefined;
    const waiting = this.#waiting.shift();
    if (waiting !== undefined) return waiting;
    if (this.#flying > 0) return undefined;
    const filling = this.#filling;
    if (filling === undefined || filling.count === 0) return undefined;
    this.#filling = undefined;
    return filling;
  }

  #write(batch: Batch): void {
    const file = batch.segment.file as File;
    const nowMs = this.#clock.monotonicMs();
    const barrier: Barrier = batch.seals ? "full" : this.#policy.wantsBarrier(batch.end, nowMs) ? "data" : "none";
    const alone = this.#flying === 0;
    this.#flying += 1;
    if (alone) this.#batchStartedMs = nowMs;
    this.#flyingSegment = batch.segment;
    if (barrier === "none" && alone && batch.end <= DIRECT_WRITE_BYTES) {
      try {
        file.write(batch.buffer, 0, batch.end, batch.position);
      } catch (error) {
        this.#written(batch, barrier, error as FileSystemError);
        return;
      }
      this.#written(batch, barrier, undefined);
      return;
    }
    this.#queue.submit({
      file,
      write: { buffer: batch.buffer, offset: 0, length: batch.end, position: batch.position },
      truncateTo: batch.seals ? batch.position + batch.end : undefined,
      barrier,
      // At the levels without a barrier the one of the next roll would have a whole segment to write.
      writeback: true,
      done: (error) => {
        this.#written(batch, barrier, error);
      },
    });
  }

  #written(batch: Batch, barrier: Barrier, error: Error | undefined): void {
    this.#flying -= 1;
    this.#batchStartedMs = this.#flying > 0 ? this.#clock.monotonicMs() : undefined;
    if (error !== undefined) this.#fail(error, batch.segment);
    if (this.#frozen !== undefined) {
      // Whatever comes of a batch behind a failed one, nobody may be told of it.
      this.#cleanUp();
      return;
    }
    this.#policy.written(batch.end);
    if (barrier !== "none" && !this.#checkIdentity()) return;
    const segment = batch.segment;
    this.#visibleHead = batch.baseOffset + batch.count;
    segment.visibleEnd = batch.position + batch.end - (batch.seals ? SEGMENT_FOOTER_LENGTH : 0);
    if (barrier !== "none") {
      this.#durableHead = this.#visibleHead;
      this.#policy.synced(this.#clock.monotonicMs());
    }
    if (batch.buffer.length > this.#pool.batchBytes) this.#largePending = false;
    this.#pool.give(batch.buffer);
    if (batch.seals) {
      segment.sealed = true;
      segment.file?.close();
      segment.file = undefined;
      const next = this.#waiting[0]?.segment ?? this.#fillSegment;
      if (next.file === undefined) this.#create(next, undefined);
    }
    // The disk first: it works while the acknowledgements are written.
    this.pump();
    this.#events.advanced();
  }

  #barrierOnly(): void {
    const segment = this.segments[this.segments.length - 1];
    const head = this.#visibleHead;
    this.#busy = true;
    this.#batchStartedMs = this.#clock.monotonicMs();
    this.#queue.submit({
      file: segment.file as File,
      barrier: "data",
      done: (error) => {
        this.#busy = false;
        this.#batchStartedMs = undefined;
        if (error !== undefined) {
          this.#fail(error, segment);
          this.#cleanUp();
          return;
        }
        if (!this.#checkIdentity()) return;
        this.#durableHead = head;
        this.#policy.synced(this.#clock.monotonicMs());
        this.pump();
        this.#events.advanced();
      },
    });
  }

  #planSegment(id: number): SegmentEntry {
    const path = `${this.#options.root}/${segmentName(id)}`;
    return new SegmentEntry(id, path, this.#nextOffset, this.#nextSequence, SEGMENT_HEADER_LENGTH);
  }

  /**
   * Has the next segment's file made; `then` is written once it is there. When it cannot be made now, what waits for it is
   * given up, and the next append tries again.
   */
  #create(segment: SegmentEntry, then: Batch | undefined): void {
    if (then !== undefined) this.#waiting.unshift(then);
    this.#busy = true;
    this.#batchStartedMs = this.#clock.monotonicMs();
    this.#maker.create(segment, (creation) => {
      this.#busy = false;
      this.#batchStartedMs = undefined;
      if (creation === "refused") {
        this.#reject();
      } else if ("failed" in creation) {
        this.#freeze(creation.failed);
      } else {
        segment.file = creation.file;
        this.segments.push(segment);
        this.pump();
      }
    });
  }

  /** Gives up all that is not written. None of it was acknowledged; the offsets are minted again. */
  #reject(): void {
    const from = this.#visibleHead;
    const last = this.segments[this.segments.length - 1];
    this.#dropPending();
    this.#nextSequence -= this.#nextOffset - from;
    this.#nextOffset = from;
    this.#fillSegment = this.#planSegment(last.id + 1);
    this.#events.rejected(from);
    this.#finishClosing();
  }

  #dropPending(): void {
    this.#closeFilling();
    for (const batch of this.#waiting) this.#pool.give(batch.buffer);
    this.#waiting = [];
    this.#largePending = false;
  }

  /**
   * After a failed write or barrier the cache may count bytes as clean that the disk will never have. The next start would
   * find them all the same, and lose with them what it appends behind. So what nobody was told of is cut off, and what is
   * visible without a barrier (relaxed levels) is written once more: the next start's barrier covers it then.
   */
  #leaveToRestart({ file, visibleEnd }: SegmentEntry): void {
    if (file === undefined) return;
    try {
      file.truncate(visibleEnd);
      if (this.#durableHead === this.#visibleHead) return;
      const buffer = new Uint8Array(Math.min(BATCH_BYTES, visibleEnd));
      for (let at = 0; at < visibleEnd; at += buffer.length) {
        const length = file.read(buffer, 0, Math.min(buffer.length, visibleEnd - at), at);
        file.write(buffer, 0, length, at);
      }
    } catch {
      // The disk is failing: the freeze says so.
    }
  }

  #fail(error: Error, segment: SegmentEntry): void {
    this.#doubtful ??= segment;
    this.#freeze(error);
  }

  /** Once nothing is under way: what a failure left in doubt is cut off, and a close that waited goes on. */
  #cleanUp(): void {
    if (this.#flying > 0) return;
    if (this.#doubtful !== undefined) this.#leaveToRestart(this.#doubtful);
    this.#doubtful = undefined;
    this.#finishClosing();
  }

  #freeze(error: Error): void {
    if (this.#frozen !== undefined) return;
    this.#frozen = error;
    this.#dropPending();
    this.#events.froze(error);
    if (this.#doubtful === undefined) this.#finishClosing();
  }

  /** README ruling 12: acknowledging into a file that nobody will find again is data loss. */
  #checkIdentity(): boolean {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#lastIdentityCheckMs < IDENTITY_CHECK_MS) return true;
    this.#lastIdentityCheckMs = nowMs;
    const segment = this.segments[this.segments.length - 1];
    // Between a seal and the next segment's creation there is no active file.
    if (segment.file === undefined) return true;
    const problem = identityProblem(this.#files, segment.path, segment.file);
    if (problem === undefined) return true;
    this.#freeze(new Error(`${problem}: ${segment.path}`));
    return false;
  }
}
