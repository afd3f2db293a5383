import { DIRECT_BLOCK_BYTES, type File } from "../runtime/file-system.ts";
import { readExactly } from "./read-exactly.ts";

/** `length` in whole blocks of direct writes. */
export function wholeBlocks(length: number): number {
  return Math.ceil(length / DIRECT_BLOCK_BYTES) * DIRECT_BLOCK_BYTES;
}

/**
 * The last block of the segment being filled, as far as it has bytes. A direct write is of whole blocks (storage.md 16), so
 * the next batch begins with what the ones before it put there, whether that is written yet or not.
 */
export class TailBlock {
  readonly #bytes = new Uint8Array(DIRECT_BLOCK_BYTES);
  #length = 0;

  /** The segment is new: all it has is its header. */
  begin(header: Uint8Array): void {
    this.#bytes.set(header);
    this.#length = header.length;
  }

  /** The segment is an old one that ends at `end`. Throws FileSystemError. */
  readBack(file: File, end: number): void {
    this.#length = end % DIRECT_BLOCK_BYTES;
    readExactly(file, this.#bytes, 0, this.#length, end - this.#length);
  }

  /** A batch in `buffer`, which begins at a block, was filled up to `end`. */
  keep(buffer: Uint8Array, end: number): void {
    this.#length = end % DIRECT_BLOCK_BYTES;
    this.#bytes.set(buffer.subarray(end - this.#length, end));
  }

  /** Puts the bytes at the front of the next batch's buffer; returns how many. */
  carryOver(buffer: Uint8Array): number {
    buffer.set(this.#bytes.subarray(0, this.#length));
    return this.#length;
  }
}
