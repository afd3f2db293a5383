import { lengthExceeds, outOfRange, varTooLong } from "./errors.ts";
import { writeU16, writeU32, writeU64Exact } from "./hot.ts";
import { BLOCK_VERSION, MAX_VAR_BYTES, U32_MAX, U64_MAX } from "./limits.ts";

/** Collects fields in a buffer that grows as needed. Values outside of a field's range throw WireError `out-of-range`. */
export class Writer {
  buffer: Uint8Array;
  position = 0;

  constructor(initialBytes = 256) {
    this.buffer = new Uint8Array(initialBytes);
  }

  u8(value: number): void {
    checkInteger(value, 0xff, "a u8 field");
    this.reserve(1);
    this.buffer[this.position++] = value;
  }

  u16(value: number): void {
    checkInteger(value, 0xffff, "a u16 field");
    this.reserve(2);
    this.position = writeU16(this.buffer, this.position, value);
  }

  u32(value: number): void {
    checkInteger(value, U32_MAX, "a u32 field");
    this.reserve(4);
    this.position = writeU32(this.buffer, this.position, value);
  }

  i32(value: number): void {
    if ((value | 0) !== value) throw outOfRange("an i32 field");
    this.reserve(4);
    this.position = writeU32(this.buffer, this.position, value);
  }

  u64(value: bigint): void {
    if (value < 0n || value > U64_MAX) throw outOfRange("a u64 field");
    this.reserve(8);
    this.position = writeU64Exact(this.buffer, this.position, value);
  }

  bytes(value: Uint8Array): void {
    this.reserve(value.length);
    this.buffer.set(value, this.position);
    this.position += value.length;
  }

  /** `len: u16`, then the bytes; WireError `var-too-long` above 65,535 bytes. */
  var(value: Uint8Array): void {
    if (value.length > MAX_VAR_BYTES) throw varTooLong();
    this.u16(value.length);
    this.bytes(value);
  }

  /** A var with the cap that its decoder enforces; WireError `length-exceeds` above. */
  name(value: Uint8Array, maxBytes: number): void {
    if (value.length > MAX_VAR_BYTES) throw varTooLong();
    if (value.length > maxBytes) throw lengthExceeds();
    this.var(value);
  }

  /** Starts a block (`version: u8 = 1, field_len: u16`); pass the result to endBlock(). */
  beginBlock(): number {
    this.u8(BLOCK_VERSION);
    this.u16(0);
    return this.position;
  }

  /** Writes the block's length; WireError `var-too-long` when it does not fit its u16. */
  endBlock(blockStart: number): void {
    const length = this.position - blockStart;
    if (length > MAX_VAR_BYTES) throw varTooLong();
    writeU16(this.buffer, blockStart - 2, length);
  }

  /** A copy of what was written. */
  toBytes(): Uint8Array {
    return this.buffer.slice(0, this.position);
  }

  /** Makes room for `length` more bytes. */
  reserve(length: number): void {
    const needed = this.position + length;
    if (needed <= this.buffer.length) return;
    const larger = new Uint8Array(Math.max(needed, this.buffer.length * 2));
    larger.set(this.buffer.subarray(0, this.position));
    this.buffer = larger;
  }
}

function checkInteger(value: number, max: number, what: string): void {
  if (!(Number.isInteger(value) && value >= 0 && value <= max)) throw outOfRange(what);
}
