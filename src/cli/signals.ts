/** 128 + the signal's number, as shells report a command that a signal ended. */
const SIGNAL_EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;

/**
 * Turns the first SIGINT or SIGTERM into an abort, so that a verb ends what it printed or read. The second one finds the
 * default disposition again and ends the process at once.
 */
export class Interruption {
  readonly #controller = new AbortController();
  readonly #listeners = new Map<NodeJS.Signals, () => void>();
  #exitCode = 0;

  constructor() {
    for (const [name, exitCode] of Object.entries(SIGNAL_EXIT_CODES) as [NodeJS.Signals, number][]) {
      const listener = () => {
        this.#exitCode = exitCode;
        this.dispose();
        this.#controller.abort();
      };
      this.#listeners.set(name, listener);
      process.on(name, listener);
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get interrupted(): boolean {
    return this.#controller.signal.aborted;
  }

  /** The exit code for an interrupted verb; 0 before a signal came. */
  get exitCode(): number {
    return this.#exitCode;
  }

  /** Gives both signals their default disposition back. */
  dispose(): void {
    for (const [name, listener] of this.#listeners) {
      process.off(name, listener);
    }
    this.#listeners.clear();
  }
}
