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
  #unsyncedBytes = 0;
  #lastBarrierMs: number;

  constructor(durability: Durability, nowMs: number) {
    this.#durability = durability;
    this.#lastBarrierMs = nowMs;
  }

  get unsyncedBytes(): number {
    return this.#unsyncedBytes;
  }

  /** Whether writing `bytes` more at `nowMs` must end with a barrier. */
  wantsBarrier(bytes: number, nowMs: number): boolean {
    const { level, flushIntervalMs, flushMaxBytes } = this.#durability;
    if (level === "sync") return true;
    if (level !== "interval") return false;
    if (flushMaxBytes > 0 && this.#unsyncedBytes + bytes >= flushMaxBytes) return true;
    return flushIntervalMs > 0 && nowMs - this.#lastBarrierMs >= flushIntervalMs;
  }

  /** Whether bytes written earlier are due for a barrier of their own although nothing new arrives. */
  overdue(nowMs: number): boolean {
    return this.#unsyncedBytes > 0 && this.wantsBarrier(0, nowMs);
  }

  written(bytes: number): void {
    this.#unsyncedBytes += bytes;
  }

  synced(nowMs: number): void {
    this.#unsyncedBytes = 0;
    this.#lastBarrierMs = nowMs;
  }
}
