/** Settling records: wire.md 9.4, 10 and 11. */
import { unknownAckOp } from "./errors.ts";
import { AckOp } from "./hot.ts";
import type { Reader } from "./reader.ts";
import type { Writer } from "./writer.ts";

export interface Ack {
  readonly op: AckOp;
  /** As delivered, lane included. */
  readonly offset: bigint;
  readonly generation: bigint;
  /** Nack only, zero otherwise; 2^64-1 asks for the backoff schedule. */
  readonly delayMs: bigint;
}

// op: u8 (0 ack, 1 nack, 2 term, 3 progress), offset: u64, generation: u64, delay_ms: u64

export function decodeAck(reader: Reader): Ack {
  const op = reader.u8();
  if (op > AckOp.Progress) throw unknownAckOp(op);
  const ack = { op: op as AckOp, offset: reader.u64(), generation: reader.u64(), delayMs: reader.u64() };
  reader.expectEnd();
  return ack;
}

export function encodeAck(writer: Writer, ack: Ack): void {
  writer.u8(ack.op);
  writer.u64(ack.offset);
  writer.u64(ack.generation);
  writer.u64(ack.delayMs);
}

export interface AckStatus {
  readonly status: number;
}

// status: u8

export function decodeAckStatus(reader: Reader): AckStatus {
  const status = reader.u8();
  reader.expectEnd();
  return { status };
}

export function encodeAckStatus(writer: Writer, ack: AckStatus): void {
  writer.u8(ack.status);
}

/** Body of CumulativeAck and of StreamCommit. */
export interface CursorCommit {
  /** Exclusive; may lie beyond any offset a log can have. */
  readonly upTo: bigint;
  readonly group: Uint8Array;
}

// up_to: u64, group: rest

export function decodeCursorCommit(reader: Reader): CursorCommit {
  return { upTo: reader.u64(), group: reader.rest() };
}

export function encodeCursorCommit(writer: Writer, commit: CursorCommit): void {
  writer.u64(commit.upTo);
  writer.bytes(commit.group);
}
