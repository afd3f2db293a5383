import type { SegmentEntry } from "./segment-entry.ts";

/**
 * A piece of one segment that is written and synced as a whole: records are sealed into it back to back, then it goes
 * to the I/O thread. While it is there nobody touches its buffer.
 */
export interface Batch {
  buffer: Uint8Array;
  /** Where in the buffer its records begin: in front of them is what the file's last block has already (direct writes). */
  readonly start: number;
  /** Where in the buffer the next record goes; bytes [start, end) are records. */
  end: number;
  /** Records end at or before this place in the buffer. */
  limit: number;
  /** The segment the records belong to. Its file may not exist yet while the roll before it runs. */
  segment: SegmentEntry;
  /** File position of buffer[0]. */
  position: number;
  baseOffset: number;
  count: number;
  /** Key, header and payload bytes of its records as they came. */
  bodyBytes: number;
  /** The segment is full after this batch: write its footer and go on with the next one. */
  seals: boolean;
}

/**
 * The buffers of one log. Their number bounds what is appended and not yet written; a log without traffic keeps one.
 * A record larger than a batch gets a buffer of its own, which is not kept.
 */
export class BatchPool {
  /** Length of its buffers. */
  readonly batchBytes: number;
  readonly #capacity: number;
  readonly #allocate: (length: number) => Uint8Array;
  #free: Uint8Array[] = [];
  #taken = 0;

  /** `maxPendingBytes` is rounded down to whole batches, at least two: one is filled while the other is written. */
  constructor(maxPendingBytes: number, batchBytes: number, allocate: (length: number) => Uint8Array) {
    this.batchBytes = batchBytes;
    this.#capacity = Math.max(2, Math.floor(maxPendingBytes / batchBytes));
    this.#allocate = allocate;
  }

  /** Whether take() would give one. */
  get spare(): boolean {
    return this.#taken < this.#capacity;
  }

  /** A buffer of `batchBytes`, or undefined while all are taken. */
  take(): Uint8Array | undefined {
    if (this.#taken >= this.#capacity) return undefined;
    this.#taken += 1;
    return this.#free.pop() ?? this.#allocate(this.batchBytes);
  }

  /** Ends what take() began. The buffer may be another one of the same length, or be kept by somebody (undefined). */
  give(buffer: Uint8Array | undefined): void {
    this.#taken -= 1;
    if (buffer?.length === this.batchBytes) this.#free.push(buffer);
  }

  /** Takes back a buffer whose batch got another one in its place. */
  restore(buffer: Uint8Array): void {
    this.#free.push(buffer);
  }

  /** Frees all spare buffers but one, once traffic has stopped. */
  trim(): void {
    this.#free.length = Math.min(this.#free.length, this.#taken > 0 ? 0 : 1);
  }
}
