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
  SegmentFlag,
} from "../../src/log/segment.ts";
import vectors from "../vectors/record_vectors.json" with { type: "json" };
import { codec, hex, thrown, unhex } from "./fixtures.ts";

const offsets = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const u64 = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });

describe("segment header and footer", () => {
  it("storage.md 26.11: headers", () => {
    const first = encodeSegmentHeader({ segmentId: 0, baseSequence: 0, baseOffset: 0, createdUnixMs: 0 }, codec);
    expect(hex(first)).toBe(`49524f4e4255530001010000${"00".repeat(48)}ac1c10e0`);
    const second = encodeSegmentHeader(
      { segmentId: 1, baseSequence: 3, baseOffset: 3, createdUnixMs: 1700000000000 },
      codec,
    );
    expect(hex(second)).toBe(
      "49524f4e42555300010100000100000000000000030000000000000003000000000000000068e5cf8b01000000000000000000000000000000000000423d55b4",
    );
  });

  it("storage.md 26.12: footer and compaction block", () => {
    expect(hex(encodeSegmentFooter({ segmentId: 0, lastSequence: 2, recordCount: 3 }, codec))).toBe(
      "53460101000000000000000002000000000000000300000000000000465ad036",
    );
    const meta = {
      coveredBaseOffset: 0,
      coveredEndOffset: 10,
      coveredBaseSequence: 0,
      coveredEndSequence: 10,
      highestCoveredSourceId: 3,
    };
    const bytes = encodeCompactionMeta(meta, codec);
    expect(hex(bytes)).toBe("00000000000000000a0000000000000000000000000000000a000000000000000300000000000000a1239d79");
    expect(decodeCompactionMeta(bytes, codec)).toEqual(meta);
  });

  it("the published header vectors", () => {
    const vector = vectors.segment_header;
    const fields = {
      segmentId: vector.segment_id,
      baseSequence: vector.base_seq,
      baseOffset: vector.base_offset,
      createdUnixMs: BigInt(vector.created_unix_ms),
    };
    const plain = { ...fields, flags: 0, aeadSuite: 0, keyId: 0n };
    const encrypted = { ...fields, flags: SegmentFlag.Encrypted, aeadSuite: 1, keyId: 42n };
    for (const [header, bytes] of [
      [plain, vector.hex],
      [encrypted, vector.encrypted_suite_1_key_42_hex],
    ] as const) {
      expect(hex(encodeSegmentHeader(header, codec))).toBe(bytes);
      expect(decodeSegmentHeader(unhex(bytes), codec)).toEqual(header);
    }
    const compacted = decodeSegmentHeader(unhex(vectors.segment_header_compacted_hex), codec);
    expect(compacted.flags & SegmentFlag.Compacted).toBe(SegmentFlag.Compacted);
    expect(hex(encodeSegmentHeader(compacted, codec))).toBe(vectors.segment_header_compacted_hex);
  });

  it("the published footer vectors", () => {
    const vector = vectors.segment_footer;
    const fields = { segmentId: vector.segment_id, lastSequence: vector.last_seq, recordCount: vector.record_count };
    for (const [version, bytes] of [
      [1, vector.hex],
      [2, vector.version_2_hex],
    ] as const) {
      expect(hex(encodeSegmentFooter({ ...fields, version }, codec))).toBe(bytes);
      expect(decodeSegmentFooter(unhex(bytes), codec)).toEqual({ ...fields, version });
    }
  });

  it("each fault of a header has its kind", () => {
    const good = encodeSegmentHeader({ segmentId: 7, baseSequence: 1, baseOffset: 2, createdUnixMs: 3 }, codec);
    const kindOf = (at: number, value: number, fixCrc = true): string | undefined => {
      const bytes = good.slice();
      bytes[at] = value;
      if (fixCrc) new DataView(bytes.buffer).setUint32(60, codec.crc32c(bytes, 0, 60), true);
      return thrown(() => decodeSegmentHeader(bytes, codec)).kind;
    };
    expect(thrown(() => decodeSegmentHeader(good.subarray(0, 63), codec)).kind).toBe("Truncated");
    expect(kindOf(7, 1)).toBe("BadMagic");
    expect(kindOf(8, 3)).toBe("UnsupportedVersion");
    expect(kindOf(9, 2)).toBe("UnsupportedChecksum");
    expect(kindOf(20, 9, false)).toBe("BadCrc");
    expect(kindOf(8, 2)).toBe("BadVersion");
    expect(kindOf(10, 1)).toBe("BadVersion");
    expect(kindOf(18, 0x20)).toBe("OutOfRange");
  });

  it("unknown header flags are kept", () => {
    const bytes = encodeSegmentHeader(
      { segmentId: 0, baseSequence: 0, baseOffset: 0, createdUnixMs: 0, flags: 0x8000 },
      codec,
    );
    expect(decodeSegmentHeader(bytes, codec).flags).toBe(0x8000);
  });

  it("numbers outside of their field are not written", () => {
    const fields = { segmentId: 0, baseSequence: 0, baseOffset: 0, createdUnixMs: 0 };
    for (const bad of [-1, 0.5, 2 ** 53]) {
      expect(thrown(() => encodeSegmentHeader({ ...fields, baseOffset: bad }, codec))).toBeInstanceOf(RangeError);
    }
    const footer = { segmentId: 0, lastSequence: 0, recordCount: 2 ** 32 };
    expect(thrown(() => encodeSegmentFooter(footer, codec))).toBeInstanceOf(RangeError);
  });

  it("what was encoded comes back; a flip, a cut or noise is a SegmentError", () => {
    const headers = fc.record({
      flags: fc.constantFrom(0, 1, 2, 3, 0x8000),
      segmentId: offsets,
      baseSequence: offsets,
      baseOffset: offsets,
      createdUnixMs: u64,
      aeadSuite: fc.integer({ min: 0, max: 255 }),
      keyId: u64,
    });
    const footers = fc.record({
      version: fc.constantFrom(1, 2),
      segmentId: offsets,
      lastSequence: offsets,
      recordCount: fc.integer({ min: 0, max: 0xffff_ffff }),
    });
    const metas = fc.record({
      coveredBaseOffset: offsets,
      coveredEndOffset: offsets,
      coveredBaseSequence: offsets,
      coveredEndSequence: offsets,
      highestCoveredSourceId: offsets,
    });
    const check = <T>(
      values: fc.Arbitrary<T>,
      encode: (value: T) => Uint8Array,
      decode: (bytes: Uint8Array) => unknown,
    ): void => {
      fc.assert(
        fc.property(values, fc.nat(), fc.nat({ max: 7 }), fc.uint8Array({ maxLength: 80 }), (value, at, bit, noise) => {
          const bytes = encode(value);
          expect(decode(bytes)).toEqual(value);
          expect(thrown(() => decode(bytes.subarray(0, at % bytes.length)))).toBeInstanceOf(SegmentError);
          bytes[at % bytes.length] ^= 1 << bit;
          expect(thrown(() => decode(bytes))).toBeInstanceOf(SegmentError);
          expect(thrown(() => decode(noise))).toBeInstanceOf(SegmentError);
        }),
      );
    };
    check(
      headers,
      (value) => encodeSegmentHeader(value, codec),
      (bytes) => decodeSegmentHeader(bytes, codec),
    );
    check(
      footers,
      (value) => encodeSegmentFooter(value, codec),
      (bytes) => decodeSegmentFooter(bytes, codec),
    );
    check(
      metas,
      (value) => encodeCompactionMeta(value, codec),
      (bytes) => decodeCompactionMeta(bytes, codec),
    );
  });
});
