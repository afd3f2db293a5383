import type { Clock, Timer } from "../runtime/clock.ts";

/** Two snapshots begin at least this far apart: whoever scrapes in a loop must not take the broker's time from its clients. */
const SPACING_MS = 100;
/** An answer that is not there by then is not waited for: the broker is stuck, or it failed to give one. */
const ANSWER_MS = 3_000;

type Done = (text: string) => void;

/**
 * Joins scrapes that come at the same time: one snapshot is asked for at a time, and all who asked before that share it.
 * What is in it is never older than the request it answers.
 */
export class Scrapes {
  readonly #clock: Clock;
  readonly #request: (id: number) => void;
  #waiting: Done[] = [];
  /** Who gets the snapshot that was asked for last, until it is there. */
  #served: Done[] | undefined;
  #id = 0;
  #askedMs = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;

  /** `request` asks the broker for a snapshot, which is to come back to answered() under the same id. */
  constructor(clock: Clock, request: (id: number) => void) {
    this.#clock = clock;
    this.#request = request;
  }

  /** `done` may never be called. */
  ask(done: Done): void {
    this.#waiting.push(done);
    this.#next();
  }

  /** A snapshot came. One that was given up does nothing. */
  answered(id: number, text: string): void {
    if (id !== this.#id || this.#served === undefined) return;
    const served = this.#served;
    this.#served = undefined;
    for (const done of served) done(text);
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#next();
  }

  #next(): void {
    if (this.#waiting.length === 0 || this.#timer !== undefined) return;
    const nowMs = this.#clock.monotonicMs();
    const waitMs = this.#askedMs + (this.#served === undefined ? SPACING_MS : ANSWER_MS) - nowMs;
    if (waitMs > 0) {
      this.#timer = this.#clock.after(waitMs, () => {
        this.#timer = undefined;
        this.#next();
      });
      return;
    }
    this.#served = this.#waiting;
    this.#waiting = [];
    this.#id += 1;
    this.#askedMs = nowMs;
    this.#request(this.#id);
  }
}
