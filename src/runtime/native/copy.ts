/** Below, a loop is faster than the object that a bulk copy needs. */
const BULK_BYTES = 48;

/** Copies source[at, at + length) to target[targetAt, ...); both ranges have been checked. */
export function copy(source: Uint8Array, at: number, length: number, target: Uint8Array, targetAt: number): void {
  if (length < BULK_BYTES) {
    for (let i = 0; i < length; i++) target[targetAt + i] = source[at + i];
  } else {
    target.set(source.subarray(at, at + length), targetAt);
  }
}
