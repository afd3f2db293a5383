import { copy } from "./copy.ts";

/** The numbers of native/addon/src/lz4_encoder.rs: both encoders give the same bytes. */
const HASH_BITS = 12;
const MIN_MATCH = 4;
const MAX_DISTANCE = 65_535;
/** No match starts within the last 12 bytes; none reaches into the last 6 (the format demands 5). */
const LAST_START = 12;
const LAST_LITERALS = 6;
/** The search takes steps of one byte at first, and wider ones the longer it finds nothing; in sixteenths of a byte. */
const STEP = 16;
const GROWTH = 1;
/** The same in what looks like noise. */
const NOISE_STEP = 8 * 16;
const NOISE_GROWTH = 8;
/** What tells noise from the rest: two bits of each byte of the sample are set as often as a coin shows heads. */
const SAMPLE_BYTES = 64;
const LEAST_NOISE_BITS = 22;
const MOST_NOISE_BITS = 42;
/** What follows the literals at least: token, distance, and the last literals with their token. */
const LEAST_REST = 10;
/** A length nibble that goes on in the bytes behind it. */
const EXTENDED = 15;

/** Where a hash was seen last, as the base of its input plus the position in it. */
let table: Uint32Array | undefined;
/** Above every entry that earlier inputs left behind. */
let nextBase = 1;

/**
 * Writes source[start, end) (13 bytes to 1 GiB) as one raw LZ4 block (wire.md 16) to target[at, limit). Returns the position
 * behind it, or -1 when it does not fit; bytes behind the block may have changed then. Both ranges have been checked.
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
    nextBase = 1;
  }
  const base = nextBase;
  nextBase += length;

  const lastStart = length - LAST_START;
  const matchLimit = length - LAST_LITERALS;
  const noisy = looksLikeNoise(source, start, length);
  const growth = noisy ? NOISE_GROWTH : GROWTH;
  let write = at;
  let literals = 0;
  let read = 1;
  table[hash(word(source, start))] = base;
  for (;;) {
    // A match that is found behind this position would come too late to make the input shorter.
    const last = Math.min(lastStart, Math.max(literals + limit - write - LEAST_REST, 0));
    let step = noisy ? NOISE_STEP : STEP;
    let next = read;
    let candidate: number;
    for (;;) {
      read = next;
      next += step >>> 4;
      step += growth;
      if (read > last) return writeLiterals(source, start + literals, end, target, write, limit, 0);
      const current = word(source, start + read);
      const slot = hash(current);
      // An entry of an earlier input is below the base, and passed over: the result does not depend on what came before.
      candidate = table[slot] - base;
      table[slot] = base + read;
      if (candidate >= 0 && read - candidate <= MAX_DISTANCE && word(source, start + candidate) === current) break;
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

/** Whether the start of the input looks like noise: encrypted, or compressed already. */
function looksLikeNoise(source: Uint8Array, start: number, length: number): boolean {
  if (length < SAMPLE_BYTES) return false;
  let high = 0;
  let middle = 0;
  for (let i = start; i < start + SAMPLE_BYTES; i++) {
    high += source[i] >> 7;
    middle += (source[i] >> 4) & 1;
  }
  return isNoise(high) && isNoise(middle);
}

function isNoise(bits: number): boolean {
  return bits >= LEAST_NOISE_BITS && bits <= MOST_NOISE_BITS;
}

function word(source: Uint8Array, at: number): number {
  return source[at] | (source[at + 1] << 8) | (source[at + 2] << 16) | (source[at + 3] << 24);
}

function hash(current: number): number {
  return Math.imul(current, 2_654_435_761) >>> (32 - HASH_BITS);
}
