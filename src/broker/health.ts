/**
 * What probes ask of a broker (observability.md 1.3, 1.4): plain values that can be read at any moment without waiting for
 * the writer. Times are monotonic milliseconds of the broker's clock.
 */
export class BrokerHealth {
  /** Called after `draining`, `frozen` or `stopped` changed; for whoever mirrors them to another thread. */
  onChange: (() => void) | undefined;
  #draining = false;
  #frozen: Error | undefined;
  #stopped = false;
  #batchStartedMs: () => number | undefined = () => undefined;

  /** A stop was asked for; what was appended is being synced and acknowledged. */
  get draining(): boolean {
    return this.#draining;
  }

  /** Why nothing is published until a restart: a failed write or barrier, or a log that was opened read-only. */
  get frozen(): Error | undefined {
    return this.#frozen;
  }

  /** The log is closed. Only without `draining` this is a failure. */
  get stopped(): boolean {
    return this.#stopped;
  }

  /** Since when the I/O thread has been at the write or barrier it is at; undefined while it has nothing to do. */
  get batchStartedMs(): number | undefined {
    return this.#batchStartedMs();
  }

  drain(): void {
    this.#draining = true;
    this.onChange?.();
  }

  freeze(reason: Error): void {
    this.#frozen ??= reason;
    this.onChange?.();
  }

  stop(): void {
    this.#stopped = true;
    this.onChange?.();
  }

  /** Tells where `batchStartedMs` comes from, once the log is open. */
  watch(batchStartedMs: () => number | undefined): void {
    this.#batchStartedMs = batchStartedMs;
  }
}
