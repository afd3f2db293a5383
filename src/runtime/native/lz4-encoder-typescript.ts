import { copy } from "./copy.ts";

/** The numbers of native/addon/src/lz4_encoder.rs: both encoders give the same bytes. */
const HASH_BITS = 12;
const MIN_MATCH = 4;
const MAX_DISTANCE = 65_535;
/** No match starts within the last 12 bytes; none reaches into the last 6 (the format demands 5). */
const LAST_START = 12;
const LAST_LITERALS = 6;
/** The search takes wider steps after each 2^5 positions without a match. */
const STEP_SHIFT = 5;
/** A length nibble that goes on in the bytes behind it. */
const EXTENDED = 15;

/** Where a hash was seen last, as the base of its input plus the position in it. */
let table: Uint32Array | undefined;
/** Above every entry that earlier inputs left behind. */
let nextBase = 0;

/**
 * Writes source[start, end) (13 bytes to 1 GiB) as one raw LZ4 block (wire.md 16) to target[at, limit), with the bytes of
 * lz4_flex for inputs below 64 KiB. Returns the position behind it, or -1 when it does not fit; bytes behind the block may
 * have changed then. Both ranges have been checked.
 */
export function encodeLz4Block(
  source: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
  at: number,
  limit: number,
): number {
  table ??= new Uint32Array(1 << HASH_BITS);
  const length = end - start;
  if (nextBase + length > 0xffff_ffff) {
    table.fill(0);
    nextBase = 0;
  }
  const base = nextBase;
  nextBase += length;

  const lastStart = length - LAST_START;
  const matchLimit = length - LAST_LITERALS;
  let write = at;
  let literals = 0;
  let read = 1;
  table[hash(word(source, start))] = base;
  for (;;) {
    let misses = 1 << STEP_SHIFT;
    let next = read;
    let candidate: number;
    for (;;) {
      read = next;
      next += misses++ >> STEP_SHIFT;
      if (read > lastStart) return writeLiterals(source, start + literals, end, target, write, limit, 0);
      const current = word(source, start + read);
      const slot = hash(current);
      // An entry of an earlier input counts as position 0: a candidate like any other, compared before it is believed. So
      // the result does not depend on what came before.
      candidate = Math.max(table[slot] - base, 0);
      table[slot] = base + read;
      if (read - candidate <= MAX_DISTANCE && word(source, start + candidate) === current) break;
    }
    const distance = read - candidate;
    while (candidate > 0 && read > literals && source[start + read - 1] === source[start + candidate - 1]) {
      read--;
      candidate--;
    }
    let matched = MIN_MATCH;
    while (read + matched < matchLimit && source[start + read + matched] === source[start + candidate + matched]) {
      matched++;
    }

    const more = matched - MIN_MATCH;
    const low = Math.min(more, EXTENDED);
    write = writeLiterals(source, start + literals, start + read, target, write, limit, low);
    if (write < 0 || limit - write < 2) return -1;
    target[write++] = distance & 255;
    target[write++] = distance >> 8;
    if (more >= EXTENDED) {
      write = writeExtension(more - EXTENDED, target, write, limit);
      if (write < 0) return -1;
    }
    read += matched;
    literals = read;
    table[hash(word(source, start + read - 2))] = base + read - 2;
  }
}

/** A token with `low` as its lower half, and source[from, to). */
function writeLiterals(
  source: Uint8Array,
  from: number,
  to: number,
  target: Uint8Array,
  at: number,
  limit: number,
  low: number,
): number {
  const count = to - from;
  if (at >= limit) return -1;
  target[at] = (Math.min(count, EXTENDED) << 4) | low;
  const write = count < EXTENDED ? at + 1 : writeExtension(count - EXTENDED, target, at + 1, limit);
  if (write < 0 || count > limit - write) return -1;
  copy(source, from, count, target, write);
  return write + count;
}

function writeExtension(length: number, target: Uint8Array, at: number, limit: number): number {
  let write = at;
  let left = length;
  for (; left >= 255; left -= 255) {
    if (write >= limit) return -1;
    target[write++] = 255;
  }
  if (write >= limit) return -1;
  target[write++] = left;
  return write;
}

function word(source: Uint8Array, at: number): number {
  return source[at] | (source[at + 1] << 8) | (source[at + 2] << 16) | (source[at + 3] << 24);
}

function hash(current: number): number {
  return Math.imul(current, 2_654_435_761) >>> (32 - HASH_BITS);
}
