/** A timer that can be cancelled; cancelling twice, or after it fired, does nothing. */
export interface Timer {
  cancel(): void;
}

/**
 * The only source of time. Leases, timeouts and windows use the monotonic reading; the wall reading is data
 * (stamps, file headers) and never orders anything (storage.md I6).
 */
export interface Clock {
  /** Milliseconds since the Unix epoch, whole. May step in either direction. */
  wallMs(): number;
  /** Milliseconds since an arbitrary start, with a fraction. Never goes back. */
  monotonicMs(): number;
  /** Runs `callback` once, `delayMs` from now. Any delay is honoured, also above 2^31 ms. */
  after(delayMs: number, callback: () => void): Timer;
  /** Runs `callback` every `periodMs`; never keeps the process alive by itself. */
  every(periodMs: number, callback: () => void): Timer;
}
