/** Little-endian u64 fields that the project holds as numbers: offsets, sequences, segment ids (at most 2^53 - 1). */

export const MAX_OFFSET = Number.MAX_SAFE_INTEGER;

/** The u64 at `at`, or -1 when it is above 2^53 - 1. */
export function readUint64(view: DataView, at: number): number {
  const high = view.getUint32(at + 4, true);
  return high >= 0x20_0000 ? -1 : high * 0x1_0000_0000 + view.getUint32(at, true);
}

/** Writes a whole number in [0, 2^53 - 1]; throws RangeError on anything else. */
export function writeUint64(view: DataView, at: number, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${value} is not a whole number below 2^53`);
  view.setUint32(at, value % 0x1_0000_0000, true);
  view.setUint32(at + 4, Math.floor(value / 0x1_0000_0000), true);
}

/** A view of exactly these bytes, whatever larger buffer they lie in. */
export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
