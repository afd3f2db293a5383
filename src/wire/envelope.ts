/** Frames on the byte stream (wire.md 1): `[ len: u32 ][ tag: u8 ][ body: len-1 bytes ]`. */
import { frameTooLarge, frameZero } from "./errors.ts";
import { readU32 } from "./hot.ts";
import { FRAME_HEADER_BYTES, FRAME_PREFIX_BYTES, MAX_FRAME_LENGTH } from "./limits.ts";

const NO_BYTES = new Uint8Array(0);
/** A larger buffer of a partial frame is given back once that frame is done. */
const KEPT_PARTIAL_BYTES = 16 * 1024;
const FIRST_PARTIAL_BYTES = 256;

/**
 * Bytes that the frame at buffer[start, end) takes in all: 4 while its prefix is incomplete, else 4 + len. Throws WireError
 * `frame-zero` or `frame-too-large`, judged from the prefix alone.
 */
export function frameBytesNeeded(
  buffer: Uint8Array,
  start: number,
  end: number,
  maxFrameLength = MAX_FRAME_LENGTH,
): number {
  if (end - start < FRAME_PREFIX_BYTES) return FRAME_PREFIX_BYTES;
  const length = readU32(buffer, start);
  if (length === 0) throw frameZero();
  if (length > maxFrameLength) throw frameTooLarge(length, maxFrameLength);
  return FRAME_PREFIX_BYTES + length;
}

/**
 * Cuts a byte stream into frames, in place: a frame that lies whole in the pushed chunk is a range of that chunk; only a
 * frame split between chunks is copied together. Memory follows the bytes received, never a length prefix, and a frame
 * that trickles in byte by byte costs O(n).
 *
 * ```ts
 * splitter.push(chunk);
 * while (splitter.next()) handle(splitter.tag, splitter.buffer, splitter.bodyStart, splitter.bodyEnd);
 * ```
 *
 * The frame is valid until the following next() or push(). Once next() has returned false nothing of the chunk is
 * referenced any more. One may stop in between and go on later.
 */
export class FrameSplitter {
  tag = 0;
  /** Holds the current frame. */
  buffer: Uint8Array = NO_BYTES;
  bodyStart = 0;
  bodyEnd = 0;

  readonly #maxFrameLength: number;
  #chunk: Uint8Array = NO_BYTES;
  #at = 0;
  #partial: Uint8Array = NO_BYTES;
  #partialLength = 0;
  #needed = FRAME_PREFIX_BYTES;

  /** A cap above MAX_FRAME_LENGTH is taken as MAX_FRAME_LENGTH. */
  constructor(maxFrameLength = MAX_FRAME_LENGTH) {
    this.#maxFrameLength = Math.min(maxFrameLength, MAX_FRAME_LENGTH);
  }

  /** Bytes that the front frame needs in all, as far as known: 4 while its prefix is incomplete, else 4 + len. */
  get bytesNeeded(): number {
    return this.#needed;
  }

  /** Bytes pushed and not yet given out as a frame. */
  get bytesBuffered(): number {
    return this.#partialLength + this.#chunk.length - this.#at;
  }

  /** Hands over the next bytes of the stream. */
  push(chunk: Uint8Array): void {
    const unread = this.#chunk.length - this.#at;
    if (unread === 0) {
      this.#chunk = chunk;
    } else {
      const joined = new Uint8Array(unread + chunk.length);
      joined.set(this.#chunk.subarray(this.#at));
      joined.set(chunk, unread);
      this.#chunk = joined;
    }
    this.#at = 0;
  }

  /** Moves to the next complete frame; false when more bytes are needed. Throws WireError on a malformed envelope. */
  next(): boolean {
    if (this.#partialLength > 0) return this.#nextSplit();
    const end = this.#chunk.length;
    this.#needed = frameBytesNeeded(this.#chunk, this.#at, end, this.#maxFrameLength);
    if (end - this.#at < this.#needed) {
      if (this.#at < end) this.#collect(end - this.#at);
      this.#dropChunk();
      return false;
    }
    this.#expose(this.#chunk, this.#at);
    this.#at += this.#needed;
    return true;
  }

  #nextSplit(): boolean {
    if (!this.#fill(FRAME_PREFIX_BYTES)) return false;
    this.#needed = frameBytesNeeded(this.#partial, 0, this.#partialLength, this.#maxFrameLength);
    if (!this.#fill(this.#needed)) return false;
    this.#expose(this.#partial, 0);
    this.#partialLength = 0;
    if (this.#partial.length > KEPT_PARTIAL_BYTES) this.#partial = NO_BYTES;
    return true;
  }

  /** Brings the partial frame to `length` bytes; false when the chunk has too few. */
  #fill(length: number): boolean {
    const missing = length - this.#partialLength;
    const available = this.#chunk.length - this.#at;
    if (missing > 0) this.#collect(Math.min(missing, available));
    if (missing <= available) return true;
    this.#dropChunk();
    return false;
  }

  #collect(length: number): void {
    const newLength = this.#partialLength + length;
    if (newLength > this.#partial.length) {
      const larger = new Uint8Array(Math.max(newLength, this.#partial.length * 2, FIRST_PARTIAL_BYTES));
      larger.set(this.#partial.subarray(0, this.#partialLength));
      this.#partial = larger;
    }
    this.#partial.set(this.#chunk.subarray(this.#at, this.#at + length), this.#partialLength);
    this.#partialLength = newLength;
    this.#at += length;
  }

  #dropChunk(): void {
    this.#chunk = NO_BYTES;
    this.#at = 0;
    this.buffer = NO_BYTES;
  }

  #expose(buffer: Uint8Array, at: number): void {
    this.buffer = buffer;
    this.tag = buffer[at + FRAME_PREFIX_BYTES];
    this.bodyStart = at + FRAME_HEADER_BYTES;
    this.bodyEnd = at + this.#needed;
  }
}
