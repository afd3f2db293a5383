/** The stored record frames in a DeliverBatch: wire.md 17. */
import type { DeliverBatch } from "./deliver.ts";
import { WireError } from "./errors.ts";
import { readU16, readU32, readU64Exact } from "./hot.ts";

/** Checksums come in from outside: the codec of the runtime has both. */
export interface Checksums {
  /** CRC-32C of buffer[start, end), unsigned. */
  crc32c(buffer: Uint8Array, start: number, end: number): number;
  /** XXH3-64, seed 0, of buffer[start, end). */
  xxh3(buffer: Uint8Array, start: number, end: number): bigint;
}

export interface StoredRecord {
  readonly offset: bigint;
  /** Sequence in the log it is stored in; not the offset. */
  readonly seq: bigint;
  readonly flags: number;
  readonly timestampMs: bigint;
  /** Subject or stream tag, as the flags 0x08 and 0x10 say; empty without. */
  readonly label: Uint8Array;
  readonly key: Uint8Array;
  readonly headers: Uint8Array;
  readonly payload: Uint8Array;
  /** The whole frame. */
  readonly frame: Uint8Array;
}

const HEADER_BYTES = 36;
const TRAILER_BYTES = 8;
const XXH3_BYTES = 8;
const MAGIC = 0x4942;
const VERSION = 1;
const FLAG_XXH3 = 0x04;
const FLAG_SUBJECT = 0x08;
const FLAG_STREAM_TAG = 0x10;
const KNOWN_FLAGS = 0x1f;

// magic u16 0x4942, version u8 1, flags u8, seq u64, timestamp_ms u64, key_len u32, headers_len u32, payload_len u32,
// CRC-32C of the 32 bytes before u32; [len u16, label, CRC-32C of both u32]; key, headers, payload; [xxh3-64 of the
// body u64]; CRC-32C of the body u32, length of the whole frame u32

/**
 * The records of a batch, every checksum verified. Throws WireError `bad-record` unless the frames are exactly
 * `recordCount` intact ones. Compressed payloads are given as stored.
 */
export function decodeStoredRecords(batch: DeliverBatch, checksums: Checksums): StoredRecord[] {
  const { frames } = batch;
  if (batch.recordCount * (HEADER_BYTES + TRAILER_BYTES) > frames.length) throw badRecord("the batch is truncated");
  const records: StoredRecord[] = [];
  let at = 0;
  for (let index = 0; index < batch.recordCount; index++) {
    const record = decodeStoredRecord(frames, at, batch.firstOffset + BigInt(index), checksums);
    records.push(record);
    at += record.frame.length;
  }
  if (at !== frames.length) throw badRecord("bytes are left behind the last record of the batch");
  return records;
}

function decodeStoredRecord(buffer: Uint8Array, start: number, offset: bigint, checksums: Checksums): StoredRecord {
  const available = buffer.length - start;
  if (available < HEADER_BYTES) throw badRecord("a stored record is truncated");
  if (readU16(buffer, start) !== MAGIC) throw badRecord("a stored record has the wrong magic");
  if (buffer[start + 2] !== VERSION) throw badRecord(`unknown stored record version ${buffer[start + 2]}`);
  if (checksums.crc32c(buffer, start, start + 32) !== readU32(buffer, start + 32)) {
    throw badRecord("the header checksum of a stored record does not match");
  }
  const flags = buffer[start + 3];
  const labelled = flags & (FLAG_SUBJECT | FLAG_STREAM_TAG);
  if (flags & ~KNOWN_FLAGS || labelled === (FLAG_SUBJECT | FLAG_STREAM_TAG)) {
    throw badRecord(`a stored record has the flags ${flags}`);
  }
  const keyLength = readU32(buffer, start + 20);
  const headersLength = readU32(buffer, start + 24);
  const payloadLength = readU32(buffer, start + 28);
  let at = start + HEADER_BYTES;
  let label = buffer.subarray(at, at);
  if (labelled !== 0) {
    if (available < HEADER_BYTES + 2) throw badRecord("a stored record is truncated");
    const labelEnd = at + 2 + readU16(buffer, at);
    if (labelEnd + 4 > buffer.length) throw badRecord("a stored record is truncated");
    if (checksums.crc32c(buffer, at, labelEnd) !== readU32(buffer, labelEnd)) {
      throw badRecord("the label checksum of a stored record does not match");
    }
    label = buffer.subarray(at + 2, labelEnd);
    at = labelEnd + 4;
  }
  const bodyEnd = at + keyLength + headersLength + payloadLength;
  const hashBytes = flags & FLAG_XXH3 ? XXH3_BYTES : 0;
  const end = bodyEnd + hashBytes + TRAILER_BYTES;
  if (end > buffer.length) throw badRecord("a stored record is truncated");
  if (hashBytes > 0 && checksums.xxh3(buffer, at, bodyEnd) !== readU64Exact(buffer, bodyEnd)) {
    throw badRecord("the body hash of a stored record does not match");
  }
  if (checksums.crc32c(buffer, at, bodyEnd) !== readU32(buffer, end - TRAILER_BYTES)) {
    throw badRecord("the body checksum of a stored record does not match");
  }
  if (readU32(buffer, end - 4) !== end - start) throw badRecord("the trailer of a stored record does not match");
  return {
    offset,
    seq: readU64Exact(buffer, start + 4),
    flags,
    timestampMs: readU64Exact(buffer, start + 12),
    label,
    key: buffer.subarray(at, at + keyLength),
    headers: buffer.subarray(at + keyLength, at + keyLength + headersLength),
    payload: buffer.subarray(bodyEnd - payloadLength, bodyEnd),
    frame: buffer.subarray(start, end),
  };
}

function badRecord(message: string): WireError {
  return new WireError("bad-record", message);
}
