/** Publishing to the default stream and its replies: wire.md 8 and 15. */
import { lengthExceeds } from "./errors.ts";
import type { Reader } from "./reader.ts";
import { decodeUtf8Lossy, encodeUtf8 } from "./utf8.ts";
import type { Writer } from "./writer.ts";

/** Bits of a published flags byte. */
export const PubFlag = {
  Compressed: 0x01,
  HasKey: 0x02,
  HasXxh3: 0x04,
  AckLevelMask: 0x18,
  HasSeq: 0x20,
  FireAndForget: 0x40,
  HasDedup: 0x80,
  /** Not stored. */
  WireOnlyMask: 0xf8,
} as const;

const CALLER_FLAGS = 0x1f;

export interface Dedup {
  readonly producerId: Uint8Array;
  readonly epoch: bigint;
  readonly msgId: Uint8Array;
  /** Present: idempotent sequence instead of the msg_id window. */
  readonly seq?: bigint;
}

export interface Pub {
  /** Decoded: the byte as sent. Encoded: bits 0x20, 0x40 and 0x80 come from the other fields. */
  readonly flags: number;
  readonly fireAndForget: boolean;
  /** Producer wall time, any u64. */
  readonly timestampMs: bigint;
  readonly key: Uint8Array;
  readonly headers: Uint8Array;
  readonly dedup?: Dedup;
  readonly payload: Uint8Array;
}

// flags: u8, timestamp_ms: u64, key: var, headers: var, [dedup iff 0x80], payload: rest
// dedup: producer_id: var, epoch: u64, msg_id: var, [seq: u64 iff 0x20]

/** WireError `length-exceeds` for a sequence bit without a dedup block. */
export function decodePub(reader: Reader): Pub {
  const flags = reader.u8();
  const timestampMs = reader.u64();
  const key = reader.var();
  const headers = reader.var();
  const dedup = flags & PubFlag.HasDedup ? decodeDedup(reader, (flags & PubFlag.HasSeq) !== 0) : undefined;
  if (dedup === undefined && flags & PubFlag.HasSeq) throw lengthExceeds();
  const fireAndForget = (flags & PubFlag.FireAndForget) !== 0;
  return { flags, fireAndForget, timestampMs, key, headers, dedup, payload: reader.rest() };
}

function decodeDedup(reader: Reader, hasSeq: boolean): Dedup {
  const producerId = reader.var();
  const epoch = reader.u64();
  const msgId = reader.var();
  return { producerId, epoch, msgId, seq: hasSeq ? reader.u64() : undefined };
}

export function encodePub(writer: Writer, pub: Pub): void {
  writer.u8(
    (pub.flags & CALLER_FLAGS) |
      (pub.fireAndForget ? PubFlag.FireAndForget : 0) |
      (pub.dedup !== undefined ? PubFlag.HasDedup : 0) |
      (pub.dedup?.seq !== undefined ? PubFlag.HasSeq : 0),
  );
  writer.u64(pub.timestampMs);
  writer.var(pub.key);
  writer.var(pub.headers);
  if (pub.dedup !== undefined) {
    writer.var(pub.dedup.producerId);
    writer.u64(pub.dedup.epoch);
    writer.var(pub.dedup.msgId);
    if (pub.dedup.seq !== undefined) writer.u64(pub.dedup.seq);
  }
  writer.bytes(pub.payload);
}

export interface PubAck {
  /** On a priority stream the top byte is the lane. */
  readonly offset: bigint;
}

// offset: u64 (PubAck and PubAckDuplicate)

export function decodePubAck(reader: Reader): PubAck {
  const offset = reader.u64();
  reader.expectEnd();
  return { offset };
}

export function encodePubAck(writer: Writer, ack: PubAck): void {
  writer.u64(ack.offset);
}

/** Other values of the status byte are kept as they are. */
export const ConfirmStatus = { Consumed: 0, TimedOut: 1, DeadLettered: 2 } as const;

export interface ProduceConfirm {
  readonly offset: bigint;
  readonly status: number;
}

// offset: u64, status: u8

export function decodeProduceConfirm(reader: Reader): ProduceConfirm {
  const offset = reader.u64();
  const status = reader.u8();
  reader.expectEnd();
  return { offset, status };
}

export function encodeProduceConfirm(writer: Writer, confirm: ProduceConfirm): void {
  writer.u64(confirm.offset);
  writer.u8(confirm.status);
}

export interface NotLeader {
  /** `host:port` of the leader's client listener; empty when unknown. */
  readonly leaderHint: string;
}

// version: u8 (written as 1, any value read), leader_hint: var, ignored rest

export function decodeNotLeader(reader: Reader): NotLeader {
  reader.u8();
  const leaderHint = decodeUtf8Lossy(reader.var());
  reader.skipRest();
  return { leaderHint };
}

export function encodeNotLeader(writer: Writer, notLeader: NotLeader): void {
  writer.u8(1);
  writer.var(encodeUtf8(notLeader.leaderHint));
}
