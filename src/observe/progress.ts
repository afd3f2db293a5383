import type { Clock, Timer } from "../runtime/clock.ts";

/** Longest time between two looks at the beacon. */
const LOOK_MS = 1_000;

/** Whether another thread's event loop turns: looks now and then at a number that it keeps changing. */
export class Progress {
  readonly #clock: Clock;
  readonly #beacon: () => number;
  readonly #windowMs: number;
  readonly #timer: Timer | undefined;
  #seen: number;
  #changedMs: number;

  /** `windowMs` 0: always progressing. */
  constructor(clock: Clock, windowMs: number, beacon: () => number) {
    this.#clock = clock;
    this.#windowMs = windowMs;
    this.#beacon = beacon;
    this.#seen = beacon();
    this.#changedMs = clock.monotonicMs();
    if (windowMs > 0) this.#timer = clock.every(Math.max(10, Math.min(LOOK_MS, windowMs / 4)), () => this.#look());
  }

  /** False when the beacon has not changed for a whole window. */
  get progressing(): boolean {
    if (this.#windowMs === 0) return true;
    this.#look();
    return this.#clock.monotonicMs() - this.#changedMs < this.#windowMs;
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #look(): void {
    const beacon = this.#beacon();
    if (beacon === this.#seen) return;
    this.#seen = beacon;
    this.#changedMs = this.#clock.monotonicMs();
  }
}
