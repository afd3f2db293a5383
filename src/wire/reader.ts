import { lengthExceeds, trailingBytes, truncated, unknownVersion } from "./errors.ts";
import { readU16, readU32, readU64Exact } from "./hot.ts";
import { BLOCK_VERSION } from "./limits.ts";

/**
 * Reads fields of a body in buffer[position, end). Byte fields are views of `buffer`, never copies. A read beyond the end
 * throws WireError `truncated`; an `OrZero` read gives 0 instead and consumes nothing (wire.md 3).
 */
export class Reader {
  buffer: Uint8Array;
  position: number;
  end: number;

  constructor(buffer: Uint8Array, start = 0, end = buffer.length) {
    this.buffer = buffer;
    this.position = start;
    this.end = end;
  }

  /** Points this reader at another body. */
  reset(buffer: Uint8Array, start: number, end: number): this {
    this.buffer = buffer;
    this.position = start;
    this.end = end;
    return this;
  }

  get remaining(): number {
    return this.end - this.position;
  }

  u8(): number {
    return this.buffer[this.take(1)];
  }

  u16(): number {
    return readU16(this.buffer, this.take(2));
  }

  u32(): number {
    return readU32(this.buffer, this.take(4));
  }

  i32(): number {
    return readU32(this.buffer, this.take(4)) | 0;
  }

  u64(): bigint {
    return readU64Exact(this.buffer, this.take(8));
  }

  u8OrZero(): number {
    return this.remaining < 1 ? 0 : this.u8();
  }

  u32OrZero(): number {
    return this.remaining < 4 ? 0 : this.u32();
  }

  u64OrZero(): bigint {
    return this.remaining < 8 ? 0n : this.u64();
  }

  bytes(length: number): Uint8Array {
    const at = this.take(length);
    return this.buffer.subarray(at, at + length);
  }

  /** `len: u16`, then the bytes. */
  var(): Uint8Array {
    return this.bytes(this.u16());
  }

  /** A var that may have at most `maxBytes`; WireError `length-exceeds` above, before the bytes are looked at. */
  name(maxBytes: number): Uint8Array {
    const length = this.u16();
    if (length > maxBytes) throw lengthExceeds();
    return this.bytes(length);
  }

  rest(): Uint8Array {
    return this.bytes(this.remaining);
  }

  skipRest(): void {
    this.position = this.end;
  }

  /** Throws WireError `trailing-bytes` unless everything was read. */
  expectEnd(): void {
    if (this.position !== this.end) throw trailingBytes();
  }

  /**
   * Enters a block (`version: u8 = 1, field_len: u16`): reads now end with the block. Returns where the body ends, for
   * leaveBlock(). Throws WireError `unknown-version` or `truncated` before any field is read.
   */
  enterBlock(): number {
    const version = this.u8();
    if (version !== BLOCK_VERSION) throw unknownVersion(version);
    const length = this.u16();
    if (length > this.remaining) throw truncated();
    const bodyEnd = this.end;
    this.end = this.position + length;
    return bodyEnd;
  }

  /** Ignores what is unread of the block; reads go on with the tail behind it. */
  leaveBlock(bodyEnd: number): void {
    this.position = this.end;
    this.end = bodyEnd;
  }

  private take(length: number): number {
    const at = this.position;
    if (length > this.end - at) throw truncated();
    this.position = at + length;
    return at;
  }
}
