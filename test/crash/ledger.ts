import { identityOf, nameOf } from "./payloads.ts";

/** What a log turned out to hold. */
export interface Contents {
  /** The first offset that was there. */
  readonly start: number;
  /** Identities of the records from there on, without a gap. */
  readonly identities: readonly number[];
}

/** What the broker said is safe, and how that compares with what it has. */
export class Ledger {
  /** Identity of each acknowledged offset. */
  readonly #acknowledged = new Map<number, number>();
  /** How many of the first payloads of a writer were counted as safe, without their offsets. */
  readonly #counted = new Map<number, number>();
  /** Acknowledgements that contradict earlier ones. */
  readonly contradictions: string[] = [];

  get size(): number {
    return this.#acknowledged.size;
  }

  acknowledged(offset: number, writer: number, index: number): void {
    const identity = identityOf(writer, index);
    const before = this.#acknowledged.get(offset);
    if (before !== undefined) {
      this.contradictions.push(`offset ${offset} was given to ${nameOf(before)} and to ${nameOf(identity)}`);
    }
    this.#acknowledged.set(offset, identity);
  }

  /** Whether the offset was acknowledged for another payload. */
  contradicts(offset: number, identity: number): boolean {
    return (this.#acknowledged.get(offset) ?? identity) !== identity;
  }

  /** The first `count` payloads of a writer were counted as safe, the last of them at `lastOffset`. */
  counted(writer: number, count: number, lastOffset: number): void {
    this.#counted.set(writer, count);
    if (count > 0) this.acknowledged(lastOffset, writer, count - 1);
  }

  /**
   * What is wrong with `contents`: an acknowledged record that is missing or another one, a record that is there twice, or
   * records of one writer in another order. Offsets before `removedBelow` may be missing.
   */
  compare({ start, identities }: Contents, removedBelow = 0): string[] {
    const problems = [...this.contradictions];
    if (start > removedBelow)
      problems.push(`the log begins at ${start}, offsets from ${removedBelow} on must be there`);
    const offsets = new Map<number, number>();
    const newest = new Map<number, number>();
    for (const [at, identity] of identities.entries()) {
      const before = offsets.get(identity);
      if (before !== undefined) problems.push(`${nameOf(identity)} is at ${before} and at ${start + at}`);
      offsets.set(identity, start + at);
      const writer = Math.floor(identity / identityOf(1, 0));
      if (identity < (newest.get(writer) ?? -1)) problems.push(`${nameOf(identity)} at ${start + at} is out of order`);
      newest.set(writer, identity);
    }
    for (const [offset, identity] of this.#acknowledged) {
      if (offset < start) continue;
      const found = identities[offset - start];
      if (found === undefined) problems.push(`offset ${offset} (${nameOf(identity)}) is missing`);
      else if (found !== identity) problems.push(`offset ${offset} is ${nameOf(found)}, not ${nameOf(identity)}`);
    }
    for (const [writer, count] of this.#counted) {
      for (let index = 0; index < count && start === 0; index++) {
        if (!offsets.has(identityOf(writer, index))) problems.push(`${writer}/${index} was counted and is missing`);
      }
    }
    return problems.slice(0, 20);
  }
}
