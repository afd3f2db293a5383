import { decodeInfo, encodeConnect } from "../wire/connect.ts";
import { encodeFetch } from "../wire/consume.ts";
import { EMPTY_FRAME_BYTES, writeEmpty, writeFrameHeader } from "../wire/hot.ts";
import { FRAME_HEADER_BYTES } from "../wire/limits.ts";
import { Reader } from "../wire/reader.ts";
import { Tag } from "../wire/tags.ts";
import { encodeUtf8 } from "../wire/utf8.ts";
import { Writer } from "../wire/writer.ts";
import type { Outbound } from "./outbound.ts";
import { unexpected } from "./replies.ts";

/** What a broker grants one connection. */
export interface Limits {
  /** Most messages leased at a time; undefined when the broker does not say. */
  readonly credit: number | undefined;
  /** Most bytes leased at a time, 0 for no bound; undefined when the broker does not say. */
  readonly creditBytes: number | undefined;
}

/** Longest group name that is sent: the engine takes 128 bytes (wire.md 3), a refusal of more is its business. */
const LONGEST_GROUP_BYTES = 65_535;

/**
 * Asks for the limits, and for gaps to be told with their reason. Compressed deliveries are not asked for: the broker
 * decompresses, so that no codec is needed here.
 */
export function appendConnect(out: Outbound, credit: number | undefined, creditBytes: number | undefined): void {
  const writer = new Writer();
  encodeConnect(writer, {
    requestedCredit: credit,
    requestedCreditBytes: creditBytes === undefined ? undefined : BigInt(creditBytes),
    wantsGapMarker: true,
    understandsStreaming: false,
    understandsDeliverBatch: false,
    understandsStreams: false,
    flags2: 0,
  });
  appendBody(out, Tag.Connect, writer.toBytes());
}

/** The limits in an Info frame; throws when the frame is none. */
export function readInfo(tag: number, buffer: Uint8Array, start: number, end: number): Limits {
  if (tag !== Tag.Info) throw unexpected(tag, "a connect");
  const { credit, creditBytes } = decodeInfo(new Reader(buffer, start, end));
  return {
    credit: credit?.negotiated,
    creditBytes: creditBytes === undefined ? undefined : Number(creditBytes.negotiated),
  };
}

/** Throws RangeError for a name that cannot be meant; its characters are the broker's to judge. */
export function appendSub(out: Outbound, group: string): void {
  const name = encodeUtf8(group);
  if (name.length > LONGEST_GROUP_BYTES) throw new RangeError(`the group name is too long: ${name.length} bytes`);
  appendBody(out, Tag.Sub, name);
}

export function appendFetch(out: Outbound, max: number, maxBytes: number, noWait: boolean): void {
  const writer = new Writer(32);
  encodeFetch(writer, { maxRecords: max, maxBytes: BigInt(maxBytes), expiresMs: 0n, noWait });
  appendBody(out, Tag.Fetch, writer.toBytes());
}

/** Ping, Unsub. */
export function appendEmpty(out: Outbound, tag: number): void {
  const at = out.reserve(EMPTY_FRAME_BYTES);
  out.used = writeEmpty(out.buffer, at, tag);
}

function appendBody(out: Outbound, tag: number, body: Uint8Array): void {
  const at = out.reserve(FRAME_HEADER_BYTES + body.length);
  const bodyAt = writeFrameHeader(out.buffer, at, tag, body.length);
  out.buffer.set(body, bodyAt);
  out.used = bodyAt + body.length;
}
