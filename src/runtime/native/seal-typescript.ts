import {
  Compression,
  FIELD_FLAGS,
  FIELD_HEADERS,
  FIELD_HEADERS_LENGTH,
  FIELD_KEY,
  FIELD_KEY_LENGTH,
  FIELD_PAYLOAD,
  FIELD_PAYLOAD_LENGTH,
  FIELD_TIMESTAMP,
  FIELDS,
} from "../codec.ts";
import { badRow } from "./codec-arguments.ts";
import { copy } from "./copy.ts";
import {
  COMPRESSED,
  HAS_KEY,
  HAS_XXH3,
  HEADER_BYTES,
  MAGIC,
  MAX_FRAME_BYTES,
  TRAILER_BYTES,
  VERSION,
  XXH3_BYTES,
  XXH3_FROM_BYTES,
} from "./frame-layout.ts";
import { storeCompressed } from "./payload-typescript.ts";
import type { Checksums } from "./scan-typescript.ts";

const MAX_FIELD_BYTES = 65_535;

/** Codec.seal in TypeScript; its arguments have been checked, the rows have not. */
export function seal(
  checksums: Checksums,
  chunk: Uint8Array,
  table: Int32Array,
  first: number,
  count: number,
  out: Uint8Array,
  outStart: number,
  outLimit: number,
  stopAt: number,
  sequence: number,
  result: Float64Array,
  compression: Compression,
): number {
  const view = new DataView(out.buffer, out.byteOffset, out.byteLength);
  const fits = (at: number, length: number, limit: number) =>
    length >= 0 && length <= limit && (length === 0 || (at >= 0 && length <= chunk.length - at));
  let position = outStart;
  let index = first;
  for (; index < count && position < stopAt; index++) {
    const row = index * FIELDS;
    const timestamp = table[row + FIELD_TIMESTAMP];
    const keyLength = table[row + FIELD_KEY_LENGTH];
    const headersLength = table[row + FIELD_HEADERS_LENGTH];
    const payloadLength = table[row + FIELD_PAYLOAD_LENGTH];
    const rawLength = frameLength(keyLength + headersLength + payloadLength);
    if (
      !fits(timestamp, 8, 8) ||
      !fits(table[row + FIELD_KEY], keyLength, MAX_FIELD_BYTES) ||
      !fits(table[row + FIELD_HEADERS], headersLength, MAX_FIELD_BYTES) ||
      !fits(table[row + FIELD_PAYLOAD], payloadLength, MAX_FRAME_BYTES - 1) ||
      rawLength > MAX_FRAME_BYTES
    ) {
      throw badRow(index);
    }
    if (rawLength > outLimit - position) break;

    const source = table[row + FIELD_PAYLOAD];
    const payload = position + HEADER_BYTES + keyLength + headersLength;
    let flags = table[row + FIELD_FLAGS] & COMPRESSED;
    let storedLength = -1;
    if (compression === Compression.Lz4 && flags === 0) {
      storedLength = storeCompressed(chunk, source, payloadLength, out, payload);
    }
    if (storedLength >= 0) {
      flags = COMPRESSED;
    } else {
      storedLength = payloadLength;
      copy(chunk, source, payloadLength, out, payload);
    }
    const bodyLength = keyLength + headersLength + storedLength;
    const total = frameLength(bodyLength);
    const xxh3Length = total - (HEADER_BYTES + bodyLength + TRAILER_BYTES);

    const current = sequence + (index - first);
    view.setUint16(position, MAGIC, true);
    view.setUint8(position + 2, VERSION);
    view.setUint8(position + 3, flags | (keyLength > 0 ? HAS_KEY : 0) | (xxh3Length > 0 ? HAS_XXH3 : 0));
    view.setUint32(position + 4, current, true);
    view.setUint32(position + 8, Math.floor(current / 0x1_0000_0000), true);
    copy(chunk, timestamp, 8, out, position + 12);
    view.setUint32(position + 20, keyLength, true);
    view.setUint32(position + 24, headersLength, true);
    view.setUint32(position + 28, storedLength, true);
    view.setUint32(position + 32, checksums.crc32c(out, position, position + 32), true);

    const body = position + HEADER_BYTES;
    copy(chunk, table[row + FIELD_KEY], keyLength, out, body);
    copy(chunk, table[row + FIELD_HEADERS], headersLength, out, body + keyLength);
    const end = body + bodyLength;
    if (xxh3Length > 0) view.setBigUint64(end, checksums.xxh3(out, body, end), true);
    view.setUint32(end + xxh3Length, checksums.crc32c(out, body, end), true);
    view.setUint32(end + xxh3Length + 4, total, true);
    position += total;
  }
  result[0] = position;
  return index - first;
}

/** Length of a frame around a body of `bodyLength` bytes. */
function frameLength(bodyLength: number): number {
  return HEADER_BYTES + bodyLength + (bodyLength >= XXH3_FROM_BYTES ? XXH3_BYTES : 0) + TRAILER_BYTES;
}
