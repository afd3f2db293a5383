/** Extensions, tags 192 to 200: wire.md 21. */
import { lengthExceeds, truncated, unknownAckOp, unknownKind } from "./errors.ts";
import { AckOp } from "./hot.ts";
import { MAX_NAME_BYTES, U32_MAX, U64_MAX } from "./limits.ts";
import { PubFlag } from "./pub.ts";
import { Reader } from "./reader.ts";
import { Tag } from "./tags.ts";
import { decodeUtf8Lossy, encodeUtf8 } from "./utf8.ts";
import type { Writer } from "./writer.ts";

/** Capability bits of ExtHello. */
export const ExtCap = {
  PubBatch: 1n << 0n,
  PubBatchLz4: 1n << 1n,
  Push: 1n << 2n,
  SubFromTail: 1n << 3n,
  PubBatchRaw: 1n << 4n,
  AckRange: 1n << 5n,
  Ttl: 1n << 8n,
  Delay: 1n << 9n,
  Priority: 1n << 10n,
  Partitions: 1n << 11n,
  ConsumeLongPoll: 1n << 12n,
  InboxBound: 1n << 13n,
  StoredSubjects: 1n << 14n,
} as const;

export interface ExtHelloRequest {
  readonly caps: bigint;
  readonly clientName: string;
}

// V{ caps: u64, client_name: var }

export function decodeExtHelloRequest(reader: Reader): ExtHelloRequest {
  const bodyEnd = reader.enterBlock();
  const request = { caps: reader.u64(), clientName: decodeUtf8Lossy(reader.var()) };
  reader.leaveBlock(bodyEnd);
  return request;
}

export function encodeExtHelloRequest(writer: Writer, request: ExtHelloRequest): void {
  const block = writer.beginBlock();
  writer.u64(request.caps);
  writer.var(encodeUtf8(request.clientName));
  writer.endBlock(block);
}

export interface ExtHelloResponse {
  readonly caps: bigint;
  readonly maxBatchRecords: number;
  readonly maxBatchBytes: number;
  readonly maxInflightBatches: number;
  readonly serverName: string;
}

// V{ caps: u64, max_batch_records: u32, max_batch_bytes: u32, max_inflight_batches: u32, server_name: var }

export function decodeExtHelloResponse(reader: Reader): ExtHelloResponse {
  const bodyEnd = reader.enterBlock();
  const response = {
    caps: reader.u64(),
    maxBatchRecords: reader.u32(),
    maxBatchBytes: reader.u32(),
    maxInflightBatches: reader.u32(),
    serverName: decodeUtf8Lossy(reader.var()),
  };
  reader.leaveBlock(bodyEnd);
  return response;
}

export function encodeExtHelloResponse(writer: Writer, response: ExtHelloResponse): void {
  const block = writer.beginBlock();
  writer.u64(response.caps);
  writer.u32(response.maxBatchRecords);
  writer.u32(response.maxBatchBytes);
  writer.u32(response.maxInflightBatches);
  writer.var(encodeUtf8(response.serverName));
  writer.endBlock(block);
}

/** Bits 0x20, 0x40 and 0x80 are those of PubFlag. */
export const PubBatchFlag = { Raw: 0x01, Compressed: 0x02, TargetIsSubject: 0x04, AckLevelMask: 0x18 } as const;

export interface PubBatchProducer {
  readonly producerId: Uint8Array;
  readonly epoch: bigint;
  /** Record i has sequence `firstSeq + i`. */
  readonly firstSeq: bigint;
}

export interface PubBatch {
  /** Decoded: the byte as sent. Encoded: bits 0x20 and 0x80 follow `producer`. */
  readonly flags: number;
  readonly batchId: number;
  readonly recordCount: number;
  readonly baseTimestampMs: bigint;
  /** A stream id (empty: the default stream) or, with flag 0x04, a subject. */
  readonly target: Uint8Array;
  readonly partition?: number;
  readonly priority: number;
  readonly producer?: PubBatchProducer;
  /** Not checked here: see decodePubBatchRecords(), or the flags 0x01 and 0x02. */
  readonly region: Uint8Array;
}

const IDEMPOTENT_FLAGS = PubFlag.HasDedup | PubFlag.HasSeq;
const NO_PARTITION = U32_MAX;

// V{ flags: u8, batch_id: u32, record_count: u32, base_timestamp_ms: u64, target: var, partition: u32, priority: u8,
//    [producer_id: var, epoch: u64, first_seq: u64] } then the record region

/** WireError `length-exceeds` when only one of the flags 0x20 and 0x80 is set. */
export function decodePubBatch(reader: Reader): PubBatch {
  const bodyEnd = reader.enterBlock();
  const flags = reader.u8();
  const batchId = reader.u32();
  const recordCount = reader.u32();
  const baseTimestampMs = reader.u64();
  const target = reader.name(MAX_NAME_BYTES);
  const partition = reader.u32();
  const priority = reader.u8();
  const idempotent = flags & IDEMPOTENT_FLAGS;
  if (idempotent !== 0 && idempotent !== IDEMPOTENT_FLAGS) throw lengthExceeds();
  const producer = idempotent ? { producerId: reader.var(), epoch: reader.u64(), firstSeq: reader.u64() } : undefined;
  reader.leaveBlock(bodyEnd);
  return {
    flags,
    batchId,
    recordCount,
    baseTimestampMs,
    target,
    partition: partition === NO_PARTITION ? undefined : partition,
    priority,
    producer,
    region: reader.rest(),
  };
}

export function encodePubBatch(writer: Writer, batch: PubBatch): void {
  const block = writer.beginBlock();
  writer.u8((batch.flags & ~IDEMPOTENT_FLAGS) | (batch.producer === undefined ? 0 : IDEMPOTENT_FLAGS));
  writer.u32(batch.batchId);
  writer.u32(batch.recordCount);
  writer.u64(batch.baseTimestampMs);
  writer.name(batch.target, MAX_NAME_BYTES);
  writer.u32(batch.partition ?? NO_PARTITION);
  writer.u8(batch.priority);
  if (batch.producer !== undefined) {
    writer.var(batch.producer.producerId);
    writer.u64(batch.producer.epoch);
    writer.u64(batch.producer.firstSeq);
  }
  writer.endBlock(block);
  writer.bytes(batch.region);
}

export interface PubBatchRecord {
  /** Only PubFlag.Compressed is legal. */
  readonly flags: number;
  /** Signed distance from the batch's base timestamp. */
  readonly timestampDeltaMs: number;
  readonly key: Uint8Array;
  readonly headers: Uint8Array;
  readonly payload: Uint8Array;
}

const RECORD_LENGTH_BYTES = 4;
const RECORD_FIXED_BYTES = 9;

// len: u32 (what follows), rflags: u8, ts_delta_ms: i32, key_len: u16, headers_len: u16, key, headers, payload

/**
 * The records of a plain region (neither raw nor compressed), which must be exactly `recordCount`. Throws WireError
 * `truncated`, `length-exceeds` (inner lengths beyond the record), `unknown-kind` (flags) or `trailing-bytes`.
 */
export function decodePubBatchRecords(region: Uint8Array, recordCount: number): PubBatchRecord[] {
  if (recordCount * (RECORD_LENGTH_BYTES + RECORD_FIXED_BYTES) > region.length) throw truncated();
  const reader = new Reader(region);
  const records: PubBatchRecord[] = [];
  for (let index = 0; index < recordCount; index++) records.push(decodePubBatchRecord(reader));
  reader.expectEnd();
  return records;
}

function decodePubBatchRecord(reader: Reader): PubBatchRecord {
  const length = reader.u32();
  if (length > reader.remaining) throw truncated();
  if (length < RECORD_FIXED_BYTES) throw lengthExceeds();
  const flags = reader.u8();
  if (flags & ~PubFlag.Compressed) throw unknownKind("record flags", flags);
  const timestampDeltaMs = reader.i32();
  const keyLength = reader.u16();
  const headersLength = reader.u16();
  const payloadLength = length - RECORD_FIXED_BYTES - keyLength - headersLength;
  if (payloadLength < 0) throw lengthExceeds();
  return {
    flags,
    timestampDeltaMs,
    key: reader.bytes(keyLength),
    headers: reader.bytes(headersLength),
    payload: reader.bytes(payloadLength),
  };
}

export function encodePubBatchRecord(writer: Writer, record: PubBatchRecord): void {
  writer.u32(RECORD_FIXED_BYTES + record.key.length + record.headers.length + record.payload.length);
  writer.u8(record.flags);
  writer.i32(record.timestampDeltaMs);
  writer.u16(record.key.length);
  writer.u16(record.headers.length);
  writer.bytes(record.key);
  writer.bytes(record.headers);
  writer.bytes(record.payload);
}

export interface PubBatchAck {
  readonly batchId: number;
  /** NO_FIRST_OFFSET when nothing was appended. */
  readonly firstOffset: bigint;
  readonly appended: number;
  readonly duplicates: number;
}

export const NO_FIRST_OFFSET = U64_MAX;

// V{ batch_id: u32, first_offset: u64, appended: u32, duplicates: u32 }

export function decodePubBatchAck(reader: Reader): PubBatchAck {
  const bodyEnd = reader.enterBlock();
  const ack = {
    batchId: reader.u32(),
    firstOffset: reader.u64(),
    appended: reader.u32(),
    duplicates: reader.u32(),
  };
  reader.leaveBlock(bodyEnd);
  return ack;
}

export function encodePubBatchAck(writer: Writer, ack: PubBatchAck): void {
  const block = writer.beginBlock();
  writer.u32(ack.batchId);
  writer.u64(ack.firstOffset);
  writer.u32(ack.appended);
  writer.u32(ack.duplicates);
  writer.endBlock(block);
}

export const PushFlag = { BatchesAllowed: 0x01 } as const;

export interface PushStart {
  readonly credit: number;
  readonly creditBytes: bigint;
  readonly flags: number;
}

// V{ credit: u32, credit_bytes: u64, flags: u8 }

export function decodePushStart(reader: Reader): PushStart {
  const bodyEnd = reader.enterBlock();
  const start = { credit: reader.u32(), creditBytes: reader.u64(), flags: reader.u8() };
  reader.leaveBlock(bodyEnd);
  return start;
}

export function encodePushStart(writer: Writer, start: PushStart): void {
  const block = writer.beginBlock();
  writer.u32(start.credit);
  writer.u64(start.creditBytes);
  writer.u8(start.flags);
  writer.endBlock(block);
}

/** Added to what is left. */
export interface PushCredit {
  readonly credit: number;
  readonly creditBytes: bigint;
}

// V{ credit: u32, credit_bytes: u64 }

export function decodePushCredit(reader: Reader): PushCredit {
  const bodyEnd = reader.enterBlock();
  const credit = { credit: reader.u32(), creditBytes: reader.u64() };
  reader.leaveBlock(bodyEnd);
  return credit;
}

export function encodePushCredit(writer: Writer, credit: PushCredit): void {
  const block = writer.beginBlock();
  writer.u32(credit.credit);
  writer.u64(credit.creditBytes);
  writer.endBlock(block);
}

/** The tag whose body a pushed frame carries, by its kind byte. */
const PUSHED_TAGS = [Tag.Deliver, Tag.DeliverBatch, Tag.DeadLetter, Tag.GapMarker, Tag.Truncated] as const;
export type PushedTag = (typeof PUSHED_TAGS)[number];

export interface PushDeliver {
  readonly tag: PushedTag;
  /** Body of that tag, not checked. */
  readonly body: Uint8Array;
}

// kind: u8 (0 Deliver, 1 DeliverBatch, 2 DeadLetter, 3 GapMarker, 4 Truncated) + that body

export function decodePushDeliver(reader: Reader): PushDeliver {
  const kind = reader.u8();
  if (kind >= PUSHED_TAGS.length) throw unknownKind("push kind", kind);
  return { tag: PUSHED_TAGS[kind], body: reader.rest() };
}

export function encodePushDeliver(writer: Writer, push: PushDeliver): void {
  writer.u8(PUSHED_TAGS.indexOf(push.tag));
  writer.bytes(push.body);
}

export interface AckRange {
  readonly op: typeof AckOp.Ack | typeof AckOp.Term;
  readonly generation: bigint;
  readonly firstOffset: bigint;
  readonly count: number;
}

// V{ op: u8 (0 ack, 2 term), generation: u64, first_offset: u64, count: u32 }

export function decodeAckRange(reader: Reader): AckRange {
  const bodyEnd = reader.enterBlock();
  const op = reader.u8();
  if (op !== AckOp.Ack && op !== AckOp.Term) throw unknownAckOp(op);
  const range = { op: op as AckRange["op"], generation: reader.u64(), firstOffset: reader.u64(), count: reader.u32() };
  reader.leaveBlock(bodyEnd);
  return range;
}

export function encodeAckRange(writer: Writer, range: AckRange): void {
  const block = writer.beginBlock();
  writer.u8(range.op);
  writer.u64(range.generation);
  writer.u64(range.firstOffset);
  writer.u32(range.count);
  writer.endBlock(block);
}

export interface AckRangeStatus {
  readonly committed: number;
  readonly fenced: number;
  /** A bit per record of the range, LSB first, set = fenced; empty when none is. */
  readonly fencedBitmap: Uint8Array;
}

// V{ committed: u32, fenced: u32 } + bitmap of ceil((committed + fenced) / 8) bytes when fenced > 0

export function decodeAckRangeStatus(reader: Reader): AckRangeStatus {
  const bodyEnd = reader.enterBlock();
  const committed = reader.u32();
  const fenced = reader.u32();
  reader.leaveBlock(bodyEnd);
  const fencedBitmap = reader.bytes(fenced > 0 ? Math.ceil((committed + fenced) / 8) : 0);
  reader.expectEnd();
  return { committed, fenced, fencedBitmap };
}

/** WireError `length-exceeds` when the bitmap's length does not follow from the counts. */
export function encodeAckRangeStatus(writer: Writer, status: AckRangeStatus): void {
  const bitmapBytes = status.fenced > 0 ? Math.ceil((status.committed + status.fenced) / 8) : 0;
  if (status.fencedBitmap.length !== bitmapBytes) throw lengthExceeds();
  const block = writer.beginBlock();
  writer.u32(status.committed);
  writer.u32(status.fenced);
  writer.endBlock(block);
  writer.bytes(status.fencedBitmap);
}
