const PERIOD_MS = 60_000;
const MOST_IN_PERIOD = 10;

/**
 * Tells of things that any client can cause as often as it likes: ten a minute one by one, the others as a number. Who fills
 * the log of an edge device fills its disk.
 */
export class NoticeLimit {
  readonly #warned: (message: string) => void;
  readonly #rest: (count: number) => string;
  #sinceMs = Number.NEGATIVE_INFINITY;
  #told = 0;
  #untold = 0;

  /** `rest` says how many were not told. */
  constructor(warned: (message: string) => void, rest: (count: number) => string) {
    this.#warned = warned;
    this.#rest = rest;
  }

  tell(message: string, nowMs: number): void {
    this.tick(nowMs);
    if (this.#told >= MOST_IN_PERIOD) {
      this.#untold += 1;
      return;
    }
    if (this.#told === 0) this.#sinceMs = nowMs;
    this.#told += 1;
    this.#warned(message);
  }

  /** A few times a second. */
  tick(nowMs: number): void {
    if (this.#told > 0 && nowMs - this.#sinceMs >= PERIOD_MS) this.flush();
  }

  /** Tells what is left, and begins anew. */
  flush(): void {
    if (this.#untold > 0) this.#warned(this.#rest(this.#untold));
    this.#told = 0;
    this.#untold = 0;
  }
}
