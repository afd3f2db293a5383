import { freeMemory } from "../runtime/free-memory.ts";
import { frameBytesNeeded } from "../wire/envelope.ts";
import { FRAME_HEADER_BYTES, FRAME_PREFIX_BYTES } from "../wire/limits.ts";

const NO_BYTES = new Uint8Array(0);
const FIRST_CARRY_BYTES = 256;
/** A larger carry buffer is given back once its frame is done. */
const KEPT_CARRY_BYTES = 16 * 1024;

/**
 * The frames that a connection has received, in place. Unlike the client's splitter it can step back: a frame that cannot
 * be served yet (its publishes wait for room, an earlier reply is owed) is read again later, and the chunk is kept until
 * nothing refers to it any more.
 */
export class Inbound {
  /** The current frame: its tag, and its body at buffer[bodyStart, bodyEnd). Valid until the following next() or release(). */
  tag = 0;
  buffer: Uint8Array = NO_BYTES;
  bodyStart = 0;
  bodyEnd = 0;

  #chunk: Uint8Array = NO_BYTES;
  #at = 0;
  /** Chunks that arrived before the front one was used up (a socket may deliver what it had read before it was paused). */
  #later: Uint8Array[] = [];
  /** A frame split between chunks. Its memory follows the bytes received, never the length prefix. */
  #carry: Uint8Array = NO_BYTES;
  #carryLength = 0;
  #carryServed = false;

  push(chunk: Uint8Array): void {
    if (this.#chunk.length === 0) {
      this.#chunk = chunk;
      this.#at = 0;
    } else {
      this.#later.push(chunk);
    }
  }

  /** True when the current frame was put together in the carry buffer rather than read in place. */
  get fromCarry(): boolean {
    return this.buffer !== this.#chunk;
  }

  /** True when unread bytes are held: whole frames, or the chunk itself. */
  get holding(): boolean {
    return this.#chunk.length > 0;
  }

  /** Steps to the next whole frame; false when there is none. Throws WireError on a prefix of 0 or above the cap. */
  next(): boolean {
    if (this.#carryServed) this.#dropCarry();
    if (this.#carryLength > 0) return this.#nextFromCarry();
    const chunk = this.#chunk;
    const needed = frameBytesNeeded(chunk, this.#at, chunk.length);
    if (this.#at + needed > chunk.length || needed <= FRAME_PREFIX_BYTES) return false;
    this.#serve(chunk, this.#at, needed);
    this.#at += needed;
    return true;
  }

  /** Steps back, so that next() starts again with the frame that begins at `frameStart` of the current buffer. */
  rewindTo(frameStart: number): void {
    if (this.fromCarry) this.#carryServed = false;
    else this.#at = frameStart;
  }

  /** Where the current frame begins in its buffer. */
  get frameStart(): number {
    return this.bodyStart - FRAME_HEADER_BYTES;
  }

  /**
   * After next() returned false: keeps the front part of an incomplete frame and lets go of the chunk. Returns true if
   * another chunk is there to go on with.
   */
  release(): boolean {
    if (this.#at < this.#chunk.length) this.#carryOver(this.#chunk.length - this.#at);
    this.buffer = NO_BYTES;
    freeMemory(this.#chunk);
    this.#chunk = this.#later.shift() ?? NO_BYTES;
    this.#at = 0;
    return this.#chunk.length > 0;
  }

  /** Forgets everything received. */
  clear(): void {
    this.#chunk = NO_BYTES;
    this.#later = [];
    this.#at = 0;
    this.buffer = NO_BYTES;
    this.#dropCarry();
  }

  #nextFromCarry(): boolean {
    for (;;) {
      const needed = frameBytesNeeded(this.#carry, 0, this.#carryLength);
      const missing = needed - this.#carryLength;
      if (missing === 0 && needed > FRAME_PREFIX_BYTES) {
        this.#serve(this.#carry, 0, needed);
        this.#carryServed = true;
        return true;
      }
      const available = this.#chunk.length - this.#at;
      if (available === 0) return false;
      this.#carryOver(Math.min(missing, available));
    }
  }

  #serve(buffer: Uint8Array, start: number, bytes: number): void {
    this.buffer = buffer;
    this.tag = buffer[start + FRAME_PREFIX_BYTES];
    this.bodyStart = start + FRAME_HEADER_BYTES;
    this.bodyEnd = start + bytes;
  }

  #carryOver(bytes: number): void {
    const needed = this.#carryLength + bytes;
    if (needed > this.#carry.length) {
      const grown = new Uint8Array(Math.max(needed, this.#carry.length * 2, FIRST_CARRY_BYTES));
      grown.set(this.#carry.subarray(0, this.#carryLength));
      this.#carry = grown;
    }
    this.#carry.set(this.#chunk.subarray(this.#at, this.#at + bytes), this.#carryLength);
    this.#carryLength = needed;
    this.#at += bytes;
  }

  #dropCarry(): void {
    this.#carryServed = false;
    this.#carryLength = 0;
    if (this.#carry.length > KEPT_CARRY_BYTES) this.#carry = NO_BYTES;
  }
}
