import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkCompressedDescriptor } from "../../src/wire/compressed.ts";
import records from "../vectors/record_vectors.json" with { type: "json" };
import { bytes } from "./support.ts";

const reasonFor = (text: string): string | undefined => {
  const payload = bytes(`aa${text}bb`);
  return checkCompressedDescriptor(payload, 1, payload.length - 1);
};

describe("compressed descriptor", () => {
  it("wire.md 22.31: gives the five reasons of section 16", () => {
    expect(reasonFor("0100000000010000")).toBe("compressed payload is shorter than the codec descriptor");
    expect(reasonFor("09000000000100000000")).toBe("unknown compression codec id 9 (poison)");
    expect(reasonFor("01000000000100800000")).toBe(
      "claimed uncompressed length 8388609 exceeds the decompressed cap 8388608",
    );
    expect(reasonFor("000000000002000000aa")).toBe("stored raw length disagrees with the descriptor");
    expect(reasonFor("010000000001000000")).toBe("compressed stream is corrupt");
    expect(reasonFor("020000000001000000")).toBe("compressed stream is corrupt");
  });

  it("judges codec before claim, and claim before stream", () => {
    expect(reasonFor("0300000000ffffffff")).toMatch(/^unknown compression codec id 3 /);
    expect(reasonFor("0000000000ffffffff")).toMatch(/^claimed uncompressed length 4294967295 /);
  });

  it("accepts what upstream stores, the largest claim, and an empty raw stream", () => {
    for (const vector of records.lz4) {
      if (vector.stored_hex !== null)
        expect([vector.name, reasonFor(vector.stored_hex)]).toEqual([vector.name, undefined]);
    }
    expect(reasonFor("01000000000000800000")).toBeUndefined();
    expect(reasonFor("02070000000000800000")).toBeUndefined();
    expect(reasonFor("000000000000000000")).toBeUndefined();
  });

  it("reads nothing outside of the payload", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 30 }), fc.uint8Array({ maxLength: 12 }), (payload, around) => {
        const padded = new Uint8Array([...around, ...payload, ...around]);
        const start = around.length;
        expect(checkCompressedDescriptor(padded, start, start + payload.length)).toBe(
          checkCompressedDescriptor(payload, 0, payload.length),
        );
      }),
    );
  });
});
