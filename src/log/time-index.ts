import type { Codec } from "../runtime/codec.ts";
import { readUint64, viewOf, writeUint64 } from "./u64.ts";

/**
 * The time index of a sealed segment, `seg-<016x>.tindex` (storage.md 12.2): an accelerator that is made from the
 * records and never believed against them.
 *
 * "TIDX" | version u8 | checksum u8 | 0 u16 | segment id u64 | base offset u64 | record count u64 | stride u32 |
 * entry count u32 | entries: offset u64, prefix maximum u64 | crc u32
 */

export const DEFAULT_STRIDE = 1024;

const MAGIC = [0x54, 0x49, 0x44, 0x58];
const VERSION = 1;
const CHECKSUM_CRC32C = 1;
const HEADER_LENGTH = 40;
const ENTRY_LENGTH = 16;
const CRC_LENGTH = 4;

/** Which segment an index is of. */
export interface IndexedSegment {
  readonly segmentId: number;
  readonly baseOffset: number;
  readonly recordCount: number;
}

export interface TimeIndexEntry {
  readonly offset: number;
  /** The latest timestamp of all records before `offset` in the segment, 0 for the first entry; u64, Unix ms. */
  readonly prefixMaxMs: bigint;
}

export interface TimeIndex extends IndexedSegment {
  /** Records between two entries. */
  readonly stride: number;
  readonly entries: readonly TimeIndexEntry[];
}

/** Collects an index while the records of a segment go by in order; lost ones may be left out. */
export class TimeIndexBuilder {
  readonly #segment: IndexedSegment;
  readonly #stride: number;
  readonly #entries: TimeIndexEntry[] = [];
  #maxMs = 0n;

  constructor(segment: IndexedSegment, stride = DEFAULT_STRIDE) {
    this.#segment = segment;
    this.#stride = stride;
  }

  add(offset: number, timestampMs: bigint): void {
    this.#anchorsUpTo(offset);
    if (timestampMs > this.#maxMs) this.#maxMs = timestampMs;
  }

  finish(): TimeIndex {
    const { baseOffset, recordCount } = this.#segment;
    this.#anchorsUpTo(baseOffset + recordCount - 1);
    return { ...this.#segment, stride: this.#stride, entries: this.#entries };
  }

  #anchorsUpTo(offset: number): void {
    for (;;) {
      const next = this.#segment.baseOffset + this.#entries.length * this.#stride;
      if (next > offset) return;
      this.#entries.push({ offset: next, prefixMaxMs: this.#maxMs });
    }
  }
}

/** Length of the file of such an index. */
export function timeIndexLength(recordCount: number, stride: number): number {
  return HEADER_LENGTH + Math.ceil(recordCount / stride) * ENTRY_LENGTH + CRC_LENGTH;
}

/** The bytes of the file. */
export function encodeTimeIndex(index: TimeIndex, codec: Codec): Uint8Array {
  const { entries } = index;
  const bytes = new Uint8Array(HEADER_LENGTH + entries.length * ENTRY_LENGTH + CRC_LENGTH);
  const view = viewOf(bytes);
  bytes.set(MAGIC);
  bytes[4] = VERSION;
  bytes[5] = CHECKSUM_CRC32C;
  writeUint64(view, 8, index.segmentId);
  writeUint64(view, 16, index.baseOffset);
  writeUint64(view, 24, index.recordCount);
  view.setUint32(32, index.stride, true);
  view.setUint32(36, entries.length, true);
  for (const [i, { offset, prefixMaxMs }] of entries.entries()) {
    writeUint64(view, HEADER_LENGTH + i * ENTRY_LENGTH, offset);
    view.setBigUint64(HEADER_LENGTH + i * ENTRY_LENGTH + 8, prefixMaxMs, true);
  }
  const end = bytes.length - CRC_LENGTH;
  view.setUint32(end, codec.crc32c(bytes, 0, end), true);
  return bytes;
}

/** The index in `bytes`, undefined for anything that is not exactly one of `segment`. */
export function decodeTimeIndex(bytes: Uint8Array, segment: IndexedSegment, codec: Codec): TimeIndex | undefined {
  if (bytes.length < HEADER_LENGTH + CRC_LENGTH) return undefined;
  const view = viewOf(bytes);
  const end = bytes.length - CRC_LENGTH;
  const expected = [...MAGIC, VERSION, CHECKSUM_CRC32C, 0, 0];
  if (expected.some((byte, i) => bytes[i] !== byte)) return undefined;
  if (view.getUint32(end, true) !== codec.crc32c(bytes, 0, end)) return undefined;
  const { segmentId, baseOffset, recordCount } = segment;
  if (readUint64(view, 8) !== segmentId || readUint64(view, 16) !== baseOffset) return undefined;
  const stride = view.getUint32(32, true);
  const count = view.getUint32(36, true);
  if (readUint64(view, 24) !== recordCount || stride === 0) return undefined;
  if (end !== HEADER_LENGTH + count * ENTRY_LENGTH || count !== Math.ceil(recordCount / stride)) return undefined;
  const entries: TimeIndexEntry[] = [];
  for (let i = 0; i < count; i++) {
    const offset = readUint64(view, HEADER_LENGTH + i * ENTRY_LENGTH);
    const prefixMaxMs = view.getBigUint64(HEADER_LENGTH + i * ENTRY_LENGTH + 8, true);
    if (offset !== baseOffset + i * stride || prefixMaxMs < (entries.at(-1)?.prefixMaxMs ?? 0n)) return undefined;
    entries.push({ offset, prefixMaxMs });
  }
  return { ...segment, stride, entries };
}

/** Where to look for the first record of `timestampMs` or later: every record of the segment before it is earlier. */
export function lastEntryBefore({ entries }: TimeIndex, timestampMs: bigint): number {
  let low = 0;
  let high = entries.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (entries[middle].prefixMaxMs < timestampMs) low = middle;
    else high = middle - 1;
  }
  return entries[low]?.offset ?? 0;
}
