/** What the health endpoints have to know of the broker, in memory that both threads see (observability.md 1.4). */

const BEACON = 0;
const DRAINING = 1;
const FROZEN = 2;
const STOPPED = 3;
const WEDGED = 4;
const FIELDS = 5;

/** What a probe's answer depends on. */
export interface HealthState {
  /** A stop was asked for. */
  readonly draining: boolean;
  /** Nothing is published until a restart. */
  readonly frozen: boolean;
  /** The log is closed. */
  readonly stopped: boolean;
  /** A write or barrier has been running for longer than the watchdog allows. */
  readonly wedged: boolean;
}

/** The same few numbers for the thread that sets them and the one that reads them; no read waits. */
export class SharedHealth implements HealthState {
  readonly buffer: SharedArrayBuffer;
  readonly #fields: Int32Array;

  constructor(buffer = new SharedArrayBuffer(FIELDS * Int32Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#fields = new Int32Array(buffer);
  }

  /** Turns of the event loop that was told to count them; wraps around. */
  get beacon(): number {
    return Atomics.load(this.#fields, BEACON);
  }

  get draining(): boolean {
    return Atomics.load(this.#fields, DRAINING) === 1;
  }

  get frozen(): boolean {
    return Atomics.load(this.#fields, FROZEN) === 1;
  }

  get stopped(): boolean {
    return Atomics.load(this.#fields, STOPPED) === 1;
  }

  get wedged(): boolean {
    return Atomics.load(this.#fields, WEDGED) === 1;
  }

  tick(): void {
    Atomics.add(this.#fields, BEACON, 1);
  }

  set(state: HealthState): void {
    Atomics.store(this.#fields, DRAINING, state.draining ? 1 : 0);
    Atomics.store(this.#fields, FROZEN, state.frozen ? 1 : 0);
    Atomics.store(this.#fields, STOPPED, state.stopped ? 1 : 0);
    Atomics.store(this.#fields, WEDGED, state.wedged ? 1 : 0);
  }
}
