import type { Codec } from "../codec.ts";
import type { Addon } from "./addon.ts";
import { badRow, checkExpand, checkLz4, checkRange, checkScan, checkSeal } from "./codec-arguments.ts";

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

    seal(chunk, table, first, count, out, outStart, outLimit, stopAt, sequence, result, compression) {
      checkSeal(chunk, table, first, count, out, outStart, outLimit, sequence, result, compression);
      const written = addon.seal(
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
      if (written < 0) throw badRow(-1 - written);
      return written;
    },

    expand(buffer, table, first, count, out, spots) {
      checkExpand(buffer, table, first, count, out, spots);
      const stopped = addon.expand(buffer, table, first, count, out, spots);
      if (stopped < 0) throw badRow(-1 - stopped);
      return stopped;
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
