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
const LABEL_OVERHEAD_BYTES = 6;
const MAGIC = 0x4942;
const VERSION = 1;
/** Bodies from this length on carry a hash. */
const XXH3_FROM_BYTES = 65_536;
const MAX_RECORD_BYTES = 1 << 30;
const FLAG_KEY = 0x02;
const FLAG_XXH3 = 0x04;
const FLAG_SUBJECT = 0x08;
const FLAG_STREAM_TAG = 0x10;
const FLAG_ENCRYPTED = 0x20;

// magic u16 0x4942, version u8 1, flags u8, seq u64, timestamp_ms u64, key_len u32, headers_len u32, payload_len u32,
// CRC-32C of the 32 bytes before u32; [len u16, label, CRC-32C of both u32]; key, headers, payload; [xxh3-64 of the
// body u64]; CRC-32C of the body u32, length of the whole frame u32

/**
 * The records of a batch, every checksum verified. Throws WireError `bad-record` unless the frames are exactly
 * `recordCount` intact ones. Compressed payloads are given as stored.
 */
export function decodeStoredRecords(batch: DeliverBatch, checksums: Checksums): StoredRecord[] {
  const { frames, recordCount, firstOffset } = batch;
  if (recordCount * (HEADER_BYTES + TRAILER_BYTES) > frames.length) throw badRecord("record frame is truncated");
  const records: StoredRecord[] = [];
  let at = 0;
  for (let index = 0; index < recordCount; index++) {
    const record = decodeStoredRecord(frames, at, firstOffset + BigInt(index), checksums);
    records.push(record);
    at += record.frame.length;
  }
  if (at !== frames.length) throw badRecord("bytes are left behind the last record of the batch");
  return records;
}

/**
 * The checks in the order of storage.md 3.5, the label's CRC before the trailer's length as upstream has them; the first
 * that fails names the error.
 */
function decodeStoredRecord(buffer: Uint8Array, start: number, offset: bigint, checksums: Checksums): StoredRecord {
  checkHeader(buffer, start, checksums);
  const flags = buffer[start + 3];
  const keyLength = readU32(buffer, start + 20);
  const headersLength = readU32(buffer, start + 24);
  const payloadLength = readU32(buffer, start + 28);
  const bodyLength = keyLength + headersLength + payloadLength;
  const labelAt = start + HEADER_BYTES;
  const labelLength = checkedLabelLength(buffer, labelAt, flags);
  const bodyAt = labelAt + (labelLength < 0 ? 0 : LABEL_OVERHEAD_BYTES + labelLength);
  const bodyEnd = bodyAt + bodyLength;
  const end = bodyEnd + (flags & FLAG_XXH3 ? XXH3_BYTES : 0) + TRAILER_BYTES;
  if (end - start > MAX_RECORD_BYTES) throw badRecord("record frame exceeds the maximum size");
  if (end > buffer.length) throw badRecord("record frame is truncated");
  const derivedFlags = (keyLength > 0 ? FLAG_KEY : 0) | (bodyLength >= XXH3_FROM_BYTES ? FLAG_XXH3 : 0);
  if ((flags & (FLAG_KEY | FLAG_XXH3)) !== derivedFlags || labelLength === 0) {
    throw badRecord("record frame has inconsistent length fields");
  }
  if (labelLength > 0 && checksums.crc32c(buffer, labelAt, bodyAt - 4) !== readU32(buffer, bodyAt - 4)) {
    const label = flags & FLAG_SUBJECT ? "stored-subject" : "stored-stream-tag";
    throw badRecord(`record ${label} CRC mismatch`);
  }
  if (readU32(buffer, end - 4) !== end - start) throw badRecord("record frame has inconsistent length fields");
  if (checksums.crc32c(buffer, bodyAt, bodyEnd) !== readU32(buffer, end - TRAILER_BYTES)) {
    throw badRecord("record body CRC mismatch");
  }
  if (flags & FLAG_XXH3 && checksums.xxh3(buffer, bodyAt, bodyEnd) !== readU64Exact(buffer, bodyEnd)) {
    throw badRecord("record body xxh3-64 mismatch");
  }
  return {
    offset,
    seq: readU64Exact(buffer, start + 4),
    flags,
    timestampMs: readU64Exact(buffer, start + 12),
    label: buffer.subarray(labelAt + 2, labelAt + 2 + Math.max(labelLength, 0)),
    key: buffer.subarray(bodyAt, bodyAt + keyLength),
    headers: buffer.subarray(bodyAt + keyLength, bodyEnd - payloadLength),
    payload: buffer.subarray(bodyEnd - payloadLength, bodyEnd),
    frame: buffer.subarray(start, end),
  };
}

function checkHeader(buffer: Uint8Array, start: number, checksums: Checksums): void {
  if (buffer.length - start < HEADER_BYTES) throw badRecord("record frame is truncated");
  if (readU16(buffer, start) !== MAGIC) throw badRecord("record frame has a bad magic number");
  if (buffer[start + 2] !== VERSION) throw badRecord(`unsupported record format version ${buffer[start + 2]}`);
  if (checksums.crc32c(buffer, start, start + 32) !== readU32(buffer, start + 32)) {
    throw badRecord("record header CRC mismatch");
  }
}

/** Length of the subject or stream tag; -1 without one. */
function checkedLabelLength(buffer: Uint8Array, labelAt: number, flags: number): number {
  const labelled = flags & (FLAG_SUBJECT | FLAG_STREAM_TAG);
  const encrypted = (flags & FLAG_ENCRYPTED) !== 0;
  if (labelled === (FLAG_SUBJECT | FLAG_STREAM_TAG) || (encrypted && labelled !== 0)) {
    throw badRecord("record frame has inconsistent length fields");
  }
  if (encrypted) throw badRecord("record frame is encrypted");
  if (labelled === 0) return -1;
  if (labelAt + 2 > buffer.length) throw badRecord("record frame is truncated");
  return readU16(buffer, labelAt);
}

function badRecord(message: string): WireError {
  return new WireError("bad-record", message);
}
