import type { FileBytes } from "./memory-nodes.ts";

const PAGE_BYTES = 4096;

/** Bytes of a file in memory: sparse (what was never written reads as zeros and costs nothing) and copied on write. */
export class Pages implements FileBytes {
  #length = 0;
  readonly #pages = new Map<number, Uint8Array>();
  /** Pages that no clone refers to. */
  readonly #owned = new Set<number>();

  get length(): number {
    return this.#length;
  }

  /** Bytes held by pages. */
  get allocatedBytes(): number {
    return this.#pages.size * PAGE_BYTES;
  }

  /** Bytes of new pages that a write to [position, position + length) would need. */
  missingBytes(position: number, length: number): number {
    if (length === 0) return 0;
    let missing = 0;
    const last = Math.floor((position + length - 1) / PAGE_BYTES);
    for (let page = Math.floor(position / PAGE_BYTES); page <= last; page++) {
      if (!this.#pages.has(page)) missing += PAGE_BYTES;
    }
    return missing;
  }

  read(buffer: Uint8Array, offset: number, length: number, position: number): number {
    const count = Math.max(0, Math.min(length, this.#length - position));
    for (let done = 0; done < count; ) {
      const start = (position + done) % PAGE_BYTES;
      const size = Math.min(PAGE_BYTES - start, count - done);
      const page = this.#pages.get(Math.floor((position + done) / PAGE_BYTES));
      const at = offset + done;
      if (page === undefined) buffer.fill(0, at, at + size);
      else buffer.set(page.subarray(start, start + size), at);
      done += size;
    }
    return count;
  }

  write(bytes: Uint8Array, offset: number, length: number, position: number): void {
    for (let done = 0; done < length; ) {
      const start = (position + done) % PAGE_BYTES;
      const size = Math.min(PAGE_BYTES - start, length - done);
      const page = this.#writable(Math.floor((position + done) / PAGE_BYTES));
      page.set(bytes.subarray(offset + done, offset + done + size), start);
      done += size;
    }
    if (length > 0) this.#length = Math.max(this.#length, position + length);
  }

  /** Cuts off, or extends with zeros. */
  resize(length: number): void {
    if (length < this.#length) {
      const kept = Math.ceil(length / PAGE_BYTES);
      for (const page of [...this.#pages.keys()]) {
        if (page < kept) continue;
        this.#pages.delete(page);
        this.#owned.delete(page);
      }
      if (length % PAGE_BYTES !== 0 && this.#pages.has(kept - 1)) {
        this.#writable(kept - 1).fill(0, length % PAGE_BYTES);
      }
    }
    this.#length = length;
  }

  clone(): Pages {
    const copy = new Pages();
    copy.#length = this.#length;
    for (const [index, page] of this.#pages) copy.#pages.set(index, page);
    this.#owned.clear();
    return copy;
  }

  #writable(index: number): Uint8Array {
    const page = this.#pages.get(index);
    if (page !== undefined && this.#owned.has(index)) return page;
    const fresh = page === undefined ? new Uint8Array(PAGE_BYTES) : page.slice();
    this.#pages.set(index, fresh);
    this.#owned.add(index);
    return fresh;
  }
}
