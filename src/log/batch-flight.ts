import type { Clock } from "../runtime/clock.ts";
import type { Barrier, File, FileSystemError, IoJob, IoQueue } from "../runtime/file-system.ts";
import type { Batch } from "./batch.ts";
import type { SegmentEntry } from "./segment-entry.ts";
import { wholeBlocks } from "./tail-block.ts";

/** Below this a write to the page cache is cheaper on the main thread than the hand-over to the I/O thread. */
const IMMEDIATE_WRITE_BYTES = 64 * 1024;
/** Batches that the I/O thread may have: the one it works on, and the next. */
const MAX_FLYING = 2;

/** A batch is written and synced, or `error` kept it from that. `tookMs` is the I/O thread's time for it. */
export type Landed = (batch: Batch, barrier: Barrier, tookMs: number, error: FileSystemError | undefined) => void;

/**
 * What of a log is with its I/O thread: batches of one segment, which the thread takes one by one, so that there is one
 * barrier at a time; or something that needs the thread to itself, a barrier of its own or the making of a segment.
 */
export class BatchFlight {
  readonly #queue: IoQueue;
  readonly #clock: Clock;
  readonly #direct: boolean;
  readonly #landed: Landed;
  #flying = 0;
  /** The segment of the last of them. */
  #segment: SegmentEntry | undefined;
  #alone = false;
  #startedMs: number | undefined;

  /** `direct`: batches are written in whole blocks. */
  constructor(queue: IoQueue, clock: Clock, direct: boolean, landed: Landed) {
    this.#queue = queue;
    this.#clock = clock;
    this.#direct = direct;
    this.#landed = landed;
  }

  /** Monotonic time at which the thread began what it is at; undefined when it is at nothing. */
  get startedMs(): number | undefined {
    return this.#startedMs;
  }

  /** Nothing is under way. */
  get idle(): boolean {
    return !this.#alone && this.#flying === 0;
  }

  /** Batches under way. */
  get batches(): number {
    return this.#flying;
  }

  /** Whether a batch may be handed over. */
  get hasRoom(): boolean {
    return !this.#alone && this.#flying < MAX_FLYING;
  }

  /** The segment of the batches under way. */
  get segment(): SegmentEntry | undefined {
    return this.#flying > 0 ? this.#segment : undefined;
  }

  /** Writes a batch and ends with the barrier. A small write without one is done on this thread, before this returns. */
  write(batch: Batch, barrier: Barrier, nowMs: number): void {
    const file = batch.segment.file as File;
    const alone = this.#flying === 0;
    this.#flying += 1;
    if (alone) this.#startedMs = nowMs;
    this.#segment = batch.segment;
    let length = batch.end;
    if (this.#direct) {
      length = wholeBlocks(batch.end);
      batch.buffer.fill(0, batch.end, length);
    } else if (barrier === "none" && alone && length <= IMMEDIATE_WRITE_BYTES) {
      try {
        file.write(batch.buffer, 0, batch.end, batch.position);
      } catch (error) {
        this.#land(batch, barrier, error as FileSystemError);
        return;
      }
      this.#land(batch, barrier, undefined);
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
        this.#land(batch, barrier, error);
      },
    });
  }

  /** A job that has the thread to itself; `done` is called when it no longer has. */
  run(job: Omit<IoJob, "done">, done: (error: FileSystemError | undefined) => void): void {
    this.begin();
    this.#queue.submit({
      ...job,
      done: (error) => {
        this.end();
        done(error);
      },
    });
  }

  /** Something that consists of several jobs has the thread to itself, until end(). */
  begin(): void {
    this.#alone = true;
    this.#startedMs = this.#clock.monotonicMs();
  }

  end(): void {
    this.#alone = false;
    this.#startedMs = undefined;
  }

  #land(batch: Batch, barrier: Barrier, error: FileSystemError | undefined): void {
    const nowMs = this.#clock.monotonicMs();
    const tookMs = nowMs - (this.#startedMs ?? nowMs);
    this.#flying -= 1;
    this.#startedMs = this.#flying > 0 ? nowMs : undefined;
    this.#landed(batch, barrier, tookMs, error);
  }
}
