import type { Codec } from "../runtime/codec.ts";
import { readUint64, viewOf, writeUint64 } from "./u64.ts";

/**
 * What the checkpoint files hold (storage.md 8.3). Decoding never throws: content that is not understood is no content,
 * which at worst delivers a record once more.
 */

export const CURSOR_CAPACITY = 64;
export const LAYOUT_CAPACITY = 64;
export const COUNTERS_CAPACITY = 256;
export const ATTEMPTS_CAPACITY = 32_768;

export const MAX_CURSOR_RUNS = 3;
export const MAX_ATTEMPTS = 2729;
export const MAX_COUNTERS = 31;
export const LAYOUT_VERSION = 1;

/** Offsets [start, end), all settled. */
export interface SettledRun {
  readonly start: number;
  readonly end: number;
}

/** Every offset below `committed` is settled, and so is every offset inside a run. */
export interface CursorState {
  readonly committed: number;
  /** Ascending, disjoint, not empty, each above `committed`. */
  readonly runs: readonly SettledRun[];
}

export interface AttemptEntry {
  readonly offset: number;
  /** Deliveries so far, u32. */
  readonly deliveries: number;
}

const SNAPSHOT_VERSION = 1;
const CRC_LENGTH = 4;
const CURSOR_MIN_LENGTH = 13;
const RUN_LENGTH = 16;
const ATTEMPTS_HEADER_LENGTH = 5;
const ATTEMPT_LENGTH = 12;
const LAYOUT_MAGIC = 0x4444_4249;

/** version u8 | committed u64 | (start u64, end u64) ... | crc u32. Runs beyond the third are dropped. */
export function encodeCursor(state: CursorState, codec: Codec): Uint8Array {
  const runs = state.runs.slice(0, MAX_CURSOR_RUNS);
  const payload = new Uint8Array(CURSOR_MIN_LENGTH + runs.length * RUN_LENGTH);
  const view = viewOf(payload);
  payload[0] = SNAPSHOT_VERSION;
  writeUint64(view, 1, state.committed);
  for (let i = 0; i < runs.length; i++) {
    writeUint64(view, 9 + i * RUN_LENGTH, runs[i].start);
    writeUint64(view, 17 + i * RUN_LENGTH, runs[i].end);
  }
  return sealPayload(payload, codec);
}

/**
 * The state a cursor payload holds, or undefined when it holds none. A payload below 13 bytes is the legacy form, 8
 * bytes committed. Runs from the first malformed one on are dropped.
 */
export function decodeCursor(payload: Uint8Array, codec: Codec): CursorState | undefined {
  const view = viewOf(payload);
  if (payload.length < CURSOR_MIN_LENGTH) {
    const committed = payload.length >= 8 ? readUint64(view, 0) : -1;
    return committed < 0 ? undefined : { committed, runs: [] };
  }
  if (payload[0] !== SNAPSHOT_VERSION || !payloadCrcHolds(payload, codec)) return undefined;
  const committed = readUint64(view, 1);
  if (committed < 0) return undefined;
  const runs: SettledRun[] = [];
  let floor = committed;
  for (let at = 9; at + RUN_LENGTH <= payload.length - CRC_LENGTH; at += RUN_LENGTH) {
    const start = readUint64(view, at);
    const end = readUint64(view, at + 8);
    if (start < floor || start === committed || end <= start) break;
    runs.push({ start, end });
    floor = end;
  }
  return { committed, runs };
}

/** version u8 | count u32 | (offset u64, attempt u32) ... | crc u32. `entries` ascend by offset; the tail is dropped. */
export function encodeAttempts(entries: readonly AttemptEntry[], codec: Codec): Uint8Array {
  const count = Math.min(entries.length, MAX_ATTEMPTS);
  const payload = new Uint8Array(ATTEMPTS_HEADER_LENGTH + count * ATTEMPT_LENGTH + CRC_LENGTH);
  const view = viewOf(payload);
  payload[0] = SNAPSHOT_VERSION;
  view.setUint32(1, count, true);
  for (let i = 0; i < count; i++) {
    const at = ATTEMPTS_HEADER_LENGTH + i * ATTEMPT_LENGTH;
    writeUint64(view, at, entries[i].offset);
    view.setUint32(at + 8, Math.min(entries[i].deliveries, 0xffff_ffff), true);
  }
  return sealPayload(payload, codec);
}

/** The entries of an attempts payload, ascending by offset; empty when it is not one. */
export function decodeAttempts(payload: Uint8Array, codec: Codec): AttemptEntry[] {
  const overhead = ATTEMPTS_HEADER_LENGTH + CRC_LENGTH;
  if (payload.length < overhead || payload[0] !== SNAPSHOT_VERSION || !payloadCrcHolds(payload, codec)) return [];
  const view = viewOf(payload);
  const count = view.getUint32(1, true);
  if (payload.length !== overhead + count * ATTEMPT_LENGTH) return [];
  const entries: AttemptEntry[] = [];
  let previous = -1;
  for (let i = 0; i < count; i++) {
    const at = ATTEMPTS_HEADER_LENGTH + i * ATTEMPT_LENGTH;
    const offset = readUint64(view, at);
    if (offset <= previous) return [];
    entries.push({ offset, deliveries: view.getUint32(at + 8, true) });
    previous = offset;
  }
  return entries;
}

/** "IBDD" | layout version u32 */
export function encodeLayoutMarker(version = LAYOUT_VERSION): Uint8Array {
  const payload = new Uint8Array(8);
  const view = viewOf(payload);
  view.setUint32(0, LAYOUT_MAGIC, true);
  view.setUint32(4, version, true);
  return payload;
}

/** The layout version of a marker payload, or undefined when it is not a marker. */
export function decodeLayoutMarker(payload: Uint8Array): number | undefined {
  if (payload.length !== 8) return undefined;
  const view = viewOf(payload);
  return view.getUint32(0, true) === LAYOUT_MAGIC ? view.getUint32(4, true) : undefined;
}

/** version u8 | u64 ..., in the order of observability.md 2.6; at most 31 counters, each below 2^53. */
export function encodeCounters(counters: readonly number[]): Uint8Array {
  if (counters.length > MAX_COUNTERS) throw new RangeError(`more than ${MAX_COUNTERS} counters`);
  const payload = new Uint8Array(1 + counters.length * 8);
  const view = viewOf(payload);
  payload[0] = SNAPSHOT_VERSION;
  for (let i = 0; i < counters.length; i++) writeUint64(view, 1 + i * 8, counters[i]);
  return payload;
}

/**
 * The first `count` counters of a payload: missing ones and those above 2^53 - 1 are 0, surplus bytes and a foreign
 * version byte are ignored.
 */
export function decodeCounters(payload: Uint8Array, count: number): number[] {
  const view = viewOf(payload);
  const counters: number[] = [];
  for (let i = 0; i < count; i++) {
    const at = 1 + i * 8;
    counters.push(at + 8 <= payload.length ? Math.max(0, readUint64(view, at)) : 0);
  }
  return counters;
}

function sealPayload(payload: Uint8Array, codec: Codec): Uint8Array {
  const end = payload.length - CRC_LENGTH;
  viewOf(payload).setUint32(end, codec.crc32c(payload, 0, end), true);
  return payload;
}

function payloadCrcHolds(payload: Uint8Array, codec: Codec): boolean {
  const end = payload.length - CRC_LENGTH;
  return viewOf(payload).getUint32(end, true) === codec.crc32c(payload, 0, end);
}
