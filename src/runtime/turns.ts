import type { SeededRandom } from "./random-seeded.ts";

/**
 * The deferred work of devices that are not real. Each device keeps at most one task here at a time for each of its
 * ordered streams of work, so that any choice among the waiting tasks is a legal order of events.
 *
 * - `auto`: one task a macrotask, oldest first;
 * - `manual`: only `step` and `runAll` run tasks; with a `random` they choose among the waiting ones, else oldest first.
 */
export class Turns {
  readonly #tasks: (() => void)[] = [];
  readonly #auto: boolean;
  readonly #random: SeededRandom | undefined;
  #scheduled = false;

  constructor(mode: "auto" | "manual", random?: SeededRandom) {
    this.#auto = mode === "auto";
    this.#random = random;
  }

  /** Tasks that wait for their turn. */
  get waiting(): number {
    return this.#tasks.length;
  }

  add(task: () => void): void {
    this.#tasks.push(task);
    this.#schedule();
  }

  /** Runs one task; false when none waits. */
  step(): boolean {
    const { length } = this.#tasks;
    if (length === 0) return false;
    const index = this.#random === undefined ? 0 : this.#random.below(length);
    const [task] = this.#tasks.splice(index, 1);
    task();
    return true;
  }

  /** Runs tasks, also those that they add, until none waits. Throws after `most`: something never comes to rest. */
  runAll(most = 1_000_000): number {
    let count = 0;
    while (this.step()) {
      if (++count > most) throw new Error(`still busy after ${most} turns`);
    }
    return count;
  }

  #schedule(): void {
    if (!this.#auto || this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      try {
        this.step();
      } finally {
        if (this.#tasks.length > 0) this.#schedule();
      }
    });
  }
}
