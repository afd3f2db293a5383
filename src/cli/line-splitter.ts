const NEWLINE = 0x0a;
/** Lines given out at a time, so that a chunk of nothing but newlines does not become a million views at once. */
const BATCH_LINES = 4096;
const FIRST_CARRY_BYTES = 4096;

/** A line that no record can hold. */
export class LineTooLongError extends Error {
  override readonly name = "LineTooLongError";
  /** Counted from 1. */
  readonly lineNumber: number;

  constructor(lineNumber: number, maxLineBytes: number) {
    super(`line ${lineNumber} is longer than ${maxLineBytes} bytes, the most that one record holds`);
    this.lineNumber = lineNumber;
  }
}

/**
 * Cuts a byte stream into lines. A line ends before each \n, which is no part of it; every other byte, \r and NUL and
 * what is no UTF-8 too, is passed through. What follows the last \n is a line if it is not empty, so joining the lines
 * with \n, and adding one if `endedWithNewline`, gives the stream back.
 */
export class LineSplitter {
  readonly #maxLineBytes: number;
  #carry: Uint8Array = new Uint8Array(0);
  #carryBytes = 0;
  #lines = 0;

  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes;
  }

  /** Lines given out so far. */
  get lines(): number {
    return this.#lines;
  }

  /** Bytes of the line that has no end yet. */
  get unfinishedBytes(): number {
    return this.#carryBytes;
  }

  /** Whether the last byte seen was a \n; true for an empty stream. */
  get endedWithNewline(): boolean {
    return this.#carryBytes === 0;
  }

  /**
   * The lines that `chunk` completes, in order, at most 4096 at a time; they are views of `chunk` where possible. Throws
   * LineTooLongError after giving out the lines before the long one, without keeping more than the limit.
   */
  *split(chunk: Uint8Array): Generator<Uint8Array[]> {
    let batch: Uint8Array[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      if (this.#carryBytes + end - start > this.#maxLineBytes) {
        yield batch;
        throw new LineTooLongError(this.#lines + 1, this.#maxLineBytes);
      }
      batch.push(this.#complete(chunk.subarray(start, end)));
      this.#lines++;
      start = end + 1;
      if (batch.length === BATCH_LINES) {
        yield batch;
        batch = [];
      }
    }
    if (batch.length > 0) {
      yield batch;
    }
    if (start < chunk.length) {
      if (this.#carryBytes + chunk.length - start > this.#maxLineBytes) {
        throw new LineTooLongError(this.#lines + 1, this.#maxLineBytes);
      }
      this.#keep(chunk.subarray(start));
    }
  }

  /** The line after the last \n at the end of the stream, if there is one. */
  finish(): Uint8Array | undefined {
    if (this.#carryBytes === 0) {
      return undefined;
    }
    this.#lines++;
    return this.#carry.subarray(0, this.#carryBytes);
  }

  #complete(tail: Uint8Array): Uint8Array {
    if (this.#carryBytes === 0) {
      return tail;
    }
    this.#keep(tail);
    const line = this.#carry.slice(0, this.#carryBytes);
    this.#carryBytes = 0;
    return line;
  }

  #keep(bytes: Uint8Array): void {
    const needed = this.#carryBytes + bytes.length;
    if (needed > this.#carry.length) {
      const grown = new Uint8Array(Math.max(FIRST_CARRY_BYTES, needed, Math.min(this.#maxLineBytes, needed * 2)));
      grown.set(this.#carry.subarray(0, this.#carryBytes));
      this.#carry = grown;
    }
    this.#carry.set(bytes, this.#carryBytes);
    this.#carryBytes = needed;
  }
}
