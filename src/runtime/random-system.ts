import { randomBytes, randomFillSync } from "node:crypto";
import type { Random } from "./random.ts";

const word = new Uint32Array(2);

/** The operating system's randomness. */
export const systemRandom: Random = {
  next() {
    randomFillSync(word);
    return ((word[0] >>> 5) * 2 ** 26 + (word[1] >>> 6)) / 2 ** 53;
  },
  bytes: (length) => randomBytes(length),
};
