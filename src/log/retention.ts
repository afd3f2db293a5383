import { SEGMENT_HEADER_LENGTH } from "./segment.ts";

/** Bounds of what stays on disk once every group has it; 0 = off (storage.md 20.1). */
export interface RetentionBounds {
  /** Bytes of records over all segments, headers and footers not counted. */
  readonly maxRetainedBytes: number;
  /** Counts from the arrival of a segment's last record, on the broker's own clock (README ruling 10). */
  readonly maxAgeMs: number;
  readonly maxMessages: number;
}

/** What retention looks at in a segment of the log. */
export interface RetainedSegment {
  readonly sealed: boolean;
  /** First offset behind the segment. */
  readonly endOffset: number;
  readonly count: number;
  /** File position behind the last record. */
  readonly end: number;
  /** Wall clock at the segment's creation, and so just behind the last arrival in the segment before it. */
  readonly createdUnixMs: number;
}

/** A wall clock before this is that of a board without one (README ruling 10). */
export const CLOCK_IS_SET_FROM_MS = Date.UTC(2024, 0, 1);
const DAY_MS = 24 * 60 * 60 * 1000;

/** The policy of storage.md 20.1: which of the oldest segments may go. Pure but for what it has seen of the clock. */
export class Retention {
  bounds: RetentionBounds;
  /** Monotonic time since when the wall clock has been what it is now; undefined while it is not set. */
  #setSinceMs: number | undefined;
  /** Wall clock minus monotonic clock, as last seen. */
  #driftMs = 0;
  #nowMs = 0;
  #wallMs = 0;

  constructor(bounds: RetentionBounds) {
    this.bounds = bounds;
  }

  get isOn(): boolean {
    const { maxRetainedBytes, maxAgeMs, maxMessages } = this.bounds;
    return maxRetainedBytes > 0 || maxAgeMs > 0 || maxMessages > 0;
  }

  /**
   * To be told the time a few times a second. A clock that was not set, and one that jumps by more than a day, is a clock
   * that is being set: segments whose stamp cannot be believed age from then.
   */
  observe(wallMs: number, monotonicMs: number): void {
    const driftMs = wallMs - monotonicMs;
    if (wallMs < CLOCK_IS_SET_FROM_MS) this.#setSinceMs = undefined;
    else if (this.#setSinceMs === undefined || Math.abs(driftMs - this.#driftMs) > DAY_MS) {
      this.#setSinceMs = monotonicMs;
    }
    this.#driftMs = driftMs;
    this.#wallMs = wallMs;
    this.#nowMs = monotonicMs;
  }

  /**
   * How many of the oldest segments a bound wants removed and every consumer has: only sealed ones that end at or below
   * `floor`, the smallest committed offset that counts, and never the last.
   */
  due(segments: readonly RetainedSegment[], floor: number): number {
    if (!this.isOn || !isRemovable(segments, 0, floor)) return 0;
    const { maxRetainedBytes, maxAgeMs, maxMessages } = this.bounds;
    let bytes = 0;
    let messages = 0;
    for (const segment of segments) {
      bytes += recordBytes(segment);
      messages += segment.count;
    }
    let count = 0;
    for (; isRemovable(segments, count, floor); count++) {
      const overSize = maxRetainedBytes > 0 && bytes > maxRetainedBytes;
      const overCount = maxMessages > 0 && messages > maxMessages;
      if (!overSize && !overCount && !(maxAgeMs > 0 && this.#ageMs(segments[count + 1]) > maxAgeMs)) break;
      bytes -= recordBytes(segments[count]);
      messages -= segments[count].count;
    }
    return count;
  }

  /** How long ago the last record before this segment arrived, as far as that is known. */
  #ageMs({ createdUnixMs }: RetainedSegment): number {
    if (this.#setSinceMs === undefined) return 0;
    const credible = createdUnixMs >= CLOCK_IS_SET_FROM_MS && createdUnixMs <= this.#wallMs + DAY_MS;
    return credible ? this.#wallMs - createdUnixMs : this.#nowMs - this.#setSinceMs;
  }
}

/**
 * How many of the oldest segments have to go, whoever still wants them, so that of `totalBytes` of records fewer than
 * `capBytes` are left (storage.md 20.2). Undefined when all that may go are not enough.
 */
export function segmentsAbove(
  segments: readonly RetainedSegment[],
  totalBytes: number,
  capBytes: number,
): number | undefined {
  let bytes = totalBytes;
  let count = 0;
  while (bytes >= capBytes) {
    if (!isRemovable(segments, count, Number.POSITIVE_INFINITY)) return undefined;
    bytes -= recordBytes(segments[count]);
    count++;
  }
  return count;
}

function isRemovable(segments: readonly RetainedSegment[], index: number, floor: number): boolean {
  return index < segments.length - 1 && segments[index].sealed && segments[index].endOffset <= floor;
}

function recordBytes(segment: RetainedSegment): number {
  return segment.end - SEGMENT_HEADER_LENGTH;
}
