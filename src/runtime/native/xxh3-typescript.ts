/**
 * XXH3-64 with seed 0, for a runtime that has none. Inputs above 240 bytes, the only ones that records have (storage.md
 * 3.4), are hashed with 32-bit arithmetic; shorter ones with BigInt.
 */

const SECRET = new Uint8Array(
  (
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221" +
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8" +
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb" +
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
  )
    .match(/../g)!
    .map((byte) => Number.parseInt(byte, 16)),
);
const secret = new DataView(SECRET.buffer);

const PRIME32_1 = 0x9e3779b1n;
const PRIME32_2 = 0x85ebca77n;
const PRIME32_3 = 0xc2b2ae3dn;
const PRIME64_1 = 0x9e3779b185ebca87n;
const PRIME64_2 = 0xc2b2ae3d27d4eb4fn;
const PRIME64_3 = 0x165667b19e3779f9n;
const PRIME64_4 = 0x85ebca77c2b2ae63n;
const PRIME64_5 = 0x27d4eb2f165667c5n;
const PRIME_MX1 = 0x165667919e3779f9n;
const PRIME_MX2 = 0x9fb21c651e98df25n;
const MASK_64 = 0xffff_ffff_ffff_ffffn;

const STRIPE_BYTES = 64;
/** Each stripe of a block takes its secret 8 bytes further on. */
const STRIPES_PER_BLOCK = (SECRET.length - STRIPE_BYTES) / 8;
const BLOCK_BYTES = STRIPE_BYTES * STRIPES_PER_BLOCK;

/** XXH3-64 of buffer[start, end), seed 0. */
export function xxh3(buffer: Uint8Array, start: number, end: number): bigint {
  const data = new DataView(buffer.buffer, buffer.byteOffset + start, end - start);
  const length = end - start;
  if (length > 240) return hashLong(data);
  if (length > 128) return hash129To240(data);
  if (length > 16) return hash17To128(data);
  return hashUpTo16(data);
}

const u64 = (value: bigint) => value & MASK_64;
const secretWord = (at: number) => secret.getBigUint64(at, true);
const rotate = (value: bigint, bits: bigint) => u64((value << bits) | (value >> (64n - bits)));

function multiplyFold(a: bigint, b: bigint): bigint {
  const product = a * b;
  return u64(product) ^ (product >> 64n);
}

function avalanche(value: bigint): bigint {
  const mixed = u64((value ^ (value >> 37n)) * PRIME_MX1);
  return mixed ^ (mixed >> 32n);
}

function avalanche64(value: bigint): bigint {
  const first = u64((value ^ (value >> 33n)) * PRIME64_2);
  const second = u64((first ^ (first >> 29n)) * PRIME64_3);
  return second ^ (second >> 32n);
}

function mix16(data: DataView, at: number, secretAt: number): bigint {
  const low = data.getBigUint64(at, true) ^ secretWord(secretAt);
  return multiplyFold(low, data.getBigUint64(at + 8, true) ^ secretWord(secretAt + 8));
}

function hashUpTo16(data: DataView): bigint {
  const length = data.byteLength;
  if (length > 8) {
    const low = data.getBigUint64(0, true) ^ secretWord(24) ^ secretWord(32);
    const high = data.getBigUint64(length - 8, true) ^ secretWord(40) ^ secretWord(48);
    const scratch = new DataView(new ArrayBuffer(8));
    scratch.setBigUint64(0, low, true);
    return avalanche(u64(BigInt(length) + scratch.getBigUint64(0, false) + high + multiplyFold(low, high)));
  }
  if (length >= 4) {
    const both = (BigInt(data.getUint32(0, true)) << 32n) | BigInt(data.getUint32(length - 4, true));
    const keyed = both ^ secretWord(8) ^ secretWord(16);
    let value = u64((keyed ^ rotate(keyed, 49n) ^ rotate(keyed, 24n)) * PRIME_MX2);
    value = u64((value ^ ((value >> 35n) + BigInt(length))) * PRIME_MX2);
    return value ^ (value >> 28n);
  }
  if (length > 0) {
    const last = data.getUint8(length - 1);
    const combined = (data.getUint8(0) << 16) | (data.getUint8(length >> 1) << 24) | (length << 8) | last;
    return avalanche64(BigInt((combined ^ secret.getInt32(0, true) ^ secret.getInt32(4, true)) >>> 0));
  }
  return avalanche64(secretWord(56) ^ secretWord(64));
}

function hash17To128(data: DataView): bigint {
  const length = data.byteLength;
  let sum = BigInt(length) * PRIME64_1;
  for (let i = Math.ceil(length / 32) - 1; i >= 0; i--) {
    sum += mix16(data, 16 * i, 32 * i) + mix16(data, length - 16 * (i + 1), 32 * i + 16);
  }
  return avalanche(u64(sum));
}

function hash129To240(data: DataView): bigint {
  const length = data.byteLength;
  let sum = BigInt(length) * PRIME64_1;
  for (let i = 0; i < 8; i++) sum += mix16(data, 16 * i, 16 * i);
  sum = avalanche(u64(sum));
  for (let i = 8; i < length >> 4; i++) sum += mix16(data, 16 * i, 16 * (i - 8) + 3);
  return avalanche(u64(sum + mix16(data, length - 16, 119)));
}

function hashLong(data: DataView): bigint {
  const lanes = new Lanes(data);
  const length = data.byteLength;
  const blocks = Math.floor((length - 1) / BLOCK_BYTES);
  for (let block = 0; block < blocks; block++) {
    lanes.accumulate(block * BLOCK_BYTES, STRIPES_PER_BLOCK);
    lanes.scramble();
  }
  const at = blocks * BLOCK_BYTES;
  lanes.accumulate(at, Math.floor((length - 1 - at) / STRIPE_BYTES));
  lanes.add(length - STRIPE_BYTES, SECRET.length - STRIPE_BYTES - 7);

  let result = BigInt(length) * PRIME64_1;
  for (let i = 0; i < 8; i += 2) {
    result += multiplyFold(lanes.value(i) ^ secretWord(11 + 8 * i), lanes.value(i + 1) ^ secretWord(19 + 8 * i));
  }
  return avalanche(u64(result));
}

/** The eight 64-bit sums of the long hash, as pairs of 32-bit halves: low at 2 i, high at 2 i + 1. */
class Lanes {
  readonly #data: DataView;
  readonly #halves = new Uint32Array(16);

  constructor(data: DataView) {
    this.#data = data;
    const words = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];
    for (const [i, word] of words.entries()) {
      this.#halves[2 * i] = Number(word & 0xffff_ffffn);
      this.#halves[2 * i + 1] = Number(word >> 32n);
    }
  }

  value(i: number): bigint {
    return (BigInt(this.#halves[2 * i + 1]) << 32n) | BigInt(this.#halves[2 * i]);
  }

  accumulate(at: number, stripes: number): void {
    for (let i = 0; i < stripes; i++) this.add(at + i * STRIPE_BYTES, i * 8);
  }

  /** One stripe: to each lane the product of its keyed halves, to its neighbour the data itself. */
  add(at: number, secretAt: number): void {
    const data = this.#data;
    const halves = this.#halves;
    for (let i = 0; i < 16; i += 2) {
      const low = data.getUint32(at + 4 * i, true);
      const high = data.getUint32(at + 4 * i + 4, true);
      const neighbour = i ^ 2;
      const sum = halves[neighbour] + low;
      halves[neighbour] = sum;
      halves[neighbour + 1] += high + (sum > 0xffff_ffff ? 1 : 0);

      const a = low ^ secret.getInt32(secretAt + 4 * i, true);
      const b = high ^ secret.getInt32(secretAt + 4 * i + 4, true);
      const aLow = a & 0xffff;
      const aHigh = a >>> 16;
      const bLow = b & 0xffff;
      const bHigh = b >>> 16;
      const middle = aHigh * bLow + ((aLow * bLow) >>> 16);
      const middleLow = aLow * bHigh + (middle & 0xffff);
      const productHigh = aHigh * bHigh + (middle >>> 16) + (middleLow >>> 16);
      const lowSum = halves[i] + (Math.imul(a, b) >>> 0);
      halves[i] = lowSum;
      halves[i + 1] += productHigh + (lowSum > 0xffff_ffff ? 1 : 0);
    }
  }

  /** At the end of a block: lane = (lane ^ lane >> 47 ^ secret) * PRIME32_1. */
  scramble(): void {
    for (let i = 0; i < 8; i++) {
      const lane = this.value(i);
      const mixed = u64((lane ^ (lane >> 47n) ^ secretWord(SECRET.length - STRIPE_BYTES + 8 * i)) * PRIME32_1);
      this.#halves[2 * i] = Number(mixed & 0xffff_ffffn);
      this.#halves[2 * i + 1] = Number(mixed >> 32n);
    }
  }
}
