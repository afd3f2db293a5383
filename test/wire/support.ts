import crc32cOf from "crc-32/crc32c.js";
import { WireError, type WireErrorKind } from "../../src/wire/errors.ts";
import type { Checksums } from "../../src/wire/stored-record.ts";

export const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
export const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "hex"));
export const ascii = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "latin1"));

/** What `action` throws as a WireError; undefined when it returns. Anything else thrown goes through. */
export function wireErrorOf(action: () => unknown): WireError | undefined {
  try {
    action();
  } catch (error) {
    if (error instanceof WireError) return error;
    throw error;
  }
  return undefined;
}

export function kindOf(action: () => unknown): WireErrorKind | undefined {
  return wireErrorOf(action)?.kind;
}

export const checksums: Checksums = {
  crc32c: (buffer, start, end) => crc32cOf.buf(buffer.subarray(start, end)) >>> 0,
  xxh3: (buffer, start, end) => BigInt(Bun.hash.xxHash3(buffer.subarray(start, end))),
};

/** One raw LZ4 block (wire.md 16), byte by byte. */
export function lz4Block(stream: Uint8Array, length: number): Uint8Array {
  const out = new Uint8Array(length);
  let from = 0;
  let at = 0;
  const extended = (nibble: number): number => {
    if (nibble < 15) return nibble;
    let total = nibble;
    let next = 255;
    while (next === 255) {
      next = stream[from++];
      total += next;
    }
    return total;
  };
  while (from < stream.length) {
    const token = stream[from++];
    for (let left = extended(token >> 4); left > 0; left--) out[at++] = stream[from++];
    if (from >= stream.length) break;
    const distance = stream[from] | (stream[from + 1] << 8);
    from += 2;
    for (let left = extended(token & 15) + 4; left > 0; left--, at++) out[at] = out[at - distance];
  }
  if (at !== length) throw new Error(`the block gives ${at} bytes, not ${length}`);
  return out;
}
