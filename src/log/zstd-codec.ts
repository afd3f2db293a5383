import {
  type Codec,
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
  MAX_EXPANDED_BYTES,
  MIN_COMPRESSIBLE_BYTES,
} from "../runtime/codec.ts";
import { badRow } from "../runtime/native/codec-arguments.ts";
import type { Zstd } from "../runtime/zstd.ts";
import { CodecId } from "../wire/compressed.ts";
import { COMPRESSED_DESCRIPTOR_BYTES } from "../wire/limits.ts";
import { RecordFlag } from "./record.ts";
import { viewOf } from "./u64.ts";

/** Payload bytes, as they are published, that are compressed before what came of them is sealed. */
const RUN_BYTES = 64 * 1024;
const TIMESTAMP_BYTES = 8;
/** Level of storage.md 4. */
const DEFAULT_LEVEL = 3;
const FIELD_PAIRS = [
  [FIELD_KEY, FIELD_KEY_LENGTH],
  [FIELD_HEADERS, FIELD_HEADERS_LENGTH],
] as const;

export interface ZstdDictionary {
  /** Never 0. */
  readonly id: number;
  readonly content: Uint8Array;
}

export interface ZstdSettings {
  readonly level?: number;
  readonly dictionary?: ZstdDictionary;
}

/**
 * `codec` with a seal() that stores payloads as zstd frames, whatever compression it is asked for; all else is the codec's.
 * Each payload costs a call into the runtime, some microseconds: dozens of times what LZ4 costs a short record.
 */
export function zstdCodec(codec: Codec, zstd: Zstd, settings: ZstdSettings = {}): Codec {
  const { level = DEFAULT_LEVEL, dictionary } = settings;
  const compress = (payload: Uint8Array) => compressed(payload, zstd, level, dictionary);
  return {
    ...codec,
    seal(chunk, table, first, count, out, outStart, outLimit, stopAt, sequence, result) {
      let at = first;
      let position = outStart;
      while (at < count && position < stopAt) {
        const run = compressRun(chunk, table, at, count, compress);
        const written = codec.seal(
          run.chunk,
          run.table,
          0,
          run.count,
          out,
          position,
          outLimit,
          stopAt,
          sequence + (at - first),
          result,
          Compression.None,
        );
        position = result[0];
        at += written;
        if (written < run.count) break;
      }
      result[0] = position;
      return at - first;
    },
  };
}

interface Run {
  readonly chunk: Uint8Array;
  readonly table: Int32Array;
  readonly count: number;
}

/** The rows from `first` on with compressed payloads, in a chunk of their own: as many as RUN_BYTES, one at least. */
function compressRun(
  chunk: Uint8Array,
  table: Int32Array,
  first: number,
  end: number,
  compress: (payload: Uint8Array) => Uint8Array | undefined,
): Run {
  let count = 0;
  for (let bytes = 0; first + count < end && (count === 0 || bytes < RUN_BYTES); count++) {
    bytes += table[(first + count) * FIELDS + FIELD_PAYLOAD_LENGTH];
  }
  const rows = table.slice(first * FIELDS, (first + count) * FIELDS);
  const parts: Uint8Array[] = [];
  let at = 0;
  const add = (part: Uint8Array): number => {
    parts.push(part);
    at += part.length;
    return at - part.length;
  };
  const partOf = (row: number, position: number, length: number): Uint8Array => {
    if (length === 0) return chunk.subarray(0, 0);
    if (length < 0 || position < 0 || length > chunk.length - position) throw badRow(first + row / FIELDS);
    return chunk.subarray(position, position + length);
  };
  for (let row = 0; row < rows.length; row += FIELDS) {
    rows[row + FIELD_TIMESTAMP] = add(partOf(row, rows[row + FIELD_TIMESTAMP], TIMESTAMP_BYTES));
    for (const [field, length] of FIELD_PAIRS)
      rows[row + field] = add(partOf(row, rows[row + field], rows[row + length]));
    const payload = partOf(row, rows[row + FIELD_PAYLOAD], rows[row + FIELD_PAYLOAD_LENGTH]);
    const stored = (rows[row + FIELD_FLAGS] & RecordFlag.Compressed) === 0 && compress(payload);
    if (stored) rows[row + FIELD_FLAGS] |= RecordFlag.Compressed;
    rows[row + FIELD_PAYLOAD] = add(stored || payload);
    rows[row + FIELD_PAYLOAD_LENGTH] = (stored || payload).length;
  }
  const joined = new Uint8Array(at);
  let position = 0;
  for (const part of parts) {
    joined.set(part, position);
    position += part.length;
  }
  return { chunk: joined, table: rows, count };
}

/** Descriptor and frame; undefined for a payload that is to be stored as it is (storage.md 4). */
function compressed(
  payload: Uint8Array,
  zstd: Zstd,
  level: number,
  dictionary: ZstdDictionary | undefined,
): Uint8Array | undefined {
  if (payload.length < MIN_COMPRESSIBLE_BYTES || payload.length > MAX_EXPANDED_BYTES) return undefined;
  const stream = zstd.compress(payload, level, dictionary?.content);
  if (COMPRESSED_DESCRIPTOR_BYTES + stream.length >= payload.length) return undefined;
  const stored = new Uint8Array(COMPRESSED_DESCRIPTOR_BYTES + stream.length);
  stored[0] = CodecId.Zstd;
  viewOf(stored).setUint32(1, dictionary?.id ?? 0, true);
  viewOf(stored).setUint32(5, payload.length, true);
  stored.set(stream, COMPRESSED_DESCRIPTOR_BYTES);
  return stored;
}
