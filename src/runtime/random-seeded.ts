import type { Random } from "./random.ts";

/** A repeatable source: equal seeds give equal sequences. Not for secrets. The generator is sfc32 (public domain). */
export class SeededRandom implements Random {
  readonly seed: number;
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  /** `seed`: any whole number from 0 up to 2^53-1. */
  constructor(seed: number) {
    if (!Number.isSafeInteger(seed) || seed < 0) throw new RangeError(`not a seed: ${seed}`);
    this.seed = seed;
    this.#a = seed | 0;
    this.#b = Math.floor(seed / 2 ** 32) | 0;
    this.#c = 0x9e3779b9 | 0;
    // Seeds that differ in few bits give alike outputs until the state is mixed.
    for (let round = 0; round < 15; round++) this.word();
  }

  /** The next 32 bits, unsigned. */
  word(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    this.#c |= 0;
    return sum >>> 0;
  }

  next(): number {
    return ((this.word() >>> 5) * 2 ** 26 + (this.word() >>> 6)) / 2 ** 53;
  }

  bytes(length: number): Uint8Array {
    const result = new Uint8Array(length);
    for (let index = 0; index < length; index++) result[index] = this.word() >>> 24;
    return result;
  }

  /** A whole number in [0, limit). */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  /** True with the given probability. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** An independent source whose sequence follows from this one's next value. */
  fork(): SeededRandom {
    return new SeededRandom(this.word());
  }
}
