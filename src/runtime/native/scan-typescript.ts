import { FIELDS, ScanStop } from "../codec.ts";
import {
  ENCRYPTED,
  HAS_KEY,
  HAS_STREAM_TAG,
  HAS_SUBJECT,
  HAS_XXH3,
  HEADER_BYTES,
  MAGIC,
  MAX_FRAME_BYTES,
  TRAILER_BYTES,
  VERSION,
  XXH3_BYTES,
  XXH3_FROM_BYTES,
} from "./frame-layout.ts";

/** The checksums that the TypeScript codec is built on. */
export interface Checksums {
  crc32c(buffer: Uint8Array, start: number, end: number): number;
  xxh3(buffer: Uint8Array, start: number, end: number): bigint;
}

/** Codec.scan in TypeScript; its arguments have been checked. */
export function scan(
  checksums: Checksums,
  buffer: Uint8Array,
  start: number,
  end: number,
  table: Int32Array,
  maxRecords: number,
  sequence: number,
  result: Float64Array,
): number {
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  result[1] = ScanStop.End;
  result[2] = 0;
  result[3] = 0;
  let position = start;
  let found = 0;
  while (found < maxRecords && position < end) {
    const row = found * FIELDS;
    const stop = check(checksums, buffer, view, position, end, result);
    if (stop !== ScanStop.End) {
      result[1] = stop;
      break;
    }
    if (sequence !== -1) {
      const high = view.getUint32(position + 8, true);
      const actual = high < 0x20_0000 ? view.getUint32(position + 4, true) + high * 0x1_0000_0000 : -1;
      if (actual !== sequence + found) {
        result[1] = ScanStop.SequenceMismatch;
        result[3] = actual;
        break;
      }
    }
    const keyLength = view.getUint32(position + 20, true);
    const headersLength = view.getUint32(position + 24, true);
    const body = position + HEADER_BYTES + tagBytes(view, position);
    table[row] = view.getUint8(position + 3);
    table[row + 1] = position + 12;
    table[row + 2] = body;
    table[row + 3] = keyLength;
    table[row + 4] = body + keyLength;
    table[row + 5] = headersLength;
    table[row + 6] = body + keyLength + headersLength;
    table[row + 7] = view.getUint32(position + 28, true);
    position += frameBytes(view, position);
    found++;
  }
  result[0] = position;
  return found;
}

/** Length of the subject or stream tag field; its first two bytes are there. */
function tagBytes(view: DataView, at: number): number {
  const tagged = (view.getUint8(at + 3) & (HAS_SUBJECT | HAS_STREAM_TAG)) !== 0;
  return tagged ? 6 + view.getUint16(at + HEADER_BYTES, true) : 0;
}

/** The frame's length by its header, in exact arithmetic: three u32 do not overflow a number. */
function frameBytes(view: DataView, at: number): number {
  const body = view.getUint32(at + 20, true) + view.getUint32(at + 24, true) + view.getUint32(at + 28, true);
  const xxh3 = (view.getUint8(at + 3) & HAS_XXH3) !== 0 ? XXH3_BYTES : 0;
  return HEADER_BYTES + tagBytes(view, at) + body + xxh3 + TRAILER_BYTES;
}

/** Checks one frame in the order of storage.md 3.5; End when it is intact. Sets result[2] for Truncated. */
function check(
  checksums: Checksums,
  buffer: Uint8Array,
  view: DataView,
  at: number,
  end: number,
  result: Float64Array,
): ScanStop {
  const available = end - at;
  if (available < HEADER_BYTES) return truncated(result, HEADER_BYTES);
  if (view.getUint16(at, true) !== MAGIC) return ScanStop.BadMagic;
  if (view.getUint8(at + 2) !== VERSION) return ScanStop.UnsupportedVersion;
  if (checksums.crc32c(buffer, at, at + 32) !== view.getUint32(at + 32, true)) return ScanStop.BadHeaderCrc;

  const flags = view.getUint8(at + 3);
  const tagged = flags & (HAS_SUBJECT | HAS_STREAM_TAG);
  const encrypted = (flags & ENCRYPTED) !== 0;
  if (tagged === (HAS_SUBJECT | HAS_STREAM_TAG) || (encrypted && tagged !== 0)) return ScanStop.BadLength;
  if (encrypted) return ScanStop.Encrypted;

  if (tagged !== 0 && available < HEADER_BYTES + 2) return truncated(result, HEADER_BYTES + 2);
  const total = frameBytes(view, at);
  if (total > MAX_FRAME_BYTES) return ScanStop.TooLarge;
  if (total > available) return truncated(result, total);

  const trailer = at + total - TRAILER_BYTES;
  const hasXxh3 = (flags & HAS_XXH3) !== 0;
  const bodyStart = at + HEADER_BYTES + tagBytes(view, at);
  const bodyEnd = hasXxh3 ? trailer - XXH3_BYTES : trailer;
  if (
    ((flags & HAS_KEY) !== 0) !== (view.getUint32(at + 20, true) !== 0) ||
    hasXxh3 !== bodyEnd - bodyStart >= XXH3_FROM_BYTES ||
    (tagged !== 0 && view.getUint16(at + HEADER_BYTES, true) === 0)
  ) {
    return ScanStop.BadLength;
  }
  // Before the trailer's length, as the contract's vectors have it: a damaged subject length moves the trailer.
  if (tagged !== 0) {
    const expected = view.getUint32(bodyStart - 4, true);
    if (checksums.crc32c(buffer, at + HEADER_BYTES, bodyStart - 4) !== expected) {
      return tagged === HAS_SUBJECT ? ScanStop.BadSubjectCrc : ScanStop.BadStreamTagCrc;
    }
  }
  if (view.getUint32(trailer + 4, true) !== total) return ScanStop.BadLength;
  if (checksums.crc32c(buffer, bodyStart, bodyEnd) !== view.getUint32(trailer, true)) return ScanStop.BadBodyCrc;
  if (hasXxh3 && checksums.xxh3(buffer, bodyStart, bodyEnd) !== view.getBigUint64(bodyEnd, true)) {
    return ScanStop.BadXxh3;
  }
  return ScanStop.End;
}

function truncated(result: Float64Array, neededBytes: number): ScanStop {
  result[2] = neededBytes;
  return ScanStop.Truncated;
}
