/** When a publish is acknowledged and when a barrier is issued (storage.md 15). */
export interface Durability {
  readonly level: "sync" | "interval" | "async" | "none";
  /** Level `interval`: barrier after this time, in milliseconds; 0 disables the trigger. */
  readonly flushIntervalMs: number;
  /** Level `interval`: barrier after this many unsynced bytes; 0 disables the trigger. */
  readonly flushMaxBytes: number;
}

/** Decides which writes end with a barrier. Pure: time and sizes come in. */
export class BarrierPolicy {
  readonly #durability: Durability;
  /** Written and acknowledged, not covered by a barrier. */
  #unsyncedBytes = 0;
  /** Handed over behind the last barrier: those bytes, and those on their way. */
  #uncoveredBytes = 0;
  #lastBarrierMs: number;

  constructor(durability: Durability, nowMs: number) {
    this.#durability = durability;
    this.#lastBarrierMs = nowMs;
  }

  get unsyncedBytes(): number {
    return this.#unsyncedBytes;
  }

  /**
   * Whether handing over `bytes` more at `nowMs` must end with a barrier; `seals` always does. Counts them, and the time
   * until the next barrier from here on: what is acknowledged while this one runs waits no longer for its own.
   */
  handOver(bytes: number, seals: boolean, nowMs: number): boolean {
    const wanted = seals || this.#wanted(bytes, nowMs);
    if (wanted) this.barrier(nowMs);
    else this.#uncoveredBytes += bytes;
    return wanted;
  }

  /** A barrier begins at `nowMs`. */
  barrier(nowMs: number): void {
    this.#uncoveredBytes = 0;
    this.#lastBarrierMs = nowMs;
  }

  /**
   * Milliseconds from `nowMs` on until bytes written earlier are due for a barrier of their own although nothing new
   * arrives; undefined when they never will be.
   */
  overdueInMs(nowMs: number): number | undefined {
    const { level, flushIntervalMs } = this.#durability;
    if (level !== "interval" || flushIntervalMs === 0 || this.#unsyncedBytes === 0) return undefined;
    return Math.max(0, this.#lastBarrierMs + flushIntervalMs - nowMs);
  }

  written(bytes: number): void {
    this.#unsyncedBytes += bytes;
  }

  /** What was handed over and is not written never will be. */
  givenUp(): void {
    this.#uncoveredBytes = this.#unsyncedBytes;
  }

  /** A barrier over everything written is complete. */
  synced(): void {
    this.#unsyncedBytes = 0;
  }

  #wanted(bytes: number, nowMs: number): boolean {
    const { level, flushIntervalMs, flushMaxBytes } = this.#durability;
    if (level === "sync") return true;
    if (level !== "interval") return false;
    if (flushMaxBytes > 0 && this.#uncoveredBytes + bytes >= flushMaxBytes) return true;
    return flushIntervalMs > 0 && nowMs - this.#lastBarrierMs >= flushIntervalMs;
  }
}
