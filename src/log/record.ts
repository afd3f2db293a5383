import type { Codec } from "../runtime/codec.ts";
import { viewOf } from "./u64.ts";

/**
 * One stored record frame (storage.md 3) in object form, for tools and tests; the path of a record uses the codec.
 *
 * [ header 36 ][ subject or stream tag: u16 length, bytes, u32 crc ][ key ][ headers ][ payload ][ xxh3 8 ][ trailer 8 ]
 *
 * header:  magic u16 | version u8 | flags u8 | sequence u64 | timestamp u64 | key, headers, payload length u32 | crc u32
 * trailer: body crc u32 | total length u32
 */

export const RECORD_HEADER_LENGTH = 36;
/** The smallest frame: header and trailer. */
export const MIN_FRAME_LENGTH = 44;
export const MAX_FRAME_LENGTH = 0x4000_0000;
/** Bodies of this length and above carry an xxh3-64 beside the CRC. */
export const XXH3_THRESHOLD_BYTES = 65_536;

export const RecordFlag = {
  Compressed: 0x01,
  HasKey: 0x02,
  HasXxh3: 0x04,
  HasSubject: 0x08,
  HasStreamTag: 0x10,
  Encrypted: 0x20,
} as const;

const MAGIC = 0x4942;
const VERSION = 1;
const TRAILER_LENGTH = 8;
const XXH3_LENGTH = 8;

const TEXTS = {
  Truncated: "record frame is truncated",
  BadMagic: "record frame has a bad magic number",
  UnsupportedVersion: "unsupported record format version",
  BadHeaderCrc: "record header CRC mismatch",
  BadLength: "record frame has inconsistent length fields",
  Encrypted: "record frame is encrypted",
  TooLarge: "record frame exceeds the maximum size",
  BadStreamTagCrc: "record stored-stream-tag CRC mismatch",
  BadSubjectCrc: "record stored-subject CRC mismatch",
  BadBodyCrc: "record body CRC mismatch",
  BadXxh3: "record body xxh3-64 mismatch",
} as const;

export type RecordErrorKind = keyof typeof TEXTS;

/** The first check of storage.md 3.5 that a frame failed. `version` is set for UnsupportedVersion. */
export class RecordError extends Error {
  override readonly name = "RecordError";
  readonly kind: RecordErrorKind;
  readonly version: number | undefined;

  constructor(kind: RecordErrorKind, version?: number) {
    super(version === undefined ? TEXTS[kind] : `${TEXTS[kind]} ${version}`);
    this.kind = kind;
    this.version = version;
  }
}

export interface StoredRecord {
  /** u64 */
  readonly sequence: bigint;
  /** u64, as the producer gave it. */
  readonly timestampMs: bigint;
  /** Stored flag byte. For encodeRecord only Compressed counts; the others are derived. */
  readonly flags: number;
  readonly key: Uint8Array;
  readonly headers: Uint8Array;
  /** As stored: a compressed object when Compressed is set (storage.md 4). */
  readonly payload: Uint8Array;
  /** 1 to 65,535 bytes; a record has a subject or a stream tag, never both. */
  readonly subject?: Uint8Array;
  readonly streamTag?: Uint8Array;
}

export interface DecodedRecord {
  /** Its byte fields are views of the decoded buffer. */
  readonly record: StoredRecord;
  /** Length of the whole frame. */
  readonly lengthBytes: number;
}

/**
 * The frame of `record` (storage.md 3.1-3.4). Throws RecordError BadLength for a subject beside a stream tag or one
 * that is empty or above 65,535 bytes, TooLarge above 1 GiB, and RangeError for a sequence or timestamp outside of u64.
 */
export function encodeRecord(record: StoredRecord, codec: Codec): Uint8Array {
  const { key, headers, payload, subject, streamTag } = record;
  if (subject !== undefined && streamTag !== undefined) throw new RecordError("BadLength");
  const label = subject ?? streamTag;
  if (label !== undefined && (label.length === 0 || label.length > 0xffff)) throw new RecordError("BadLength");
  for (const value of [record.sequence, record.timestampMs]) {
    if (BigInt.asUintN(64, value) !== value) throw new RangeError(`${value} is not a u64`);
  }

  const labelLength = label === undefined ? 0 : label.length + 6;
  const bodyLength = key.length + headers.length + payload.length;
  const xxh3Length = bodyLength >= XXH3_THRESHOLD_BYTES ? XXH3_LENGTH : 0;
  const lengthBytes = RECORD_HEADER_LENGTH + labelLength + bodyLength + xxh3Length + TRAILER_LENGTH;
  if (lengthBytes > MAX_FRAME_LENGTH) throw new RecordError("TooLarge");

  const frame = new Uint8Array(lengthBytes);
  const view = viewOf(frame);
  view.setUint16(0, MAGIC, true);
  frame[2] = VERSION;
  frame[3] =
    (record.flags & RecordFlag.Compressed) |
    (key.length > 0 ? RecordFlag.HasKey : 0) |
    (xxh3Length > 0 ? RecordFlag.HasXxh3 : 0) |
    (subject !== undefined ? RecordFlag.HasSubject : 0) |
    (streamTag !== undefined ? RecordFlag.HasStreamTag : 0);
  view.setBigUint64(4, record.sequence, true);
  view.setBigUint64(12, record.timestampMs, true);
  view.setUint32(20, key.length, true);
  view.setUint32(24, headers.length, true);
  view.setUint32(28, payload.length, true);
  view.setUint32(32, codec.crc32c(frame, 0, 32), true);

  let at = RECORD_HEADER_LENGTH;
  if (label !== undefined) {
    view.setUint16(at, label.length, true);
    frame.set(label, at + 2);
    view.setUint32(at + 2 + label.length, codec.crc32c(frame, at, at + 2 + label.length), true);
    at += labelLength;
  }
  const bodyStart = at;
  for (const part of [key, headers, payload]) {
    frame.set(part, at);
    at += part.length;
  }
  const bodyEnd = at;
  if (xxh3Length > 0) view.setBigUint64(bodyEnd, codec.xxh3(frame, bodyStart, bodyEnd), true);
  view.setUint32(lengthBytes - 8, codec.crc32c(frame, bodyStart, bodyEnd), true);
  view.setUint32(lengthBytes - 4, lengthBytes, true);
  return frame;
}

/** Decodes and checks the frame at buffer[start, end), in the order of storage.md 3.5. Throws RecordError. */
export function decodeRecord(buffer: Uint8Array, codec: Codec, start = 0, end = buffer.length): DecodedRecord {
  const bytes = buffer.subarray(start, end);
  const view = viewOf(bytes);
  if (bytes.length < RECORD_HEADER_LENGTH) throw new RecordError("Truncated");
  if (view.getUint16(0, true) !== MAGIC) throw new RecordError("BadMagic");
  if (bytes[2] !== VERSION) throw new RecordError("UnsupportedVersion", bytes[2]);
  if (view.getUint32(32, true) !== codec.crc32c(bytes, 0, 32)) throw new RecordError("BadHeaderCrc");

  const flags = bytes[3];
  if (hasContradictoryFlags(flags)) throw new RecordError("BadLength");
  if (flags & RecordFlag.Encrypted) throw new RecordError("Encrypted");

  const hasLabel = (flags & (RecordFlag.HasSubject | RecordFlag.HasStreamTag)) !== 0;
  if (hasLabel && bytes.length < RECORD_HEADER_LENGTH + 2) throw new RecordError("Truncated");
  const labelLength = hasLabel ? view.getUint16(RECORD_HEADER_LENGTH, true) : 0;
  const keyLength = view.getUint32(20, true);
  const headersLength = view.getUint32(24, true);
  const payloadLength = view.getUint32(28, true);
  const bodyLength = keyLength + headersLength + payloadLength;
  const bodyStart = RECORD_HEADER_LENGTH + (hasLabel ? labelLength + 6 : 0);
  const hasXxh3 = (flags & RecordFlag.HasXxh3) !== 0;
  const lengthBytes = bodyStart + bodyLength + (hasXxh3 ? XXH3_LENGTH : 0) + TRAILER_LENGTH;
  if (lengthBytes > MAX_FRAME_LENGTH) throw new RecordError("TooLarge");
  if (bytes.length < lengthBytes) throw new RecordError("Truncated");

  if (((flags & RecordFlag.HasKey) !== 0) !== keyLength > 0) throw new RecordError("BadLength");
  if (hasXxh3 !== bodyLength >= XXH3_THRESHOLD_BYTES) throw new RecordError("BadLength");
  if (hasLabel && labelLength === 0) throw new RecordError("BadLength");

  // Before the trailer's length, as the published vectors have it: a damaged label length moves the trailer.
  let label: Uint8Array | undefined;
  if (hasLabel) {
    const labelStart = RECORD_HEADER_LENGTH + 2;
    label = bytes.subarray(labelStart, labelStart + labelLength);
    const crc = codec.crc32c(bytes, RECORD_HEADER_LENGTH, labelStart + labelLength);
    if (view.getUint32(labelStart + labelLength, true) !== crc) {
      throw new RecordError(flags & RecordFlag.HasSubject ? "BadSubjectCrc" : "BadStreamTagCrc");
    }
  }
  if (view.getUint32(lengthBytes - 4, true) !== lengthBytes) throw new RecordError("BadLength");
  const bodyEnd = bodyStart + bodyLength;
  if (view.getUint32(lengthBytes - 8, true) !== codec.crc32c(bytes, bodyStart, bodyEnd)) {
    throw new RecordError("BadBodyCrc");
  }
  if (hasXxh3 && view.getBigUint64(bodyEnd, true) !== codec.xxh3(bytes, bodyStart, bodyEnd)) {
    throw new RecordError("BadXxh3");
  }

  const headersStart = bodyStart + keyLength;
  const record: StoredRecord = {
    sequence: view.getBigUint64(4, true),
    timestampMs: view.getBigUint64(12, true),
    flags,
    key: bytes.subarray(bodyStart, headersStart),
    headers: bytes.subarray(headersStart, headersStart + headersLength),
    payload: bytes.subarray(headersStart + headersLength, bodyEnd),
    ...(flags & RecordFlag.HasSubject ? { subject: label } : {}),
    ...(flags & RecordFlag.HasStreamTag ? { streamTag: label } : {}),
  };
  return { record, lengthBytes };
}

/** Flag bits that exclude each other: subject with tag, encrypted with either (storage.md 3.5 step 3). */
export function hasContradictoryFlags(flags: number): boolean {
  const labels = flags & (RecordFlag.HasSubject | RecordFlag.HasStreamTag);
  if (labels === (RecordFlag.HasSubject | RecordFlag.HasStreamTag)) return true;
  return labels !== 0 && (flags & RecordFlag.Encrypted) !== 0;
}
