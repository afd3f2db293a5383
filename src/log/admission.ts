import type { Clock } from "../runtime/clock.ts";
import type { FileSystemError } from "../runtime/file-system.ts";
import type { Refusal } from "./refusal.ts";
import { SEGMENT_HEADER_LENGTH } from "./segment.ts";

/** Bounds of what a log writes, bytes; 0 = none. */
export interface AdmissionLimits {
  /** Record region of all segments (config.md 13). */
  readonly maxTotalBytes?: number;
  /** Frames, headers and footers in one UTC day (config.md 14.2). */
  readonly dailyWriteBudgetBytes?: number;
  /** What must stay free on the file system (config.md 13). */
  readonly minFreeBytes?: number;
}

const DAY_MS = 86_400_000;
/** How often the free space is asked for because of `minFreeBytes`. */
const SAMPLE_MS = 1_000;
/** How long a full disk is left alone, unless room shows up earlier. */
const HOLD_MS = 1_000;
/** How often that is looked for. */
const HOLD_SAMPLE_MS = 100;
/** So much more free space than when the disk was full counts as room. */
const ROOM_BYTES = 1024 * 1024;

interface Hold {
  readonly message: string;
  readonly untilMs: number;
  readonly freeBytes: number | undefined;
  sampledMs: number;
}

/**
 * Decides, before a byte is written, how much a log may take (storage.md 14.1 steps 3 and 4, 20.2), and counts what that
 * depends on. Answers change by what is counted here and by refresh(), not by the mere passing of time: what an append met
 * and what `refusal` says afterwards are the same.
 */
export class Admission {
  readonly #maxTotalBytes: number;
  readonly #dailyBudgetBytes: number;
  readonly #minFreeBytes: number;
  readonly #clock: Clock;
  readonly #freeBytes: () => number | undefined;

  #recordBytes = 0;
  /** Frames and footers that wait to be written. */
  #pendingBytes = 0;
  #physicalBytes = 0;
  #todayBytes = 0;
  #day: number;
  /** The day before the clock last turned, and its bytes: a clock that is set back goes on where it was. */
  #otherDay = Number.NEGATIVE_INFINITY;
  #otherDayBytes = 0;
  #sampledMs = Number.NEGATIVE_INFINITY;
  /** The free space, while it is too little. */
  #tooFewFreeBytes: number | undefined;
  #hold: Hold | undefined;

  /** `freeBytes` asks the file system; undefined when it cannot say. */
  constructor(limits: AdmissionLimits, clock: Clock, freeBytes: () => number | undefined) {
    this.#maxTotalBytes = limits.maxTotalBytes ?? 0;
    this.#dailyBudgetBytes = limits.dailyWriteBudgetBytes ?? 0;
    this.#minFreeBytes = limits.minFreeBytes ?? 0;
    this.#clock = clock;
    this.#freeBytes = freeBytes;
    this.#day = this.#today();
  }

  /** Record region of all segments, what waits to be written included. */
  get recordBytes(): number {
    return this.#recordBytes;
  }

  /** Frames, headers and footers written since the log was opened. */
  get physicalBytes(): number {
    return this.#physicalBytes;
  }

  /** The same of the current UTC day, since the log was opened: what was written before a restart is not known. */
  get physicalBytesToday(): number {
    return this.#todayBytes;
  }

  /** Looks at clock and disk. To be called before an append, and a few times a second. */
  refresh(): void {
    if (this.#dailyBudgetBytes > 0) this.#turnDay();
    if (this.#minFreeBytes === 0 && this.#hold === undefined) return;
    const nowMs = this.#clock.monotonicMs();
    if (this.#hold !== undefined && this.#mayEnd(this.#hold, nowMs)) this.#hold = undefined;
    if (this.#minFreeBytes > 0 && nowMs - this.#sampledMs >= SAMPLE_MS) {
      this.#sampledMs = nowMs;
      const freeBytes = this.#freeBytes();
      this.#tooFewFreeBytes = freeBytes !== undefined && freeBytes < this.#minFreeBytes ? freeBytes : undefined;
    }
  }

  /** Record bytes within which the next records may start; Infinity without a bound, 0 while `refusal` is there. */
  get allowance(): number {
    if (this.#hold !== undefined || this.#tooFewFreeBytes !== undefined) return 0;
    let allowance = Number.POSITIVE_INFINITY;
    if (this.#maxTotalBytes > 0) allowance = this.#maxTotalBytes - this.#recordBytes;
    if (this.#dailyBudgetBytes > 0) {
      allowance = Math.min(allowance, this.#dailyBudgetBytes - this.#todayBytes - this.#pendingBytes);
    }
    return Math.max(0, allowance);
  }

  /**
   * Why nothing is taken, if so. The budget comes first: no removal of segments helps against it, so that none is
   * attempted.
   */
  get refusal(): Refusal | undefined {
    const budget = this.#dailyBudgetBytes;
    const today = this.#todayBytes + this.#pendingBytes;
    if (budget > 0 && today >= budget) {
      const message = `daily physical write budget reached (${today} of ${budget} bytes today); produce rejected`;
      return { kind: "daily-budget", message };
    }
    const cap = this.#maxTotalBytes;
    if (cap > 0 && this.#recordBytes >= cap) {
      const message = `durable log is at capacity (${this.#recordBytes} of ${cap} bytes); produce rejected`;
      return { kind: "at-capacity", message };
    }
    if (this.#hold !== undefined) return { kind: "disk-full", message: this.#hold.message };
    if (this.#tooFewFreeBytes === undefined) return undefined;
    const message =
      `disk is almost full (${this.#tooFewFreeBytes} bytes free, ${this.#minFreeBytes} must stay free); ` +
      "produce rejected";
    return { kind: "disk-full", message };
  }

  /** Frames were sealed and wait to be written. */
  appended(bytes: number): void {
    this.#recordBytes += bytes;
    this.#pendingBytes += bytes;
  }

  /** A footer waits to be written. */
  sealed(bytes: number): void {
    this.#pendingBytes += bytes;
  }

  /** Frames or a footer that waited are written. */
  wrote(bytes: number): void {
    this.#pendingBytes -= bytes;
    this.#count(bytes);
  }

  wroteHeader(): void {
    this.#count(SEGMENT_HEADER_LENGTH);
  }

  /** Nothing waits any more; the record region of what is there is `recordBytes`. */
  reset(recordBytes: number): void {
    this.#recordBytes = recordBytes;
    this.#pendingBytes = 0;
  }

  /** Segments are gone. */
  removed(recordBytes: number): void {
    this.#recordBytes -= recordBytes;
  }

  /** A write found the disk full: nothing is taken for a second, or until there is visibly more room. */
  diskFull(error: FileSystemError): Refusal {
    const nowMs = this.#clock.monotonicMs();
    this.#hold = {
      message: `disk is full (${error.message}); produce rejected`,
      untilMs: nowMs + HOLD_MS,
      freeBytes: this.#freeBytes(),
      sampledMs: nowMs,
    };
    return { kind: "disk-full", message: this.#hold.message };
  }

  #mayEnd(hold: Hold, nowMs: number): boolean {
    if (nowMs >= hold.untilMs) return true;
    if (hold.freeBytes === undefined || nowMs - hold.sampledMs < HOLD_SAMPLE_MS) return false;
    hold.sampledMs = nowMs;
    const freeBytes = this.#freeBytes();
    return freeBytes !== undefined && freeBytes >= hold.freeBytes + ROOM_BYTES;
  }

  #count(bytes: number): void {
    this.#turnDay();
    this.#physicalBytes += bytes;
    this.#todayBytes += bytes;
  }

  #turnDay(): void {
    const day = this.#today();
    if (day === this.#day) return;
    const bytes = day === this.#otherDay ? this.#otherDayBytes : 0;
    this.#otherDay = this.#day;
    this.#otherDayBytes = this.#todayBytes;
    this.#day = day;
    this.#todayBytes = bytes;
  }

  #today(): number {
    return Math.floor(this.#clock.wallMs() / DAY_MS);
  }
}
