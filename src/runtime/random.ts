/** The only source of randomness, so that a simulation can replay it from a seed. */
export interface Random {
  /** A number in [0, 1). */
  next(): number;
  /** `length` fresh random bytes. */
  bytes(length: number): Uint8Array;
}
