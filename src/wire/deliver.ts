/** Delivery and advisory frames: wire.md 9.3 and 17. */
import type { Reader } from "./reader.ts";
import type { Writer } from "./writer.ts";

/** Bits of a delivered flags byte. */
export const DeliverFlag = { Compressed: 0x01, HasKey: 0x02, HasXxh3: 0x04, HasSubject: 0x08 } as const;

export interface Deliver {
  /** On a priority stream the top byte is the lane. */
  readonly offset: bigint;
  /** 0 on a streaming read. */
  readonly generation: bigint;
  readonly flags: number;
  readonly timestampMs: bigint;
  readonly key: Uint8Array;
  readonly headers: Uint8Array;
  readonly payload: Uint8Array;
}

// offset: u64, generation: u64, flags: u8, timestamp_ms: u64, key: var, headers: var, payload: rest

export function decodeDeliver(reader: Reader): Deliver {
  return {
    offset: reader.u64(),
    generation: reader.u64(),
    flags: reader.u8(),
    timestampMs: reader.u64(),
    key: reader.var(),
    headers: reader.var(),
    payload: reader.rest(),
  };
}

export function encodeDeliver(writer: Writer, deliver: Deliver): void {
  writer.u64(deliver.offset);
  writer.u64(deliver.generation);
  writer.u8(deliver.flags);
  writer.u64(deliver.timestampMs);
  writer.var(deliver.key);
  writer.var(deliver.headers);
  writer.bytes(deliver.payload);
}

export interface DeliverBatch {
  /** Record i has offset `firstOffset + i`. */
  readonly firstOffset: bigint;
  /** 0 on a streaming read. */
  readonly generation: bigint;
  readonly recordCount: number;
  /** Stored record frames back to back, not checked; see stored-record.ts. */
  readonly frames: Uint8Array;
}

// V{ first_offset: u64, generation: u64, record_count: u32 } then record_count stored record frames

export function decodeDeliverBatch(reader: Reader): DeliverBatch {
  const bodyEnd = reader.enterBlock();
  const firstOffset = reader.u64OrZero();
  const generation = reader.u64OrZero();
  const recordCount = reader.u32OrZero();
  reader.leaveBlock(bodyEnd);
  return { firstOffset, generation, recordCount, frames: reader.rest() };
}

export function encodeDeliverBatch(writer: Writer, batch: DeliverBatch): void {
  const block = writer.beginBlock();
  writer.u64(batch.firstOffset);
  writer.u64(batch.generation);
  writer.u32(batch.recordCount);
  writer.endBlock(block);
  writer.bytes(batch.frames);
}

export interface FlowEnd {
  readonly delivered: number;
}

// delivered: u32

export function decodeFlowEnd(reader: Reader): FlowEnd {
  const delivered = reader.u32();
  reader.expectEnd();
  return { delivered };
}

export function encodeFlowEnd(writer: Writer, end: FlowEnd): void {
  writer.u32(end.delivered);
}

export const DeadLetterReason = { MaxDeliver: 0 } as const;

export interface DeadLetter {
  readonly offset: bigint;
  readonly reason: number;
}

// offset: u64, reason: u8

export function decodeDeadLetter(reader: Reader): DeadLetter {
  const offset = reader.u64();
  const reason = reader.u8();
  reader.expectEnd();
  return { offset, reason };
}

export function encodeDeadLetter(writer: Writer, deadLetter: DeadLetter): void {
  writer.u64(deadLetter.offset);
  writer.u8(deadLetter.reason);
}

export interface Truncated {
  readonly earliestRetained: bigint;
  readonly skipped: bigint;
}

// earliest_retained: u64, skipped: u64

export function decodeTruncated(reader: Reader): Truncated {
  const earliestRetained = reader.u64();
  const skipped = reader.u64();
  reader.expectEnd();
  return { earliestRetained, skipped };
}

export function encodeTruncated(writer: Writer, advisory: Truncated): void {
  writer.u64(advisory.earliestRetained);
  writer.u64(advisory.skipped);
}

/** A client keeps values it does not know. */
export const GapReason = { Retention: 1, Compacted: 2, Filtered: 3, Lost: 200 } as const;

export interface GapMarker {
  /** The gap is [from, to). */
  readonly from: bigint;
  readonly to: bigint;
  readonly bytesSkipped: bigint;
  readonly reason: number;
}

// from: u64, to: u64, bytes_skipped: u64, reason: u8

export function decodeGapMarker(reader: Reader): GapMarker {
  const gap = { from: reader.u64(), to: reader.u64(), bytesSkipped: reader.u64(), reason: reader.u8() };
  reader.expectEnd();
  return gap;
}

export function encodeGapMarker(writer: Writer, gap: GapMarker): void {
  writer.u64(gap.from);
  writer.u64(gap.to);
  writer.u64(gap.bytesSkipped);
  writer.u8(gap.reason);
}
