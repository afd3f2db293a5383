/*
 * Frames as bytes, put together from wire.md alone: nothing here comes from src/, so that an error there cannot hide
 * in the tests.
 */

export const TAG = {
  connect: 1,
  info: 2,
  ping: 3,
  pong: 4,
  pub: 5,
  sub: 6,
  unsub: 7,
  ack: 8,
  flow: 10,
  ok: 11,
  err: 12,
  deliver: 13,
  pubAck: 14,
  ackStatus: 15,
  flowEnd: 16,
  cumulativeAck: 19,
  fetch: 23,
  streamFetch: 24,
  streamCommit: 25,
} as const;

export const MAX_FRAME_LENGTH = 16_842_752;
export const SERVER_BACKOFF = 2n ** 64n - 1n;

export function u8(value: number): Buffer {
  return Buffer.from([value]);
}

export function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export function u64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

export function variable(value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value as string);
  return Buffer.concat([u16(bytes.length), bytes]);
}

/** `V{...}`: version 1, length, fields. */
export function block(...fields: Uint8Array[]): Buffer {
  const content = Buffer.concat(fields);
  return Buffer.concat([u8(1), u16(content.length), content]);
}

export function frame(tag: number, ...body: Uint8Array[]): Buffer {
  const content = Buffer.concat(body);
  return Buffer.concat([u32(content.length + 1), u8(tag), content]);
}

export function ping(): Buffer {
  return frame(TAG.ping);
}

export interface ConnectFields {
  readonly flags?: number;
  readonly credit?: number;
  readonly creditBytes?: number | bigint;
  /** Whatever follows the 13 fixed bytes inside the block. */
  readonly rest?: Uint8Array;
}

/** Sets the bits of the credits that are given. */
export function connect({ flags = 0, credit, creditBytes, rest = Buffer.alloc(0) }: ConnectFields = {}): Buffer {
  const requested = (credit === undefined ? 0 : 0x01) | (creditBytes === undefined ? 0 : 0x02);
  return frame(TAG.connect, block(u8(flags | requested), u32(credit ?? 0), u64(creditBytes ?? 0), rest));
}

export interface PubFields {
  readonly flags?: number;
  readonly timestampMs?: number | bigint;
  readonly key?: string | Uint8Array;
  readonly headers?: string | Uint8Array;
  /** The dedup block as it stands; set its flag bits in `flags`. */
  readonly dedup?: Uint8Array;
  readonly payload?: string | Uint8Array;
}

export function pubBody(fields: PubFields = {}): Buffer {
  return Buffer.concat([
    u8(fields.flags ?? 0),
    u64(fields.timestampMs ?? 0),
    variable(fields.key ?? ""),
    variable(fields.headers ?? ""),
    fields.dedup ?? Buffer.alloc(0),
    Buffer.from((fields.payload ?? "") as string),
  ]);
}

export function pub(fields: PubFields = {}): Buffer {
  return frame(TAG.pub, pubBody(fields));
}

export function sub(group: string | Uint8Array): Buffer {
  return frame(TAG.sub, Buffer.from(group as string));
}

export function flow(credit: number): Buffer {
  return frame(TAG.flow, u32(credit));
}

export interface FetchFields {
  readonly noWait?: boolean;
  readonly maxRecords: number;
  readonly maxBytes?: number;
  readonly expiresMs?: number;
}

export function fetch({ noWait = false, maxRecords, maxBytes = 0, expiresMs = 0 }: FetchFields): Buffer {
  return frame(TAG.fetch, block(u8(noWait ? 1 : 0), u32(maxRecords), u64(maxBytes), u64(expiresMs)));
}

export interface Token {
  readonly offset: number;
  readonly generation: bigint;
}

function settle(op: number, { offset, generation }: Token, delayMs: number | bigint): Buffer {
  return frame(TAG.ack, u8(op), u64(offset), u64(generation), u64(delayMs));
}

export function ack(token: Token): Buffer {
  return settle(0, token, 0);
}

export function nack(token: Token, delayMs: number | bigint = 0): Buffer {
  return settle(1, token, delayMs);
}

export function term(token: Token): Buffer {
  return settle(2, token, 0);
}

export function progress(token: Token): Buffer {
  return settle(3, token, 0);
}

/** Body of a coded `Err`. */
export function codedBody(code: string, text: string): Buffer {
  return Buffer.concat([u8(0), u8(code.length), Buffer.from(code), Buffer.from(text)]);
}
