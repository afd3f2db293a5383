import { freeMemory } from "./free-memory.ts";
import type { FileBytes } from "./memory-nodes.ts";

const BLOCK_BYTES = 64 * 1024;
const SMALLEST_BYTES = 1024;
/** Blocks of removed files that are kept for the next ones; the rest of the memory is given back. */
const MOST_SPARE = 32;

/** The spare blocks of one file system. */
export class BlockPool {
  readonly #spare: Uint8Array[] = [];

  /** A block of 64 KiB with unknown contents. */
  take(): Uint8Array {
    return this.#spare.pop() ?? new Uint8Array(Buffer.allocUnsafeSlow(BLOCK_BYTES).buffer);
  }

  give(block: Uint8Array): void {
    if (block.length < BLOCK_BYTES || this.#spare.length >= MOST_SPARE) freeMemory(block);
    else this.#spare.push(block);
  }
}

/**
 * Bytes of a file that lives in memory for good: sparse, in blocks large enough that a batch of records is a few copies, and
 * small for a small file (a block grows to its size). Memory goes back to the system when the file is removed.
 */
export class Blocks implements FileBytes {
  #length = 0;
  #blocks: (Uint8Array | undefined)[] = [];
  readonly #pool: BlockPool;

  constructor(pool: BlockPool) {
    this.#pool = pool;
  }

  get length(): number {
    return this.#length;
  }

  get allocatedBytes(): number {
    return this.#blocks.reduce((sum, block) => sum + (block?.length ?? 0), 0);
  }

  missingBytes(position: number, length: number): number {
    let missing = 0;
    for (let at = position; at < position + length; at = blockEnd(at)) {
      if (this.#blocks[blockOf(at)] === undefined) missing += BLOCK_BYTES;
    }
    return missing;
  }

  read(buffer: Uint8Array, offset: number, length: number, position: number): number {
    const end = position + Math.max(0, Math.min(length, this.#length - position));
    for (let at = position; at < end; ) {
      const next = Math.min(blockEnd(at), end);
      const start = at % BLOCK_BYTES;
      const to = offset + at - position;
      const bytes = this.#blocks[blockOf(at)]?.subarray(start, start + next - at);
      if (bytes !== undefined) buffer.set(bytes, to);
      // Behind what the block has grown to there are zeros.
      buffer.fill(0, to + (bytes?.length ?? 0), to + next - at);
      at = next;
    }
    return end - position;
  }

  write(bytes: Uint8Array, offset: number, length: number, position: number): void {
    if (length === 0) return;
    const end = position + length;
    for (let at = position; at < end; ) {
      const next = Math.min(blockEnd(at), end);
      const start = at % BLOCK_BYTES;
      const from = offset + at - position;
      this.#writable(blockOf(at), start, start + next - at).set(bytes.subarray(from, from + next - at), start);
      at = next;
    }
    this.#length = Math.max(this.#length, end);
  }

  resize(length: number): void {
    if (length < this.#length) {
      const kept = blockOf(length + BLOCK_BYTES - 1);
      for (const block of this.#blocks.splice(kept)) if (block !== undefined) this.#pool.give(block);
      const rest = length % BLOCK_BYTES;
      if (rest > 0) this.#blocks[kept - 1]?.fill(0, rest);
    }
    this.#length = length;
  }

  release(): void {
    this.resize(0);
  }

  /** The block with room for [start, end), which the caller writes. What it never held reads as zeros. */
  #writable(index: number, start: number, end: number): Uint8Array {
    const block = this.#blocks[index];
    if (block !== undefined && block.length >= end) return block;
    let size = Math.max(SMALLEST_BYTES, block?.length ?? 0);
    while (size < end) size *= 2;
    // Only the first block of a file is ever small: what follows it belongs to a file that grows.
    const larger = size < BLOCK_BYTES && index === 0 ? new Uint8Array(size) : this.#pool.take();
    if (larger.length === BLOCK_BYTES) {
      const known = block?.length ?? 0;
      larger.fill(0, known, Math.max(known, start));
      larger.fill(0, Math.max(known, end));
    }
    if (block !== undefined) {
      larger.set(block);
      this.#pool.give(block);
    }
    while (this.#blocks.length < index) this.#blocks.push(undefined);
    this.#blocks[index] = larger;
    return larger;
  }
}

function blockOf(position: number): number {
  return Math.floor(position / BLOCK_BYTES);
}

function blockEnd(position: number): number {
  return (blockOf(position) + 1) * BLOCK_BYTES;
}
