/**
 * The publishes of one connection that wait for their acknowledgement: runs of consecutive offsets, in order. Records
 * that want no reply (level 0) are in no run but still count for `until`, since any later frame waits for them.
 */
export class UnsettledPublishes {
  /** All publishes of the connection lie below this offset; 0 while there were none. */
  until = 0;
  /** Replies owed. */
  count = 0;
  #firsts: number[] = [];
  #counts: number[] = [];
  #head = 0;

  add(first: number, count: number): void {
    const last = this.#firsts.length - 1;
    if (last >= this.#head && this.#firsts[last] + this.#counts[last] === first) {
      this.#counts[last] += count;
    } else {
      this.#firsts.push(first);
      this.#counts.push(count);
    }
    this.count += count;
  }

  /** Offset of the oldest reply owed; only meaningful while `count > 0`. */
  get first(): number {
    return this.#firsts[this.#head];
  }

  /** How many replies, from the oldest on, are for consecutive offsets below `head`. */
  settledBelow(head: number): number {
    if (this.count === 0) return 0;
    return Math.max(0, Math.min(this.#counts[this.#head], head - this.#firsts[this.#head]));
  }

  /** Takes the `count` oldest replies, which settledBelow() returned. */
  take(count: number): void {
    const head = this.#head;
    this.#firsts[head] += count;
    this.#counts[head] -= count;
    this.count -= count;
    if (this.#counts[head] > 0) return;
    this.#head += 1;
    if (this.#head === this.#firsts.length || this.#head >= 64) {
      this.#firsts.splice(0, this.#head);
      this.#counts.splice(0, this.#head);
      this.#head = 0;
    }
  }

  /** Nothing is owed any more; returns how many replies were. `until` becomes `settled`. */
  clear(settled: number): number {
    const owed = this.count;
    this.#firsts = [];
    this.#counts = [];
    this.#head = 0;
    this.count = 0;
    this.until = Math.min(this.until, settled);
    return owed;
  }
}
