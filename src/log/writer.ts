import type { Clock, Timer } from "../runtime/clock.ts";
import type { Codec } from "../runtime/codec.ts";
import { type Barrier, type File, type FileSystem, FileSystemError, type IoQueue } from "../runtime/file-system.ts";
import { Admission } from "./admission.ts";
import type { Batch } from "./batch.ts";
import { BatchFlight } from "./batch-flight.ts";
import { Counters } from "./counters.ts";
import { freeBytes, isDiskFull, isFullWrite } from "./disk-full.ts";
import { leaveToRestart } from "./doubtful-tail.ts";
import { BarrierPolicy } from "./durability.ts";
import { IdentityCheck } from "./file-identity.ts";
import { explainMisfit } from "./io-mode.ts";
import { PendingRecords } from "./pending-records.ts";
import type { Refusal } from "./refusal.ts";
import { SEGMENT_FOOTER_LENGTH, SEGMENT_HEADER_LENGTH } from "./segment.ts";
import { INDEXED_SEGMENTS, recordBytesOf, type SegmentEntry } from "./segment-entry.ts";
import { type Creation, SegmentMaker } from "./segment-maker.ts";
import { type RemovalDone, SegmentRemoval } from "./segment-removal.ts";
import { TailCache } from "./tail-cache.ts";
import type { WriterEvents, WriterOptions, WriterStart } from "./writer-options.ts";

/** Bounds of what is kept of the newest batches for readers, with direct writes. */
const MIN_TAIL_BYTES = 1024 * 1024;
const MAX_TAIL_BYTES = 4 * 1024 * 1024;

/**
 * The one writer of a log: mints offsets, seals records into batches, and has one batch at a time written and synced
 * (storage.md 14). A failed write or barrier freezes it for good; the barrier is never tried again (storage.md 17).
 */
export class LogWriter {
  readonly segments: SegmentEntry[];
  readonly counters: Counters;
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
  readonly #flight: BatchFlight;
  readonly #pending: PendingRecords;
  readonly #policy: BarrierPolicy;
  readonly #admission: Admission;
  readonly #removal: SegmentRemoval;

  #visibleHead: number;
  #durableHead: number;
  /** A segment is being made. */
  #creating = false;
  /** Where a write or barrier failed: cleaned up once nothing is under way any more. */
  #doubtful: SegmentEntry | undefined;
  /** A write that found the disk full: what is pending is given up once nothing is under way any more. */
  #fullError: FileSystemError | undefined;
  #pumping = false;
  #frozen: Error | undefined;
  /** Fires when what level `interval` left unsynced is due. */
  #dueTimer: Timer | undefined;
  #closing: (() => void) | undefined;

  constructor(
    options: WriterOptions,
    start: WriterStart,
    files: FileSystem,
    codec: Codec,
    clock: Clock,
    events: WriterEvents,
  ) {
    this.counters = options.counters ?? new Counters();
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
    this.#flight = new BatchFlight(this.#queue, clock, this.#direct, (batch, barrier, tookMs, error) =>
      this.#written(batch, barrier, tookMs, error),
    );
    const maker = new SegmentMaker(
      { files, codec, clock },
      this.#queue,
      this.#directory,
      options.maxSegmentBytes,
      this.#direct,
    );
    this.#maker = maker;
    this.#admission = new Admission(options, clock, () => freeBytes(files, options.root));
    this.#admission.reset(recordBytesOf(this.segments));
    this.#removal = new SegmentRemoval(this.segments, options.root, files, this.#queue, this.#directory);
    this.#frozen = start.readOnly;
    const last = this.#frozen === undefined ? this.#active : undefined;
    if (last !== undefined) last.file = maker.resume(last);
    this.#pending = new PendingRecords(
      options,
      start,
      last,
      files,
      codec,
      (segment) => maker.headerOf(segment),
      this.#admission,
    );
    if (last === undefined && this.#frozen === undefined) this.#createFirst();
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
    return this.#flight.startedMs;
  }

  /**
   * Why an append would take nothing although the log is healthy (storage.md 14.1, 20.2); undefined when it would, or is
   * frozen. After an append that took less than it was given and with `hasRoom` this is the reason.
   */
  get refusal(): Refusal | undefined {
    return this.#frozen === undefined ? this.#admission.refusal : undefined;
  }

  /** What is counted of the log's writes: record region, physical bytes, those of today. */
  get written(): Pick<Admission, "recordBytes" | "physicalBytes" | "physicalBytesToday"> {
    return this.#admission;
  }

  /** Written and not yet covered by a barrier. */
  get unsyncedBytes(): number {
    return this.#policy.unsyncedBytes;
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
   * how many were taken: fewer when the pending bound is reached (go on at `advanced`) or the rest is refused (see
   * `refusal`), 0 once frozen. Nothing is acknowledged by this; call pump() when the turn's appends are done.
   */
  append(chunk: Uint8Array, table: Int32Array, first: number, end: number): number {
    if (this.#frozen !== undefined) return 0;
    this.#admission.refresh();
    return this.#pending.append(chunk, table, first, end);
  }

  /**
   * Whether the log's directory is what its path leads to, asked now (README ruling 12). If not, what is opened or made by a
   * path in it is not this log's. The writer itself notices that within a second, and freezes.
   */
  isInPlace(): boolean {
    return this.#identity.rootHolds;
  }

  /** Hands the next batch to the I/O thread if it is free. Call it whenever a turn's work has been appended. */
  pump(): void {
    // A write done on this thread completes inside the loop and may lead back here through `advanced`.
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      while (this.#flight.hasRoom && this.#frozen === undefined && this.#fullError === undefined) {
        const batch = this.#pending.take(this.#flight.segment);
        if (batch === undefined) break;
        if (batch.segment.file === undefined) this.#create(batch.segment, batch);
        else this.#write(batch);
      }
    } finally {
      this.#pumping = false;
    }
    this.#syncIfDue();
    this.#finishClosing();
  }

  /** To be called a few times a second: the identity check, refusals that end with time, spare memory. */
  tick(): void {
    if (this.#frozen !== undefined || !this.#identityHolds()) return;
    const refused = this.#admission.refusal !== undefined;
    this.#admission.refresh();
    if (refused && this.#admission.refusal === undefined) this.#events.advanced();
    if (this.#flight.idle && this.#pending.trimIdle(this.#clock.monotonicMs())) this.tailCache?.clear();
  }

  /**
   * Removes the `count` oldest sealed segments (storage.md 14.5); `forget` is called for each once it is gone for good. False
   * when nothing was begun: another removal runs, nothing can go, or the log is frozen.
   */
  removeOldest(count: number, forget: (segment: SegmentEntry) => void, done: RemovalDone): boolean {
    // Under the path there may be another directory by now, and its files are not this log's to remove.
    const mayGo = (): boolean => this.#frozen === undefined && this.#identityHolds(true);
    const forgotten = (segment: SegmentEntry): void => {
      this.#admission.removed(segment.end - SEGMENT_HEADER_LENGTH);
      forget(segment);
    };
    const ended: RemovalDone = (removed, error) => {
      // The barrier that failed was over the new segment's name too, and the next one would not tell (storage.md 17).
      const lost = error instanceof FileSystemError && error.operation.startsWith("sync");
      if (lost && this.#creating) this.#freeze(error);
      done(removed, error);
    };
    return this.#removal.begin(count, mayGo, forgotten, ended);
  }

  /** Writes and syncs what is pending, at every durability level, then releases the files. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#removal.stop();
      this.#closing = () => {
        this.#dueTimer?.cancel();
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
    if (this.#closing === undefined || !this.#flight.idle) return;
    if (this.#frozen === undefined && this.#policy.unsyncedBytes > 0) {
      this.#barrierOnly();
      return;
    }
    const done = this.#closing;
    this.#closing = undefined;
    done();
  }

  #write(batch: Batch): void {
    const nowMs = this.#clock.monotonicMs();
    const covered = this.#policy.handOver(batch.end - batch.start, batch.seals, nowMs);
    this.#flight.write(batch, batch.seals ? "full" : covered ? "data" : "none", nowMs);
  }

  #written(batch: Batch, barrier: Barrier, tookMs: number, error: FileSystemError | undefined): void {
    if (error !== undefined) {
      if (isFullWrite(error)) this.#fullError ??= error;
      else this.#fail(error, batch.segment);
    }
    if (this.#frozen !== undefined) {
      // Whatever comes of a batch behind a failed one, nobody may be told of it.
      this.#cleanUp();
      return;
    }
    if (this.#fullError !== undefined) {
      this.#pending.release(batch, batch.buffer);
      if (this.#flight.idle) this.#giveUp(batch.segment, this.#fullError);
      return;
    }
    this.#admission.wrote(batch.end - batch.start);
    this.#policy.written(batch.end - batch.start);
    if (!this.#identityHolds()) return;
    const segment = batch.segment;
    this.#visibleHead = batch.baseOffset + batch.count;
    this.counters.wrote(batch, barrier === "none" ? undefined : tookMs);
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
      const older = this.segments[this.segments.indexOf(segment) - INDEXED_SEGMENTS];
      if (older?.file === undefined) older?.forgetAnchors();
      const next = this.#pending.nextSegment;
      if (next.file === undefined) this.#create(next, undefined);
    }
    // The disk first: it works while the acknowledgements are written.
    this.pump();
    this.#events.advanced();
  }

  /** Level `interval`: what is unsynced gets its barrier in time, also when nothing new arrives. */
  #syncIfDue(): void {
    if (this.#policy.unsyncedBytes === 0 || this.#frozen !== undefined || !this.#flight.idle) return;
    const dueInMs = this.#policy.overdueInMs(this.#clock.monotonicMs());
    if (dueInMs === 0) this.#barrierOnly();
    if (dueInMs === undefined || this.#dueTimer !== undefined) return;
    this.#dueTimer = this.#clock.after(dueInMs, () => {
      this.#dueTimer = undefined;
      this.#syncIfDue();
    });
  }

  #barrierOnly(): void {
    const segment = this.segments[this.segments.length - 1];
    const head = this.#visibleHead;
    this.#policy.barrier(this.#clock.monotonicMs());
    this.#flight.run({ file: segment.file as File, barrier: "data" }, (error) =>
      this.#barrierDone(segment, head, error),
    );
  }

  /** The end of a barrier of its own: it covers everything below `head`. */
  #barrierDone(segment: SegmentEntry, head: number, error: FileSystemError | undefined): void {
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
  }

  /**
   * Has the next segment's file made; `then` is written once it is there. When it cannot be made now, what waits for it is
   * given up, and the next append tries again.
   */
  #create(segment: SegmentEntry, then: Batch | undefined): void {
    if (then !== undefined) this.#pending.putBack(then);
    // A leftover of that name is removed, and in another directory it would be another log's segment.
    if (!this.#identityHolds(true)) return;
    this.#flight.begin();
    this.#creating = true;
    this.#maker.create(segment, (creation) => {
      this.#flight.end();
      this.#creating = false;
      this.#created(segment, creation);
    });
  }

  #created(segment: SegmentEntry, creation: Creation): void {
    if (this.#frozen !== undefined) {
      if ("file" in creation) creation.file.close();
      this.#finishClosing();
    } else if ("failed" in creation) {
      this.#freeze(creation.failed);
    } else if ("refused" in creation) {
      this.#reject(segment.id, isDiskFull(creation.refused) ? this.#admission.diskFull(creation.refused) : undefined);
      this.#finishClosing();
    } else {
      segment.file = creation.file;
      this.segments.push(segment);
      this.#admission.wroteHeader();
      // Its name may be in another directory than the one whose barrier covers it.
      if (this.#identityHolds(true)) this.pump();
    }
  }

  /** The first segment of this run. On a full disk there is none until space returns (README ruling 11). */
  #createFirst(): void {
    const first = this.#pending.nextSegment;
    try {
      first.file = this.#maker.createNow(first);
    } catch (error) {
      if (!(error instanceof FileSystemError) || !isDiskFull(error)) throw error;
      this.#admission.diskFull(error);
      return;
    }
    this.segments.push(first);
    this.#admission.wroteHeader();
  }

  /** Gives up all that is not visible. None of it was acknowledged; the offsets are minted again. */
  #reject(nextSegmentId: number, refusal: Refusal | undefined): void {
    const from = this.#visibleHead;
    const active = this.#active;
    active?.rewind(from - active.baseOffset, active.visibleEnd);
    this.#pending.drop();
    try {
      this.#pending.mintFrom(from, active, nextSegmentId);
    } catch (error) {
      // Direct writes go on from the segment's last block, and it cannot be read.
      if (!(error instanceof FileSystemError)) throw error;
      this.#freeze(error);
      return;
    }
    this.#admission.reset(recordBytesOf(this.segments));
    this.#policy.givenUp();
    this.#events.rejected(from, refusal);
  }

  /**
   * A write to `active` found the disk full. What there is of it behind the visible records is cut off, by a full barrier:
   * frames that survive a cut behind the ones written next would be taken for theirs.
   */
  #giveUp(active: SegmentEntry, error: FileSystemError): void {
    this.#fullError = undefined;
    const job = { file: active.file as File, truncateTo: active.visibleEnd, barrier: "full" } as const;
    this.#flight.run(job, (failure) => this.#barrierDone(active, this.#visibleHead, failure));
    this.#reject(active.id, this.#admission.diskFull(error));
  }

  #fail(error: Error, segment: SegmentEntry): void {
    this.#doubtful ??= segment;
    this.#freeze(error);
  }

  /** Once nothing is under way: what a failure left in doubt is cut off, and a close that waited goes on. */
  #cleanUp(): void {
    if (this.#flight.batches > 0) return;
    const rewrites = this.#durableHead !== this.#visibleHead;
    if (this.#doubtful !== undefined) leaveToRestart(this.#doubtful, rewrites, this.#files, this.#direct);
    this.#doubtful = undefined;
    this.#finishClosing();
  }

  #freeze(cause: Error): void {
    if (this.#frozen !== undefined) return;
    const error = this.#direct ? explainMisfit(cause) : cause;
    this.#frozen = error;
    this.#dueTimer?.cancel();
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
