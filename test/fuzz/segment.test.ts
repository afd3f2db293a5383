import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decodeCompactionMeta,
  decodeSegmentFooter,
  decodeSegmentHeader,
  encodeCompactionMeta,
  encodeSegmentFooter,
  encodeSegmentHeader,
  SegmentError,
} from "../../src/log/segment.ts";
import { codec, hex } from "../log/fixtures.ts";
import { bounded, fuzz, hostile, outcome } from "./fuzzing.ts";

const KIB = 1024;
const number = fc.maxSafeNat();

const headerFields = fc.record({
  flags: fc.constantFrom(0, 1, 2, 3),
  segmentId: number,
  baseSequence: number,
  baseOffset: number,
  createdUnixMs: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  aeadSuite: fc.nat(255),
  keyId: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
});
const footerFields = fc.record({
  version: fc.constantFrom(1, 2),
  segmentId: number,
  lastSequence: number,
  recordCount: fc.nat(0xffff_ffff),
});

const compactionFields = fc.record({
  coveredBaseOffset: number,
  coveredEndOffset: number,
  coveredBaseSequence: number,
  coveredEndSequence: number,
  highestCoveredSourceId: number,
});

/** Puts the checksum over the first `covered` bytes right. */
const signed = (covered: number) => (bytes: Uint8Array) => {
  if (bytes.length < covered + 4) return;
  new DataView(bytes.buffer, bytes.byteOffset).setUint32(covered, codec.crc32c(bytes, 0, covered), true);
};

describe("segment headers and footers", () => {
  it("round trip", () => {
    fuzz(headerFields, (fields) =>
      expect(decodeSegmentHeader(encodeSegmentHeader(fields, codec), codec)).toEqual(fields),
    );
    fuzz(footerFields, (fields) =>
      expect(decodeSegmentFooter(encodeSegmentFooter(fields, codec), codec)).toEqual(fields),
    );
    fuzz(compactionFields, (fields) =>
      expect(decodeCompactionMeta(encodeCompactionMeta(fields, codec), codec)).toEqual(fields),
    );
  });

  it("anything else is a SegmentError, or a header that says what its bytes say", () => {
    const valid = headerFields.map((fields) => encodeSegmentHeader(fields, codec));
    fuzz(hostile(valid, signed(60)), (bytes) => {
      const { value } = bounded(64 * KIB, () => outcome(SegmentError, () => decodeSegmentHeader(bytes, codec)));
      if (value === undefined) return;
      const again = encodeSegmentHeader(value, codec);
      // Reserved bytes are not kept.
      expect(hex(again.subarray(0, 53))).toBe(hex(bytes.subarray(0, 53)));
    });
  });

  it("anything else is a SegmentError, or a footer that says what its bytes say", () => {
    const valid = footerFields.map((fields) => encodeSegmentFooter(fields, codec));
    fuzz(hostile(valid, signed(28)), (bytes) => {
      const { value } = bounded(64 * KIB, () => outcome(SegmentError, () => decodeSegmentFooter(bytes, codec)));
      if (value === undefined) return;
      expect(hex(encodeSegmentFooter(value, codec).subarray(0, 24))).toBe(hex(bytes.subarray(0, 24)));
    });
  });

  it("anything else is a SegmentError, or a compaction block that says what its bytes say", () => {
    const valid = compactionFields.map((fields) => encodeCompactionMeta(fields, codec));
    fuzz(hostile(valid, signed(40)), (bytes) => {
      const { value } = bounded(64 * KIB, () => outcome(SegmentError, () => decodeCompactionMeta(bytes, codec)));
      if (value === undefined) return;
      expect(hex(encodeCompactionMeta(value, codec))).toBe(hex(bytes.subarray(0, 44)));
    });
  });
});
