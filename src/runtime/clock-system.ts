import type { Clock, Timer } from "./clock.ts";

/** Runtimes fire a longer timer after 1 ms instead of refusing it. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

class SystemTimer implements Timer {
  #handle: ReturnType<typeof setTimeout> | undefined;

  constructor(delayMs: number, callback: () => void) {
    this.#arm(performance.now() + Math.max(0, delayMs), callback);
  }

  #arm(dueMs: number, callback: () => void): void {
    const remainingMs = dueMs - performance.now();
    if (remainingMs > LONGEST_TIMEOUT_MS) {
      this.#handle = setTimeout(() => this.#arm(dueMs, callback), LONGEST_TIMEOUT_MS);
    } else {
      this.#handle = setTimeout(callback, Math.max(0, remainingMs));
    }
  }

  cancel(): void {
    clearTimeout(this.#handle);
  }
}

/** The machine's clocks and the event loop's timers. */
export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after: (delayMs, callback) => new SystemTimer(delayMs, callback),
  every(periodMs, callback) {
    const handle = setInterval(callback, Math.min(Math.max(1, periodMs), LONGEST_TIMEOUT_MS));
    handle.unref();
    return { cancel: () => clearInterval(handle) };
  },
};
