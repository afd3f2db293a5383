const MIN_MATCH = 4;
/** A length nibble that goes on in the bytes behind it. */
const EXTENDED = 15;

/**
 * Decodes one raw LZ4 block (wire.md 16), as Codec.lz4Decompress does; its ranges have been checked.
 *
 * sequence: token (literal length << 4 | match length - 4), literal length bytes, literals, offset u16 (1 and up),
 * match length bytes; the last sequence ends with its literals.
 */
export function decodeLz4Block(
  source: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
  at: number,
  length: number,
): boolean {
  const limit = at + length;
  let read = start;
  let write = at;
  while (read < end) {
    const token = source[read++];

    let literals = token >> 4;
    if (literals === EXTENDED) {
      let more: number;
      do {
        if (read === end) return false;
        more = source[read++];
        literals += more;
      } while (more === 255);
    }
    if (literals > end - read || literals > limit - write) return false;
    for (const literalsEnd = read + literals; read < literalsEnd; ) target[write++] = source[read++];
    if (read === end) return write === limit;

    if (end - read < 2) return false;
    const offset = source[read] | (source[read + 1] << 8);
    read += 2;
    if (offset === 0 || offset > write - at) return false;
    let match = (token & 15) + MIN_MATCH;
    if (match === EXTENDED + MIN_MATCH) {
      let more: number;
      do {
        if (read === end) return false;
        more = source[read++];
        match += more;
      } while (more === 255);
    }
    if (match > limit - write) return false;
    // Byte by byte: a match may overlap what it writes.
    for (const matchEnd = write + match; write < matchEnd; write++) target[write] = target[write - offset];
  }
  return false;
}
