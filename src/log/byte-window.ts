import type { File } from "../runtime/file-system.ts";
import { readExactly } from "./read-exactly.ts";

const WINDOW_BYTES = 256 * 1024;

/** A file that is only read. */
export type ReadableFile = Pick<File, "path" | "read">;

/**
 * A piece of a file in memory, for a reader that goes backward: what is asked for becomes the end of the piece. A range
 * larger than the piece makes it as large as that range; the caller has checked that the range is plausible.
 */
export class ByteWindow {
  /** Nothing before the first range is asked for: most files are gone through without one. */
  buffer = new Uint8Array(0);
  readonly #file: ReadableFile;
  #start = 0;
  #end = 0;

  constructor(file: ReadableFile) {
    this.#file = file;
  }

  /** Index in `buffer` of the byte at `position`, with `length` bytes from there on. Throws FileSystemError. */
  locate(position: number, length: number): number {
    if (position < this.#start || position + length > this.#end) this.#load(position, length);
    return position - this.#start;
  }

  /** A copy of `length` bytes at `position`. Throws FileSystemError. */
  copy(position: number, length: number): Uint8Array {
    const at = this.locate(position, length);
    return this.buffer.slice(at, at + length);
  }

  #load(position: number, length: number): void {
    const end = position + length;
    if (length > this.buffer.length) this.buffer = new Uint8Array(Math.max(length, WINDOW_BYTES));
    const start = Math.max(0, end - this.buffer.length);
    this.#start = 0;
    this.#end = 0;
    readExactly(this.#file, this.buffer, 0, end - start, start);
    this.#start = start;
    this.#end = end;
  }
}
