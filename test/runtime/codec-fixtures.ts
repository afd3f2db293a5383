import { readFileSync } from "node:fs";
import { FIELDS } from "../../src/runtime/codec.ts";
import { loadAddon } from "../../src/runtime/native/addon.ts";
import { addonCodec } from "../../src/runtime/native/codec-addon.ts";
import { typescriptCodec } from "../../src/runtime/native/codec-typescript.ts";
import { xxh3 } from "../../src/runtime/native/xxh3-typescript.ts";

/** Every codec there is here, by name; the addon is missing only where no Rust tool chain built it. */
const { addon } = loadAddon();
export const codecs = [
  ...(addon === undefined ? [] : [{ name: "addon", codec: addonCodec(addon) }]),
  { name: "typescript", codec: typescriptCodec() },
  { name: "typescript with its own xxh3", codec: typescriptCodec(xxh3) },
];

export const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
export const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, "hex"));

export interface TableRecord {
  readonly flags?: number;
  readonly timestampMs: bigint;
  readonly key?: Uint8Array;
  readonly headers?: Uint8Array;
  readonly payload?: Uint8Array;
}

/** Lays records out as a chunk and its table; `gap` bytes of 0xee lie between the parts. */
export function chunkOf(records: readonly TableRecord[], gap = 0): { chunk: Uint8Array; table: Int32Array } {
  const parts: Uint8Array[] = [];
  const table = new Int32Array(records.length * FIELDS);
  let at = 0;
  const place = (part: Uint8Array) => {
    const position = at;
    parts.push(part, new Uint8Array(gap).fill(0xee));
    at += part.length + gap;
    return position;
  };
  for (const [i, record] of records.entries()) {
    const { key = new Uint8Array(0), headers = new Uint8Array(0), payload = new Uint8Array(0) } = record;
    const timestamp = new Uint8Array(8);
    new DataView(timestamp.buffer).setBigUint64(0, record.timestampMs, true);
    const row = [
      record.flags ?? 0,
      place(timestamp),
      place(key),
      key.length,
      place(headers),
      headers.length,
      place(payload),
      payload.length,
    ];
    table.set(row, i * FIELDS);
  }
  return { chunk: new Uint8Array(Buffer.concat(parts)), table };
}

export interface RecordVector {
  name: string;
  seq: string;
  timestamp_ms: string;
  flags_in: number;
  flags_stored: number;
  key_hex: string;
  headers_hex: string;
  payload: { hex?: string; lcg_seed?: number; len?: number };
  subject_hex: string;
  stream_tag_hex: string;
  frame_len: number;
  frame_hex?: string;
  head_hex?: string;
  tail_hex?: string;
  frame_crc32c?: string;
}

export interface Lz4Vector {
  name: string;
  payload_len: number;
  payload_crc32c: string;
  compressed: boolean;
  stored_hex: string | null;
}

export const vectors = JSON.parse(readFileSync(new URL("../vectors/record_vectors.json", import.meta.url), "utf8")) as {
  records: RecordVector[];
  lz4: Lz4Vector[];
  damaged: { name: string; frame_hex: string; error: string }[];
  encrypted_frame: { frame_hex: string };
};

export function payloadOf(vector: RecordVector): Uint8Array {
  const { hex: text, lcg_seed: seed = 0, len = 0 } = vector.payload;
  return text === undefined ? lcg(seed, len) : bytesOf(text);
}

/** The vectors' generator of payloads. */
export function lcg(seed: number, length: number): Uint8Array {
  let x = seed;
  return Uint8Array.from({ length }, () => {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    return x >>> 24;
  });
}
