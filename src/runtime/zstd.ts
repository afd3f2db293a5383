import zlib from "node:zlib";

/** Zstandard as far as the runtime has it: Bun does, Node from 22.15 on does, Node 20 (armv7) does not. */
export interface Zstd {
  /** One frame of `bytes` at `level`, with the content's length in it. */
  compress(bytes: Uint8Array, level: number, dictionary?: Uint8Array): Uint8Array;
  /** The content of the frame in `bytes`. Throws when it is damaged, or longer than `maxLengthBytes` (1 and more). */
  decompress(bytes: Uint8Array, maxLengthBytes: number, dictionary?: Uint8Array): Uint8Array;
}

interface ZstdFunctions {
  zstdCompressSync(bytes: Uint8Array, options: object): Uint8Array;
  zstdDecompressSync(bytes: Uint8Array, options: object): Uint8Array;
}

/** ZSTD_c_compressionLevel and ZSTD_d_windowLogMax of zstd.h, part of its stable interface. */
const COMPRESSION_LEVEL = 100;
const WINDOW_LOG_MAX = 100;
/** Frames that need a larger window are refused: it is memory. Enough for the 8 MiB of the largest payload. */
const MAX_WINDOW_LOG = 23;

/** Undefined where the runtime has no zstd. */
export const zstd: Zstd | undefined = findZstd(zlib as unknown as Partial<ZstdFunctions>);

function findZstd({ zstdCompressSync, zstdDecompressSync }: Partial<ZstdFunctions>): Zstd | undefined {
  if (zstdCompressSync === undefined || zstdDecompressSync === undefined) return undefined;
  return {
    compress: (bytes, level, dictionary) =>
      zstdCompressSync(bytes, { params: { [COMPRESSION_LEVEL]: level }, dictionary }),
    decompress: (bytes, maxLengthBytes, dictionary) =>
      zstdDecompressSync(bytes, {
        params: { [WINDOW_LOG_MAX]: MAX_WINDOW_LOG },
        maxOutputLength: maxLengthBytes,
        dictionary,
      }),
  };
}
