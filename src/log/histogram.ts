/** Bucket bounds in seconds, upper ones inclusive (observability.md 2.2). */
export const BARRIER_BUCKETS = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1] as const;
export const DURATION_BUCKETS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5] as const;

const NS_PER_SECOND = 1_000_000_000;

/** How often something took how long. Observing writes two numbers; nothing is allocated. */
export class Histogram {
  readonly bounds: readonly number[];
  /** Observations in each bucket alone; the last is what lies above all bounds. */
  readonly counts: Float64Array;
  #seconds = 0;
  #nanoseconds = 0;

  /** `bounds` in seconds, ascending. */
  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(durationMs: number): void {
    const nanoseconds = Math.max(0, Math.round(durationMs * 1e6));
    let bucket = 0;
    while (bucket < this.bounds.length && nanoseconds > this.bounds[bucket] * NS_PER_SECOND) bucket += 1;
    this.counts[bucket] += 1;
    this.#nanoseconds += nanoseconds;
    if (this.#nanoseconds < NS_PER_SECOND) return;
    this.#seconds += Math.floor(this.#nanoseconds / NS_PER_SECOND);
    this.#nanoseconds %= NS_PER_SECOND;
  }

  /** The sum in seconds with nine decimals, exact. */
  get sum(): string {
    return `${this.#seconds}.${String(this.#nanoseconds).padStart(9, "0")}`;
  }
}
