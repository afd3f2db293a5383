import type { Counters } from "../log/counters.ts";
import type { Log } from "../log/log.ts";
import type { Refusal } from "../log/refusal.ts";
import { Retention, type RetentionBounds, segmentsAbove } from "../log/retention.ts";

export interface ReaperOptions {
  readonly retention: RetentionBounds;
  readonly diskFullPolicy: "drop-new" | "drop-oldest";
  /** Cap of the record region, 0 = none. */
  readonly maxTotalBytes: number;
  /** A removal failed; it is tried again. */
  readonly onError: (error: Error) => void;
}

export const NOTHING_REAPED: ReaperOptions = {
  retention: { maxRetainedBytes: 0, maxAgeMs: 0, maxMessages: 0 },
  diskFullPolicy: "drop-new",
  maxTotalBytes: 0,
  onError: () => {},
};

/** Where the groups that hold retention are (storage.md 20.1). */
export interface Positions {
  /** Smallest committed offset. */
  floor(): number;
  /** The same of the positions that survive a crash. */
  durableFloor(): number;
  /** Has the positions on disk soon. */
  persist(): void;
}

/**
 * Removes the oldest segments of a log: by retention what no consumer needs any more, and at the byte cap, with
 * `drop-oldest`, also what some still want (storage.md 20). One removal at a time.
 */
export class Reaper {
  readonly #log: Log;
  readonly #options: ReaperOptions;
  readonly #retention: Retention;
  readonly #counters: Counters;
  readonly #positions: Positions;
  readonly #onRemoved: () => void;
  #running = false;
  /** The last removal failed: it is tried again at the next tick, and until then nothing waits for it. */
  #failed = false;
  #newestSeen = -1;

  /** `onRemoved` is called when a removal is over, with or without success. */
  constructor(log: Log, options: ReaperOptions, counters: Counters, positions: Positions, onRemoved: () => void) {
    this.#log = log;
    this.#options = options;
    this.#retention = new Retention(options.retention);
    this.#counters = counters;
    this.#positions = positions;
    this.#onRemoved = onRemoved;
  }

  /** Room under the byte cap is made by removing what is oldest. */
  get dropsOldest(): boolean {
    return this.#options.diskFullPolicy === "drop-oldest";
  }

  /** A few times a second. */
  tick(nowMs: number, wallMs: number): void {
    this.#retention.observe(wallMs, nowMs);
    this.#failed = false;
    this.#retain();
  }

  /** The log's heads moved. Costs a comparison unless a segment was begun. */
  advanced(): void {
    const { segments } = this.#log;
    const newest = segments[segments.length - 1]?.id ?? -1;
    if (newest === this.#newestSeen) return;
    this.#newestSeen = newest;
    this.#retain();
  }

  /**
   * Whether room is being made for a publish that was refused, so that it is worth waiting for `onRemoved` or the next move
   * of a head. Never for the daily budget or a full disk: no removal helps the one, and a broken promise not the other.
   */
  makeRoom({ kind }: Refusal): boolean {
    if (kind !== "at-capacity" || !this.dropsOldest || this.#failed) return false;
    if (this.#running) return true;
    const { segments, written } = this.#log;
    const safe = this.#retention.due(segments, this.#positions.durableFloor());
    const needed = segmentsAbove(segments, written.recordBytes, this.#options.maxTotalBytes);
    // Removing segments without getting below the cap would lose them for nothing. What is under way may seal another one.
    if (needed === undefined) return this.#log.nextOffset > this.#log.visibleHead;
    return this.#remove(Math.max(safe, needed), safe);
  }

  #retain(): void {
    if (this.#running || this.#failed || !this.#retention.isOn) return;
    const { segments } = this.#log;
    const due = this.#retention.due(segments, this.#positions.durableFloor());
    // A position on disk that lags behind what the consumers have may be all that keeps more of them.
    if (this.#retention.due(segments, this.#positions.floor()) > due) this.#positions.persist();
    if (due > 0) this.#remove(due, due);
  }

  #remove(count: number, safe: number): boolean {
    this.#running = this.#log.removeOldest(count, (removed, error) => {
      this.#running = false;
      this.#counters.segmentsReaped += Math.min(removed, safe);
      this.#counters.segmentsForceReaped += Math.max(0, removed - safe);
      if (error !== undefined) {
        this.#failed = true;
        this.#options.onError(error);
      }
      this.#onRemoved();
    });
    return this.#running;
  }
}
