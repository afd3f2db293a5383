/** Named streams: wire.md 12. */
import { MAX_NAME_BYTES } from "./limits.ts";
import { decodePub, encodePub, type Pub } from "./pub.ts";
import type { Reader } from "./reader.ts";
import type { Writer } from "./writer.ts";

export interface StreamDeclare {
  readonly streamId: Uint8Array;
  /** At least 1. */
  readonly partitionCount: number;
  readonly priority: boolean;
}

// V{ stream_id: var, [partition_count: u32], [priority: u8] }
// The count is written when > 1 or when priority is; a missing, short or 0 count is 1.

export function decodeStreamDeclare(reader: Reader): StreamDeclare {
  const bodyEnd = reader.enterBlock();
  const streamId = reader.name(MAX_NAME_BYTES);
  const partitionCount = reader.u32OrZero() || 1;
  const priority = reader.u8OrZero() === 1;
  reader.leaveBlock(bodyEnd);
  return { streamId, partitionCount, priority };
}

export function encodeStreamDeclare(writer: Writer, declare: StreamDeclare): void {
  const block = writer.beginBlock();
  writer.name(declare.streamId, MAX_NAME_BYTES);
  if (declare.partitionCount > 1 || declare.priority) writer.u32(declare.partitionCount);
  if (declare.priority) writer.u8(1);
  writer.endBlock(block);
}

export interface StreamInfoRequest {
  readonly streamId: Uint8Array;
}

// V{ stream_id: var }

export function decodeStreamInfoRequest(reader: Reader): StreamInfoRequest {
  const bodyEnd = reader.enterBlock();
  const streamId = reader.name(MAX_NAME_BYTES);
  reader.leaveBlock(bodyEnd);
  return { streamId };
}

export function encodeStreamInfoRequest(writer: Writer, request: StreamInfoRequest): void {
  const block = writer.beginBlock();
  writer.name(request.streamId, MAX_NAME_BYTES);
  writer.endBlock(block);
}

export interface StreamInfoResponse {
  readonly exists: boolean;
  /** The next offset of the synced prefix; 0 when the stream does not exist. */
  readonly head: bigint;
}

// V{ exists: u8 (true only for 1), head: u64 }

export function decodeStreamInfoResponse(reader: Reader): StreamInfoResponse {
  const bodyEnd = reader.enterBlock();
  const response = { exists: reader.u8OrZero() === 1, head: reader.u64OrZero() };
  reader.leaveBlock(bodyEnd);
  return response;
}

export function encodeStreamInfoResponse(writer: Writer, response: StreamInfoResponse): void {
  const block = writer.beginBlock();
  writer.u8(response.exists ? 1 : 0);
  writer.u64(response.head);
  writer.endBlock(block);
}

export interface PubToAddress {
  /** Empty: the default stream. */
  readonly streamId: Uint8Array;
  /** Lane on a priority stream. */
  readonly priority: number;
}

export interface PubTo extends PubToAddress {
  readonly pub: Pub;
}

// V{ stream_id: var, [priority: u8, written when not 0] } + PubBody

/** The block alone; the reader is left at the PubBody. */
export function decodePubToAddress(reader: Reader): PubToAddress {
  const bodyEnd = reader.enterBlock();
  const address = { streamId: reader.name(MAX_NAME_BYTES), priority: reader.u8OrZero() };
  reader.leaveBlock(bodyEnd);
  return address;
}

export function decodePubTo(reader: Reader): PubTo {
  return { ...decodePubToAddress(reader), pub: decodePub(reader) };
}

export function encodePubTo(writer: Writer, pubTo: PubTo): void {
  const block = writer.beginBlock();
  writer.name(pubTo.streamId, MAX_NAME_BYTES);
  if (pubTo.priority !== 0) writer.u8(pubTo.priority);
  writer.endBlock(block);
  encodePub(writer, pubTo.pub);
}

export const SubFlag = { Ephemeral: 0x01, FromTail: 0x02 } as const;

export interface SubTo {
  /** Empty: the default stream. */
  readonly streamId: Uint8Array;
  /** Empty: the default group. */
  readonly group: Uint8Array;
  readonly partition?: number;
  /** Bits of SubFlag; unknown bits are kept. */
  readonly subFlags: number;
}

// V{ stream_id: var, group: var, [partition: u32], [sub_flags: u8] }
// Bytes left after the group: 0 none; 1 sub_flags; 2 or 3 ignored; 4 partition; 5 and more both.

export function decodeSubTo(reader: Reader): SubTo {
  const bodyEnd = reader.enterBlock();
  const streamId = reader.name(MAX_NAME_BYTES);
  const group = reader.var();
  const tailBytes = reader.remaining;
  const partition = tailBytes >= 4 ? reader.u32() : undefined;
  const subFlags = tailBytes === 1 || tailBytes >= 5 ? reader.u8() : 0;
  reader.leaveBlock(bodyEnd);
  return { streamId, group, partition, subFlags };
}

export function encodeSubTo(writer: Writer, subTo: SubTo): void {
  const block = writer.beginBlock();
  writer.name(subTo.streamId, MAX_NAME_BYTES);
  writer.var(subTo.group);
  if (subTo.partition !== undefined) writer.u32(subTo.partition);
  if (subTo.subFlags !== 0) writer.u8(subTo.subFlags);
  writer.endBlock(block);
}
