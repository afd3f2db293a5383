import { buf as crc32cOf } from "crc-32/crc32c.js";
import type { Codec } from "../codec.ts";
import { checkExpand, checkLz4, checkRange, checkScan, checkSeal } from "./codec-arguments.ts";
import { decodeLz4Block } from "./lz4-typescript.ts";
import { expand } from "./payload-typescript.ts";
import type { Checksums } from "./scan-typescript.ts";
import { scan } from "./scan-typescript.ts";
import { seal } from "./seal-typescript.ts";
import { xxh3 } from "./xxh3-typescript.ts";

function crc32c(buffer: Uint8Array, start: number, end: number): number {
  return crc32cOf(buffer.subarray(start, end)) >>> 0;
}

/** Bun has XXH3 of its own, Node does not. */
function findXxh3(): Checksums["xxh3"] {
  if (!("Bun" in globalThis)) return xxh3;
  return (buffer, start, end) => Bun.hash.xxHash3(buffer.subarray(start, end));
}

/** The codec in TypeScript: the addon's twin, with the same bytes and the same errors. */
export function typescriptCodec(xxh3 = findXxh3()): Codec {
  const checksums: Checksums = { crc32c, xxh3 };
  return {
    kind: "typescript",

    crc32c(buffer, start, end) {
      checkRange(buffer, start, end);
      return crc32c(buffer, start, end);
    },

    xxh3(buffer, start, end) {
      checkRange(buffer, start, end);
      return xxh3(buffer, start, end);
    },

    seal(chunk, table, first, count, out, outStart, outLimit, stopAt, sequence, result, compression) {
      checkSeal(chunk, table, first, count, out, outStart, outLimit, sequence, result, compression);
      return seal(
        checksums,
        chunk,
        table,
        first,
        count,
        out,
        outStart,
        outLimit,
        stopAt,
        sequence,
        result,
        compression,
      );
    },

    expand(buffer, table, first, count, out, spots) {
      checkExpand(buffer, table, first, count, out, spots);
      return expand(buffer, table, first, count, out, spots);
    },

    scan(buffer, start, end, table, maxRecords, sequence, result) {
      checkScan(buffer, start, end, table, maxRecords, sequence, result);
      return scan(checksums, buffer, start, end, table, maxRecords, sequence, result);
    },

    lz4Decompress(source, start, end, target, at, length) {
      checkLz4(source, start, end, target, at, length);
      return decodeLz4Block(source, start, end, target, at, length);
    },
  };
}
