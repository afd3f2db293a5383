import type { Codec } from "../codec.ts";
import type { Addon } from "./addon.ts";
import { badRow, checkLz4, checkRange, checkScan, checkSeal } from "./codec-arguments.ts";

/** The codec of a loaded addon. The addon checks every argument once more: it must not trust its caller. */
export function addonCodec(addon: Addon): Codec {
  return {
    kind: "addon",

    crc32c(buffer, start, end) {
      checkRange(buffer, start, end);
      return addon.crc32c(buffer, start, end);
    },

    xxh3(buffer, start, end) {
      checkRange(buffer, start, end);
      return addon.xxh3(buffer, start, end);
    },

    seal(chunk, table, first, count, out, outStart, outLimit, stopAt, sequence, result) {
      checkSeal(chunk, table, first, count, out, outStart, outLimit, sequence, result);
      const written = addon.seal(chunk, table, first, count, out, outStart, outLimit, stopAt, sequence, result);
      if (written < 0) throw badRow(-1 - written);
      return written;
    },

    scan(buffer, start, end, table, maxRecords, sequence, result) {
      checkScan(buffer, start, end, table, maxRecords, sequence, result);
      return addon.scan(buffer, start, end, table, maxRecords, sequence, result);
    },

    lz4Decompress(source, start, end, target, at, length) {
      checkLz4(source, start, end, target, at, length);
      return addon.lz4Decompress(source, start, end, target, at, length);
    },
  };
}
