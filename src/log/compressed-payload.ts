import type { Codec } from "../runtime/codec.ts";
import { zstd } from "../runtime/zstd.ts";
import { CodecId } from "../wire/compressed.ts";
import { COMPRESSED_DESCRIPTOR_BYTES, MAX_UNCOMPRESSED_BYTES } from "../wire/limits.ts";
import { viewOf } from "./u64.ts";

/**
 * A stored payload under the COMPRESSED flag (storage.md 4):
 *
 * [ codec id u8 ][ dictionary id u32 ][ uncompressed length u32 ][ stream ]
 */

export interface CompressionDescriptor {
  readonly codecId: number;
  readonly dictionaryId: number;
  readonly uncompressedLengthBytes: number;
}

export type CompressionFailure =
  | "missing-dict"
  | "unknown-codec"
  | "decompressed-too-large"
  | "truncated-descriptor"
  | "corrupt-stream"
  | "bad-raw-length";

/**
 * Why a compressed payload cannot be decoded. `value` is the dictionary id, codec id or claimed length of the first
 * three failures. `poison` failures mean that the frame is fine and an input is missing.
 */
export class CompressionError extends Error {
  override readonly name = "CompressionError";
  readonly failure: CompressionFailure;
  readonly value: number | undefined;

  constructor(failure: CompressionFailure, value?: number, options?: ErrorOptions) {
    super(value === undefined ? failure : `${failure}:${value}`, options);
    this.failure = failure;
    this.value = value;
  }

  get poison(): boolean {
    return this.failure === "missing-dict" || this.failure === "unknown-codec";
  }

  /** The loss reason this failure is reported under. */
  get reason(): "UnresolvedDictId" | "CorruptRecordBody" {
    return this.failure === "missing-dict" ? "UnresolvedDictId" : "CorruptRecordBody";
  }
}

/** The descriptor at the start of a stored payload, or undefined when there are fewer than 9 bytes. */
export function readCompressionDescriptor(stored: Uint8Array): CompressionDescriptor | undefined {
  if (stored.length < COMPRESSED_DESCRIPTOR_BYTES) return undefined;
  const view = viewOf(stored);
  return {
    codecId: stored[0],
    dictionaryId: view.getUint32(1, true),
    uncompressedLengthBytes: view.getUint32(5, true),
  };
}

/** Where dictionaries come from: their bytes by id, undefined for one that is not there. */
export interface DictionarySource {
  get(id: number): Uint8Array | undefined;
}

/**
 * The original payload of a compressed one; at most 8 MiB long, checked before anything is allocated. Codec 0 gives a view
 * of `stored`. Throws CompressionError: without `dictionaries` for every payload that names one, and for zstd where the
 * runtime has none.
 */
export function decompressPayload(stored: Uint8Array, codec: Codec, dictionaries?: DictionarySource): Uint8Array {
  const descriptor = readCompressionDescriptor(stored);
  if (descriptor === undefined) throw new CompressionError("truncated-descriptor");
  const { codecId, dictionaryId, uncompressedLengthBytes } = descriptor;
  if (codecId > CodecId.Zstd) throw new CompressionError("unknown-codec", codecId);
  let dictionary: Uint8Array | undefined;
  if (dictionaryId !== 0) {
    // The other codecs have no use for one: whoever wrote this meant something that is not known here.
    if (codecId === CodecId.Zstd) dictionary = dictionaries?.get(dictionaryId);
    if (dictionary === undefined) throw new CompressionError("missing-dict", dictionaryId);
  }
  if (codecId === CodecId.Zstd && zstd === undefined) throw new CompressionError("unknown-codec", codecId);
  if (uncompressedLengthBytes > MAX_UNCOMPRESSED_BYTES) {
    throw new CompressionError("decompressed-too-large", uncompressedLengthBytes);
  }

  const stream = stored.subarray(COMPRESSED_DESCRIPTOR_BYTES);
  switch (codecId) {
    case CodecId.None:
      if (stream.length !== uncompressedLengthBytes) throw new CompressionError("bad-raw-length");
      return stream;
    case CodecId.Zstd:
      return decompressZstd(stream, uncompressedLengthBytes, dictionary);
    default: {
      const target = new Uint8Array(uncompressedLengthBytes);
      if (!codec.lz4Decompress(stream, 0, stream.length, target, 0, uncompressedLengthBytes)) {
        throw new CompressionError("corrupt-stream");
      }
      return target;
    }
  }
}

function decompressZstd(stream: Uint8Array, lengthBytes: number, dictionary: Uint8Array | undefined): Uint8Array {
  let content: Uint8Array | undefined;
  try {
    content = zstd?.decompress(stream, Math.max(lengthBytes, 1), dictionary);
  } catch (cause) {
    throw new CompressionError("corrupt-stream", undefined, { cause });
  }
  // A frame that is cut off ends early and without a word.
  if (content?.length !== lengthBytes) throw new CompressionError("corrupt-stream");
  return content;
}
