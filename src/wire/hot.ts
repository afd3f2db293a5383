/**
 * The messages on the path of a record, read and written in place: no object, BigInt or view per message. `write*` take
 * (out, at, ...), write a whole frame unless said otherwise and return the position after it; the caller made room. u64
 * values are numbers up to 2^53-1 here; where full-range values can occur, use the codecs of the other files.
 */
import { flowCredit, trailingBytes, truncated, unknownAckOp } from "./errors.ts";
import { FRAME_HEADER_BYTES, MAX_OFFSET } from "./limits.ts";
import { Tag } from "./tags.ts";

const TWO_32 = 0x1_0000_0000;
const MAX_SAFE_HIGH = 0x1f_ffff;

export const EMPTY_FRAME_BYTES = FRAME_HEADER_BYTES;
export const PUB_ACK_FRAME_BYTES = FRAME_HEADER_BYTES + 8;
export const ACK_FRAME_BYTES = FRAME_HEADER_BYTES + 25;
export const ACK_STATUS_FRAME_BYTES = FRAME_HEADER_BYTES + 1;
export const FLOW_FRAME_BYTES = FRAME_HEADER_BYTES + 4;
export const FLOW_END_FRAME_BYTES = FRAME_HEADER_BYTES + 4;
export const DEAD_LETTER_FRAME_BYTES = FRAME_HEADER_BYTES + 9;
export const TRUNCATED_FRAME_BYTES = FRAME_HEADER_BYTES + 16;
export const GAP_MARKER_FRAME_BYTES = FRAME_HEADER_BYTES + 25;
/** A Deliver frame without key, headers and payload. */
export const DELIVER_FRAME_OVERHEAD_BYTES = FRAME_HEADER_BYTES + 29;
/** A Pub frame without key, headers, payload and dedup block. */
export const PUB_FRAME_OVERHEAD_BYTES = FRAME_HEADER_BYTES + 13;

/** Operations of an Ack body (wire.md 9.4). */
export const AckOp = { Ack: 0, Nack: 1, Term: 2, Progress: 3 } as const;
export type AckOp = (typeof AckOp)[keyof typeof AckOp];
/** Bytes of an AckStatus body. */
export const AckStatusCode = { Fenced: 0, Done: 1, ProgressCap: 2 } as const;
export type AckStatusCode = (typeof AckStatusCode)[keyof typeof AckStatusCode];
/** A nack's delay that stands for 2^64-1: use the backoff schedule. */
export const BACKOFF_DELAY_MS = -1;

export function readU16(buffer: Uint8Array, at: number): number {
  return buffer[at] | (buffer[at + 1] << 8);
}

export function readU32(buffer: Uint8Array, at: number): number {
  return (buffer[at] | (buffer[at + 1] << 8) | (buffer[at + 2] << 16) | (buffer[at + 3] << 24)) >>> 0;
}

/** The u64 at `at`; -1 when it is above 2^53-1. */
export function readU64(buffer: Uint8Array, at: number): number {
  const high = readU32(buffer, at + 4);
  return high > MAX_SAFE_HIGH ? -1 : high * TWO_32 + readU32(buffer, at);
}

/** The u64 at `at`, exactly. */
export function readU64Exact(buffer: Uint8Array, at: number): bigint {
  return (BigInt(readU32(buffer, at + 4)) << 32n) | BigInt(readU32(buffer, at));
}

/** True when the u64 at `at` is 2^64-1. */
export function isU64Max(buffer: Uint8Array, at: number): boolean {
  return readU32(buffer, at) === 0xffff_ffff && readU32(buffer, at + 4) === 0xffff_ffff;
}

export function writeU16(out: Uint8Array, at: number, value: number): number {
  out[at] = value;
  out[at + 1] = value >>> 8;
  return at + 2;
}

export function writeU32(out: Uint8Array, at: number, value: number): number {
  out[at] = value;
  out[at + 1] = value >>> 8;
  out[at + 2] = value >>> 16;
  out[at + 3] = value >>> 24;
  return at + 4;
}

/** Writes an integer of 0 to 2^53-1. */
export function writeU64(out: Uint8Array, at: number, value: number): number {
  writeU32(out, at, value >>> 0);
  return writeU32(out, at + 4, value < TWO_32 ? 0 : Math.floor(value / TWO_32));
}

export function writeU64Exact(out: Uint8Array, at: number, value: bigint): number {
  writeU32(out, at, Number(value & 0xffff_ffffn));
  return writeU32(out, at + 4, Number((value >> 32n) & 0xffff_ffffn));
}

/** Copies source[from, from + length) to out[at, ...); returns the position after it. */
export function copyBytes(out: Uint8Array, at: number, source: Uint8Array, from: number, length: number): number {
  // A view costs more than copying a few bytes one by one.
  if (length <= 32) for (let index = 0; index < length; index++) out[at + index] = source[from + index];
  else out.set(length === source.length ? source : source.subarray(from, from + length), at);
  return at + length;
}

/** Envelope of a frame with `bodyBytes` bytes of body; returns where the body starts. */
export function writeFrameHeader(out: Uint8Array, at: number, tag: number, bodyBytes: number): number {
  writeU32(out, at, bodyBytes + 1);
  out[at + 4] = tag;
  return at + FRAME_HEADER_BYTES;
}

/** A frame without a body: Ping, Pong, Ok, Unsub, PushStop. */
export function writeEmpty(out: Uint8Array, at: number, tag: number): number {
  return writeFrameHeader(out, at, tag, 0);
}

export function writePubAck(out: Uint8Array, at: number, offset: number): number {
  return writeU64(out, writeFrameHeader(out, at, Tag.PubAck, 8), offset);
}

export function writePubAckDuplicate(out: Uint8Array, at: number, offset: number): number {
  return writeU64(out, writeFrameHeader(out, at, Tag.PubAckDuplicate, 8), offset);
}

/** Offset in a PubAck or PubAckDuplicate body at [start, end); -1 above 2^53-1. Throws WireError on another length. */
export function readPubAck(buffer: Uint8Array, start: number, end: number): number {
  checkLength(start, end, 8);
  return readU64(buffer, start);
}

export function writeAckStatus(out: Uint8Array, at: number, status: number): number {
  const body = writeFrameHeader(out, at, Tag.AckStatus, 1);
  out[body] = status;
  return body + 1;
}

/** Status in an AckStatus body. Throws WireError on another length. */
export function readAckStatus(buffer: Uint8Array, start: number, end: number): number {
  checkLength(start, end, 1);
  return buffer[start];
}

export function writeFlow(out: Uint8Array, at: number, credit: number): number {
  return writeU32(out, writeFrameHeader(out, at, Tag.Flow, 4), credit);
}

/** Credit in a Flow body. Throws WireError `flow-credit` on any length but 4. */
export function readFlow(buffer: Uint8Array, start: number, end: number): number {
  if (end - start !== 4) throw flowCredit();
  return readU32(buffer, start);
}

export function writeFlowEnd(out: Uint8Array, at: number, delivered: number): number {
  return writeU32(out, writeFrameHeader(out, at, Tag.FlowEnd, 4), delivered);
}

/** Delivered records in a FlowEnd body. Throws WireError on another length. */
export function readFlowEnd(buffer: Uint8Array, start: number, end: number): number {
  checkLength(start, end, 4);
  return readU32(buffer, start);
}

export function writeDeadLetter(out: Uint8Array, at: number, offset: number, reason: number): number {
  const next = writeU64(out, writeFrameHeader(out, at, Tag.DeadLetter, 9), offset);
  out[next] = reason;
  return next + 1;
}

export function writeTruncated(out: Uint8Array, at: number, earliestRetained: number, skipped: number): number {
  return writeU64(out, writeU64(out, writeFrameHeader(out, at, Tag.Truncated, 16), earliestRetained), skipped);
}

/** A gap of [from, to). */
export function writeGapMarker(
  out: Uint8Array,
  at: number,
  from: number,
  to: number,
  bytesSkipped: number,
  reason: number,
): number {
  let next = writeFrameHeader(out, at, Tag.GapMarker, 25);
  next = writeU64(out, next, from);
  next = writeU64(out, next, to);
  next = writeU64(out, next, bytesSkipped);
  out[next] = reason;
  return next + 1;
}

/** `delayMs` is used by a nack only: BACKOFF_DELAY_MS or 0 to 2^53-1. */
export function writeAck(
  out: Uint8Array,
  at: number,
  op: AckOp,
  offset: number,
  generation: number,
  delayMs: number,
): number {
  let next = writeFrameHeader(out, at, Tag.Ack, 25);
  out[next++] = op;
  next = writeU64(out, next, offset);
  next = writeU64(out, next, generation);
  if (delayMs !== BACKOFF_DELAY_MS) return writeU64(out, next, delayMs);
  writeU32(out, next, 0xffff_ffff);
  return writeU32(out, next + 4, 0xffff_ffff);
}

/** What readAck() found; one object serves a whole connection. */
export class AckView {
  op: AckOp = AckOp.Ack;
  /** -1 when above 2^53-1 (a composite offset of a lane). */
  offset = 0;
  /** -1 when above 2^53-1. */
  generation = 0;
  /** BACKOFF_DELAY_MS for 2^64-1; other values above 2^53-1 are taken as 2^53-1. */
  delayMs = 0;
}

/** Reads the Ack body [start, end) into `view`. Throws WireError. */
export function readAck(buffer: Uint8Array, start: number, end: number, view: AckView): void {
  if (end === start) throw truncated();
  const op = buffer[start];
  if (op > AckOp.Progress) throw unknownAckOp(op);
  checkLength(start, end, 25);
  view.op = op as AckOp;
  view.offset = readU64(buffer, start + 1);
  view.generation = readU64(buffer, start + 9);
  const delayMs = readU64(buffer, start + 17);
  if (delayMs >= 0) view.delayMs = delayMs;
  else view.delayMs = isU64Max(buffer, start + 17) ? BACKOFF_DELAY_MS : MAX_OFFSET;
}

/**
 * Writes a Deliver frame up to its key; returns where the key goes. After it the caller writes `headersLength` (u16), the
 * headers and the payload. The timestamp is copied from the 8 bytes at timestampSource[timestampAt].
 */
export function writeDeliverHeader(
  out: Uint8Array,
  at: number,
  offset: number,
  generation: number,
  flags: number,
  timestampSource: Uint8Array,
  timestampAt: number,
  keyLength: number,
  headersLength: number,
  payloadLength: number,
): number {
  const bodyBytes = DELIVER_FRAME_OVERHEAD_BYTES - FRAME_HEADER_BYTES + keyLength + headersLength + payloadLength;
  let next = writeFrameHeader(out, at, Tag.Deliver, bodyBytes);
  next = writeU64(out, next, offset);
  next = writeU64(out, next, generation);
  out[next++] = flags;
  for (let index = 0; index < 8; index++) out[next + index] = timestampSource[timestampAt + index];
  return writeU16(out, next + 8, keyLength);
}

/** What readDeliver() found: numbers and positions in the buffer that was read. */
export class DeliverView {
  /** -1 when above 2^53-1; the exact value is readU64Exact(buffer, bodyStart). */
  offset = 0;
  /** -1 when above 2^53-1; the exact value is readU64Exact(buffer, bodyStart + 8). */
  generation = 0;
  flags = 0;
  /** -1 when above 2^53-1; the exact value is readU64Exact(buffer, bodyStart + 17). */
  timestampMs = 0;
  bodyStart = 0;
  keyStart = 0;
  keyLength = 0;
  headersStart = 0;
  headersLength = 0;
  payloadStart = 0;
  payloadLength = 0;
}

/** Reads the Deliver body [start, end) into `view`. Throws WireError `truncated`. */
export function readDeliver(buffer: Uint8Array, start: number, end: number, view: DeliverView): void {
  if (end - start < 29) throw truncated();
  const keyLength = readU16(buffer, start + 25);
  const headersLengthAt = start + 27 + keyLength;
  if (headersLengthAt + 2 > end) throw truncated();
  const headersLength = readU16(buffer, headersLengthAt);
  const payloadStart = headersLengthAt + 2 + headersLength;
  if (payloadStart > end) throw truncated();
  view.offset = readU64(buffer, start);
  view.generation = readU64(buffer, start + 8);
  view.flags = buffer[start + 16];
  view.timestampMs = readU64(buffer, start + 17);
  view.bodyStart = start;
  view.keyStart = start + 27;
  view.keyLength = keyLength;
  view.headersStart = headersLengthAt + 2;
  view.headersLength = headersLength;
  view.payloadStart = payloadStart;
  view.payloadLength = end - payloadStart;
}

/** A Pub frame without a dedup block; `key` and `headers` are at most 65,535 bytes. `flags` goes out as given. */
export function writePub(
  out: Uint8Array,
  at: number,
  flags: number,
  timestampMs: number,
  key: Uint8Array,
  headers: Uint8Array,
  payload: Uint8Array,
): number {
  const bodyBytes = PUB_FRAME_OVERHEAD_BYTES - FRAME_HEADER_BYTES + key.length + headers.length + payload.length;
  let next = writeFrameHeader(out, at, Tag.Pub, bodyBytes);
  out[next++] = flags;
  next = writeU64(out, next, timestampMs);
  next = copyBytes(out, writeU16(out, next, key.length), key, 0, key.length);
  next = copyBytes(out, writeU16(out, next, headers.length), headers, 0, headers.length);
  return copyBytes(out, next, payload, 0, payload.length);
}

function checkLength(start: number, end: number, bytes: number): void {
  if (end - start < bytes) throw truncated();
  if (end - start > bytes) throw trailingBytes();
}
