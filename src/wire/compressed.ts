/** Compressed payloads: wire.md 16. */
import { readU32 } from "./hot.ts";
import { COMPRESSED_DESCRIPTOR_BYTES, MAX_UNCOMPRESSED_BYTES } from "./limits.ts";

export const CodecId = { None: 0, Lz4: 1, Zstd: 2 } as const;

// [ codec_id: u8 ][ dict_id: u32 ][ uncompressed_len: u32 ][ stream ]

/**
 * Checks the shape of the compressed payload buffer[start, end) without decompressing it. Undefined when it is fine, else
 * the reason that goes into `malformed compressed descriptor: ...`.
 */
export function checkCompressedDescriptor(buffer: Uint8Array, start: number, end: number): string | undefined {
  if (end - start < COMPRESSED_DESCRIPTOR_BYTES) return "compressed payload is shorter than the codec descriptor";
  const codecId = buffer[start];
  if (codecId > CodecId.Zstd) return `unknown compression codec id ${codecId} (poison)`;
  const claim = readU32(buffer, start + 5);
  if (claim > MAX_UNCOMPRESSED_BYTES) {
    return `claimed uncompressed length ${claim} exceeds the decompressed cap ${MAX_UNCOMPRESSED_BYTES}`;
  }
  const streamBytes = end - start - COMPRESSED_DESCRIPTOR_BYTES;
  if (codecId === CodecId.None) {
    return streamBytes === claim ? undefined : "stored raw length disagrees with the descriptor";
  }
  return streamBytes > 0 ? undefined : "compressed stream is corrupt";
}
