import { PUB_FRAME_OVERHEAD_BYTES, writePub, writeU32 } from "../wire/hot.ts";
import { FRAME_PREFIX_BYTES, MAX_FRAME_LENGTH, MAX_VAR_BYTES } from "../wire/limits.ts";
import type { Outbound } from "./outbound.ts";

/** Text is sent as UTF-8. */
export type Bytes = Uint8Array | string;

/** What goes with a payload. */
export interface RecordOptions {
  /** At most 65,535 bytes; none by default. */
  readonly key?: Bytes;
  /** At most 65,535 bytes, opaque to the broker save for the conventions of wire.md 18; none by default. */
  readonly headers?: Bytes;
  /** Milliseconds since the epoch, stored as given; now by default. */
  readonly timestampMs?: number;
}

/** One record to publish. */
export interface ProduceRecord extends RecordOptions {
  readonly payload: Bytes;
}

const NO_BYTES = new Uint8Array(0);
const encoder = new TextEncoder();

/**
 * Encodes one Pub frame (wire.md 8.1) of level 1: acknowledged once it is durable. Throws RangeError, encoding nothing,
 * for what no frame can hold.
 */
export function encodeRecord(out: Outbound, payload: Bytes, options: RecordOptions | undefined, nowMs: number): void {
  let key = NO_BYTES;
  let headers = NO_BYTES;
  let timestampMs = nowMs;
  if (options !== undefined) {
    if (options.key !== undefined) key = variable("key", options.key);
    if (options.headers !== undefined) headers = variable("headers", options.headers);
    if (options.timestampMs !== undefined) timestampMs = timestamp(options.timestampMs);
  }
  const isText = typeof payload === "string";
  const payloadBytes = isText ? Buffer.byteLength(payload) : payload.length;
  const frameBytes = PUB_FRAME_OVERHEAD_BYTES + key.length + headers.length + payloadBytes;
  if (frameBytes - FRAME_PREFIX_BYTES > MAX_FRAME_LENGTH) {
    throw new RangeError(`the payload is too long for a frame: ${payloadBytes} bytes`);
  }
  const start = out.reserve(frameBytes);
  const { buffer } = out;
  // The payload is put in afterwards, so that text is encoded in place and bytes are copied without a view.
  const end = writePub(buffer, start, 0, timestampMs, key, headers, NO_BYTES);
  writeU32(buffer, start, frameBytes - FRAME_PREFIX_BYTES);
  // The buffers are Buffers; the published types leave that out, as they must do without the types of Node.
  if (isText) (buffer as Buffer).write(payload, end, payloadBytes, "utf8");
  else buffer.set(payload, end);
  out.used = start + frameBytes;
}

function variable(name: string, value: Bytes): Uint8Array<ArrayBuffer> {
  const bytes = typeof value === "string" ? encoder.encode(value) : (value as Uint8Array<ArrayBuffer>);
  if (bytes.length > MAX_VAR_BYTES) throw new RangeError(`the ${name} is too long: ${bytes.length} bytes`);
  return bytes;
}

function timestamp(value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new RangeError(`timestampMs must be a whole number from 0 to 2^53-1, got ${String(value)}`);
}
