import type { Clock, Timer } from "./clock.ts";

interface Entry {
  dueMs: number;
  readonly order: number;
  readonly periodMs: number | undefined;
  readonly callback: () => void;
}

/**
 * A clock that moves only when told to. Timers fire inside `advance`, in the order of their due times and, where those
 * are equal, in the order in which they were set.
 */
export class SimulatedClock implements Clock {
  #monotonicMs: number;
  #wallMs: number;
  #order = 0;
  readonly #entries = new Set<Entry>();

  /** Both readings start where the caller wants; the default wall time is 2024-06-01T00:00:00Z. */
  constructor(start: { readonly wallMs?: number; readonly monotonicMs?: number } = {}) {
    this.#wallMs = start.wallMs ?? Date.UTC(2024, 5, 1);
    this.#monotonicMs = start.monotonicMs ?? 0;
  }

  wallMs(): number {
    return Math.floor(this.#wallMs);
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  after(delayMs: number, callback: () => void): Timer {
    return this.#add({
      dueMs: this.#monotonicMs + Math.max(0, delayMs),
      order: this.#order++,
      periodMs: undefined,
      callback,
    });
  }

  every(periodMs: number, callback: () => void): Timer {
    const period = Math.max(1, periodMs);
    return this.#add({ dueMs: this.#monotonicMs + period, order: this.#order++, periodMs: period, callback });
  }

  /** Number of timers that are set. */
  get timers(): number {
    return this.#entries.size;
  }

  /** Milliseconds until the next timer is due, or undefined when none is set. */
  get nextTimerInMs(): number | undefined {
    const next = this.#next(Number.POSITIVE_INFINITY);
    return next === undefined ? undefined : next.dueMs - this.#monotonicMs;
  }

  /** Moves both readings forward, firing what falls due on the way with the readings at its due time. */
  advance(durationMs: number): void {
    if (!(durationMs >= 0)) throw new RangeError(`cannot advance a clock by ${durationMs} ms`);
    const endMs = this.#monotonicMs + durationMs;
    for (let next = this.#next(endMs); next !== undefined; next = this.#next(endMs)) {
      this.#moveTo(next.dueMs);
      if (next.periodMs === undefined) this.#entries.delete(next);
      else next.dueMs += next.periodMs;
      next.callback();
    }
    this.#moveTo(endMs);
  }

  /** Steps the wall reading alone, in either direction, as NTP or an operator would. */
  stepWall(byMs: number): void {
    this.#wallMs += byMs;
  }

  #moveTo(monotonicMs: number): void {
    this.#wallMs += monotonicMs - this.#monotonicMs;
    this.#monotonicMs = monotonicMs;
  }

  #next(latestMs: number): Entry | undefined {
    let next: Entry | undefined;
    for (const entry of this.#entries) {
      if (entry.dueMs > latestMs) continue;
      if (next === undefined || entry.dueMs < next.dueMs || (entry.dueMs === next.dueMs && entry.order < next.order)) {
        next = entry;
      }
    }
    return next;
  }

  #add(entry: Entry): Timer {
    this.#entries.add(entry);
    return { cancel: () => this.#entries.delete(entry) };
  }
}
