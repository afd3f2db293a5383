import {
  FIELD_FLAGS,
  FIELD_PAYLOAD,
  FIELD_PAYLOAD_LENGTH,
  FIELDS,
  MAX_EXPANDED_BYTES,
  MIN_COMPRESSIBLE_BYTES,
} from "../codec.ts";
import { badRow } from "./codec-arguments.ts";
import { copy } from "./copy.ts";
import { COMPRESSED } from "./frame-layout.ts";
import { encodeLz4Block } from "./lz4-encoder-typescript.ts";
import { decodeLz4Block } from "./lz4-typescript.ts";

/** Compressed payloads (storage.md 4): codec u8, dictionary u32, uncompressed length u32, then for LZ4 one raw block. */

const NONE = 0;
const LZ4 = 1;
const DESCRIPTOR_BYTES = 9;

/**
 * Writes the compressed form of the payload source[start, start + length) to `target`, where there is room for as many
 * bytes. Returns its length; -1 when the payload is to be stored as it is.
 */
export function storeCompressed(
  source: Uint8Array,
  start: number,
  length: number,
  target: Uint8Array,
  at: number,
): number {
  if (length < MIN_COMPRESSIBLE_BYTES || length > MAX_EXPANDED_BYTES) return -1;
  // Strictly shorter, or not worth it.
  const end = encodeLz4Block(source, start, start + length, target, at + DESCRIPTOR_BYTES, at + length - 1);
  if (end < 0) return -1;
  target[at] = LZ4;
  target.fill(0, at + 1, at + 5);
  for (let i = 0; i < 4; i++) target[at + 5 + i] = length >>> (8 * i);
  return end - at;
}

/** Codec.expand in TypeScript; its arguments have been checked, the rows have not. */
export function expand(
  buffer: Uint8Array,
  table: Int32Array,
  first: number,
  count: number,
  out: Uint8Array,
  spots: Int32Array,
): number {
  let used = 0;
  for (let index = first; index < count; index++) {
    const row = index * FIELDS;
    const spot = (index - first) * 2;
    const start = table[row + FIELD_PAYLOAD];
    const storedBytes = table[row + FIELD_PAYLOAD_LENGTH];
    if (storedBytes < 0 || (storedBytes > 0 && (start < 0 || storedBytes > buffer.length - start))) throw badRow(index);
    spots[spot] = -1;
    spots[spot + 1] = 0;
    if ((table[row + FIELD_FLAGS] & COMPRESSED) === 0 || storedBytes < DESCRIPTOR_BYTES) continue;

    const codecId = buffer[start];
    let dictionary = 0;
    for (let i = 1; i < 5; i++) dictionary |= buffer[start + i];
    let length = 0;
    for (let i = 8; i > 4; i--) length = length * 256 + buffer[start + i];
    if (codecId > LZ4 || dictionary !== 0 || length > MAX_EXPANDED_BYTES) continue;
    if (length > out.length - used) return index;

    const at = used;
    used += length;
    const stream = start + DESCRIPTOR_BYTES;
    const streamBytes = storedBytes - DESCRIPTOR_BYTES;
    if (codecId === NONE) {
      if (streamBytes !== length) continue;
      copy(buffer, stream, length, out, at);
    } else if (!decodeLz4Block(buffer, stream, stream + streamBytes, out, at, length)) {
      continue;
    }
    spots[spot] = at;
    spots[spot + 1] = length;
  }
  return count;
}
