/** Requests of consumers: wire.md 9.1, 9.2, 10 and 11. */
import { flowCredit } from "./errors.ts";
import { MAX_NAME_BYTES } from "./limits.ts";
import type { Reader } from "./reader.ts";
import type { Writer } from "./writer.ts";

export interface Sub {
  /** Empty: the default group. */
  readonly group: Uint8Array;
}

// group: rest

export function decodeSub(reader: Reader): Sub {
  return { group: reader.rest() };
}

export function encodeSub(writer: Writer, sub: Sub): void {
  writer.bytes(sub.group);
}

export interface Flow {
  readonly credit: number;
}

// credit: u32, exactly

export function decodeFlow(reader: Reader): Flow {
  if (reader.remaining !== 4) throw flowCredit();
  return { credit: reader.u32() };
}

export function encodeFlow(writer: Writer, flow: Flow): void {
  writer.u32(flow.credit);
}

export interface Fetch {
  readonly maxRecords: number;
  /** 0 = unbounded. */
  readonly maxBytes: bigint;
  /** 0 = no deadline. */
  readonly expiresMs: bigint;
  readonly noWait: boolean;
}

const FETCH_NO_WAIT = 0x01;

// V{ flags: u8, max_records: u32, max_bytes: u64, expires_ms: u64 }

export function decodeFetch(reader: Reader): Fetch {
  const bodyEnd = reader.enterBlock();
  const noWait = (reader.u8OrZero() & FETCH_NO_WAIT) !== 0;
  const fetch = {
    maxRecords: reader.u32OrZero(),
    maxBytes: reader.u64OrZero(),
    expiresMs: reader.u64OrZero(),
    noWait,
  };
  reader.leaveBlock(bodyEnd);
  return fetch;
}

export function encodeFetch(writer: Writer, fetch: Fetch): void {
  const block = writer.beginBlock();
  writer.u8(fetch.noWait ? FETCH_NO_WAIT : 0);
  writer.u32(fetch.maxRecords);
  writer.u64(fetch.maxBytes);
  writer.u64(fetch.expiresMs);
  writer.endBlock(block);
}

export interface StreamFetch {
  /** May lie beyond any offset a log can have: past the head. */
  readonly startOffset: bigint;
  readonly maxRecords: number;
  /** 0 = unbounded. */
  readonly maxBytes: bigint;
  /** Inclusive; overrides startOffset. Never 0. */
  readonly startTimeMs?: bigint;
  /** Inclusive. Never 0. */
  readonly endTimeMs?: bigint;
}

// V{ start_offset: u64, max_records: u32, max_bytes: u64, [start_time_ms: u64, end_time_ms: u64] }
// The pair is there when a bound is set; 0 in it is unset.

export function decodeStreamFetch(reader: Reader): StreamFetch {
  const bodyEnd = reader.enterBlock();
  const fetch = {
    startOffset: reader.u64OrZero(),
    maxRecords: reader.u32OrZero(),
    maxBytes: reader.u64OrZero(),
    startTimeMs: reader.u64OrZero() || undefined,
    endTimeMs: reader.u64OrZero() || undefined,
  };
  reader.leaveBlock(bodyEnd);
  return fetch;
}

export function encodeStreamFetch(writer: Writer, fetch: StreamFetch): void {
  const startTimeMs = fetch.startTimeMs ?? 0n;
  const endTimeMs = fetch.endTimeMs ?? 0n;
  const block = writer.beginBlock();
  writer.u64(fetch.startOffset);
  writer.u32(fetch.maxRecords);
  writer.u64(fetch.maxBytes);
  if (startTimeMs !== 0n || endTimeMs !== 0n) {
    writer.u64(startTimeMs);
    writer.u64(endTimeMs);
  }
  writer.endBlock(block);
}

export interface PauseGroup {
  /** Empty: the default stream. */
  readonly streamId: Uint8Array;
  readonly group: Uint8Array;
  /** 0 resumes. */
  readonly pauseMs: bigint;
}

// V{ stream_id: var, group: var, pause_ms: u64 }, all required

export function decodePauseGroup(reader: Reader): PauseGroup {
  const bodyEnd = reader.enterBlock();
  const pause = { streamId: reader.name(MAX_NAME_BYTES), group: reader.var(), pauseMs: reader.u64() };
  reader.leaveBlock(bodyEnd);
  return pause;
}

export function encodePauseGroup(writer: Writer, pause: PauseGroup): void {
  const block = writer.beginBlock();
  writer.name(pause.streamId, MAX_NAME_BYTES);
  writer.var(pause.group);
  writer.u64(pause.pauseMs);
  writer.endBlock(block);
}
