import type { Clock } from "../runtime/clock.ts";
import type { Codec, Compression } from "../runtime/codec.ts";
import {
  type Barrier,
  DIRECT_BLOCK_BYTES,
  type File,
  type FileSystem,
  FileSystemError,
  type IoQueue,
} from "../runtime/file-system.ts";
import type { Batch } from "./batch.ts";
import { leaveToRestart } from "./doubtful-tail.ts";
import { BarrierPolicy, type Durability } from "./durability.ts";
import { IdentityCheck } from "./file-identity.ts";
import { PendingRecords } from "./pending-records.ts";
import { SEGMENT_FOOTER_LENGTH } from "./segment.ts";
import type { SegmentEntry } from "./segment-entry.ts";
import { SegmentMaker } from "./segment-maker.ts";
import { wholeBlocks } from "./tail-block.ts";
import { TailCache } from "./tail-cache.ts";

/** Below this a write to the page cache is cheaper on the main thread than the hand-over to the I/O thread. */
const IMMEDIATE_WRITE_BYTES = 64 * 1024;
/** Bounds of what is kept of the newest batches for readers, with direct writes. */
const MIN_TAIL_BYTES = 1024 * 1024;
const MAX_TAIL_BYTES = 4 * 1024 * 1024;
/** Batches that the I/O thread may have: the one it works on, and the next. */
const MAX_FLYING = 2;
/** After this long without an append the spare batches are given back. */
const IDLE_MS = 5_000;

export interface WriterOptions {
  readonly root: string;
  readonly maxSegmentBytes: number;
  readonly maxPendingBytes: number;
  readonly durability: Durability;
  /** Segments are written around the page cache (storage.md 16). Default false. */
  readonly directWrites?: boolean;
  /** How payloads are stored. Default: as they are. */
  readonly compression?: Compression;
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
  /** What readers find in memory; undefined where they have the page cache. */
  readonly tailCache: TailCache | undefined;
  readonly #direct: boolean;
  readonly #files: FileSystem;
  readonly #clock: Clock;
  readonly #events: WriterEvents;
  readonly #queue: IoQueue;
  readonly #directory: File;
  readonly #identity: IdentityCheck;
  readonly #maker: SegmentMaker;
  readonly #pending: PendingRecords;
  readonly #policy: BarrierPolicy;

  #visibleHead: number;
  #durableHead: number;
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
    this.#direct = options.directWrites ?? false;
    this.tailCache = this.#direct
      ? new TailCache(Math.min(MAX_TAIL_BYTES, Math.max(MIN_TAIL_BYTES, options.maxPendingBytes / 2)))
      : undefined;
    this.#files = files;
    this.#clock = clock;
    this.#events = events;
    this.segments = start.segments;
    this.#visibleHead = start.nextOffset;
    this.#durableHead = start.nextOffset;
    this.#policy = new BarrierPolicy(options.durability, clock.monotonicMs());
    this.#queue = files.createQueue();
    this.#directory = files.openDirectory(options.root);
    this.#identity = new IdentityCheck(files, clock, this.#directory);
    const maker = new SegmentMaker(
      { files, codec, clock },
      this.#queue,
      this.#directory,
      options.maxSegmentBytes,
      this.#direct,
    );
    this.#maker = maker;
    const last = this.#active;
    if (last !== undefined) last.file = maker.resume(last);
    this.#pending = new PendingRecords(options, start, last, files, codec, (segment) => maker.headerOf(segment));
    if (last === undefined) {
      const first = this.#pending.nextSegment;
      first.file = this.#maker.createNow(first);
      this.segments.push(first);
    }
  }

  /** The segment that is written to; none while the next one has to be made. */
  get #active(): SegmentEntry | undefined {
    const last = this.segments[this.segments.length - 1];
    return last === undefined || last.sealed ? undefined : last;
  }

  /** Offset of the next record to be appended. */
  get nextOffset(): number {
    return this.#pending.nextOffset;
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
    return this.#pending.hasRoom;
  }

  /** See PendingRecords.maxBodyBytes. */
  get maxBodyBytes(): number {
    return this.#pending.maxBodyBytes;
  }

  /**
   * Appends rows [first, end) of `table` (positions into `chunk`), which become the records `nextOffset`, ... Returns
   * how many were taken: fewer when the pending bound is reached (go on at `advanced`), 0 once frozen. Nothing is
   * acknowledged by this; call pump() when the turn's appends are done.
   */
  append(chunk: Uint8Array, table: Int32Array, first: number, end: number): number {
    return this.#frozen === undefined ? this.#pending.append(chunk, table, first, end) : 0;
  }

  /** Hands the next batch to the I/O thread if it is free. Call it whenever a turn's work has been appended. */
  pump(): void {
    // A write done on this thread completes inside the loop and may lead back here through `advanced`.
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      while (!this.#busy && this.#frozen === undefined && this.#flying < MAX_FLYING) {
        const batch = this.#pending.take(this.#flying > 0 ? this.#flyingSegment : undefined);
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
    if (this.#frozen !== undefined || !this.#identityHolds()) return;
    if (this.#busy || this.#flying > 0) return;
    const nowMs = this.#clock.monotonicMs();
    if (this.#policy.overdue(nowMs)) this.#barrierOnly();
    if (this.nextOffset !== this.#lastSeenOffset) {
      this.#lastSeenOffset = this.nextOffset;
      this.#lastAppendMs = nowMs;
    } else if (nowMs - this.#lastAppendMs >= IDLE_MS && this.#pending.idle) {
      this.#pending.trim();
      this.tailCache?.clear();
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

  #write(batch: Batch): void {
    const file = batch.segment.file as File;
    const nowMs = this.#clock.monotonicMs();
    const covered = this.#policy.handOver(batch.end - batch.start, batch.seals, nowMs);
    const barrier: Barrier = batch.seals ? "full" : covered ? "data" : "none";
    const alone = this.#flying === 0;
    this.#flying += 1;
    if (alone) this.#batchStartedMs = nowMs;
    this.#flyingSegment = batch.segment;
    let length = batch.end;
    if (this.#direct) {
      length = wholeBlocks(batch.end);
      batch.buffer.fill(0, batch.end, length);
    } else if (barrier === "none" && alone && length <= IMMEDIATE_WRITE_BYTES) {
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
      write: { buffer: batch.buffer, offset: 0, length, position: batch.position },
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
    this.#policy.written(batch.end - batch.start);
    if (!this.#identityHolds()) return;
    const segment = batch.segment;
    this.#visibleHead = batch.baseOffset + batch.count;
    segment.visibleEnd = batch.position + batch.end - (batch.seals ? SEGMENT_FOOTER_LENGTH : 0);
    if (barrier !== "none") {
      this.#durableHead = this.#visibleHead;
      this.#policy.synced();
    }
    this.#pending.release(batch, this.tailCache === undefined ? batch.buffer : this.tailCache.add(batch));
    if (batch.seals) {
      segment.sealed = true;
      segment.file?.close();
      segment.file = undefined;
      const next = this.#pending.nextSegment;
      if (next.file === undefined) this.#create(next, undefined);
    }
    // The disk first: it works while the acknowledgements are written.
    this.pump();
    this.#events.advanced();
  }

  #barrierOnly(): void {
    const segment = this.segments[this.segments.length - 1];
    const head = this.#visibleHead;
    const nowMs = this.#clock.monotonicMs();
    this.#policy.barrier(nowMs);
    this.#busy = true;
    this.#batchStartedMs = nowMs;
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
        if (!this.#identityHolds()) return;
        this.#durableHead = head;
        this.#policy.synced();
        this.pump();
        this.#events.advanced();
      },
    });
  }

  /**
   * Has the next segment's file made; `then` is written once it is there. When it cannot be made now, what waits for it is
   * given up, and the next append tries again.
   */
  #create(segment: SegmentEntry, then: Batch | undefined): void {
    if (then !== undefined) this.#pending.putBack(then);
    this.#busy = true;
    this.#batchStartedMs = this.#clock.monotonicMs();
    this.#maker.create(segment, (creation) => {
      this.#busy = false;
      this.#batchStartedMs = undefined;
      if (creation === "refused") {
        this.#reject(segment.id);
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
  #reject(nextSegmentId: number): void {
    const from = this.#visibleHead;
    this.#pending.drop();
    this.#pending.mintFrom(from, this.#active, nextSegmentId);
    this.#events.rejected(from);
    this.#finishClosing();
  }

  #fail(error: Error, segment: SegmentEntry): void {
    this.#doubtful ??= segment;
    this.#freeze(error);
  }

  /** Once nothing is under way: what a failure left in doubt is cut off, and a close that waited goes on. */
  #cleanUp(): void {
    if (this.#flying > 0) return;
    const rewrites = this.#durableHead !== this.#visibleHead;
    if (this.#doubtful !== undefined) leaveToRestart(this.#doubtful, rewrites, this.#files, this.#direct);
    this.#doubtful = undefined;
    this.#finishClosing();
  }

  #freeze(cause: Error): void {
    if (this.#frozen !== undefined) return;
    const error = this.#direct ? explainMisfit(cause) : cause;
    this.#frozen = error;
    this.#pending.drop();
    this.#events.froze(error);
    if (this.#doubtful === undefined) this.#finishClosing();
  }

  /** Whether the log is still where its path leads; if not, the writer freezes. `now`: whenever the last look was. */
  #identityHolds(now = false): boolean {
    const problem = now ? this.#identity.problem(this.#active) : this.#identity.dueProblem(this.#active);
    if (problem !== undefined) this.#freeze(problem);
    return problem === undefined;
  }
}

/** A device that wants direct writes of another alignment is no reason to change the mode silently (storage.md 16). */
function explainMisfit(cause: Error): Error {
  if (!(cause instanceof FileSystemError) || cause.code !== "EINVAL" || cause.operation !== "write") return cause;
  const text = `the device refuses direct writes in blocks of ${DIRECT_BLOCK_BYTES} bytes; use --io-mode buffered`;
  return new Error(`${cause.message} (${text})`, { cause });
}
