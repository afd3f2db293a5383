import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeRecord, encodeRecord, RecordError, type StoredRecord } from "../../src/log/record.ts";
import { typescriptCodec } from "../../src/runtime/native/codec-typescript.ts";
import vectors from "../vectors/record_vectors.json" with { type: "json" };
import { ascii, codec, EMPTY, frame, hex, lcg, record, thrown, unhex } from "./fixtures.ts";

interface PayloadVector {
  hex?: string;
  lcg_seed?: number;
  len?: number;
}

function payloadOf(vector: PayloadVector): Uint8Array {
  return vector.hex !== undefined ? unhex(vector.hex) : lcg(vector.lcg_seed!, vector.len!);
}

/** The frame with its header CRC made right again. */
function withHeaderCrc(bytes: Uint8Array): Uint8Array {
  const fixed = bytes.slice();
  new DataView(fixed.buffer).setUint32(32, codec.crc32c(fixed, 0, 32), true);
  return fixed;
}

describe.each([
  ["loaded codec", codec],
  ["TypeScript codec", typescriptCodec()],
])("record vectors, %s", (_name, codec) => {
  it.each(vectors.records.map((vector) => [vector.name, vector] as const))("%s", (_name, vector) => {
    const payload = payloadOf(vector.payload);
    const subject = vector.subject_hex === "" ? undefined : unhex(vector.subject_hex);
    const streamTag = vector.stream_tag_hex === "" ? undefined : unhex(vector.stream_tag_hex);
    const source = record({
      sequence: BigInt(vector.seq),
      timestampMs: BigInt(vector.timestamp_ms),
      flags: vector.flags_in,
      key: unhex(vector.key_hex),
      headers: unhex(vector.headers_hex),
      payload,
      ...(subject ? { subject } : {}),
      ...(streamTag ? { streamTag } : {}),
    });
    const bytes = encodeRecord(source, codec);
    expect(bytes.length).toBe(vector.frame_len);
    if ("frame_hex" in vector) expect(hex(bytes)).toBe(vector.frame_hex);
    if ("head_hex" in vector) {
      expect(hex(bytes).startsWith(vector.head_hex as string)).toBe(true);
      expect(hex(bytes).endsWith(vector.tail_hex as string)).toBe(true);
    }
    const decoded = decodeRecord(bytes, codec);
    expect(decoded.lengthBytes).toBe(vector.frame_len);
    // Payloads by their hex: comparing a MiB element by element takes seconds.
    expect({ ...decoded.record, payload: hex(decoded.record.payload) }).toEqual({
      ...source,
      flags: vector.flags_stored,
      payload: hex(payload),
    });
  });

  it.each(vectors.damaged.map((vector) => [vector.name, vector] as const))("damaged: %s", (_name, vector) => {
    const bytes = unhex(vector.frame_hex);
    if (vector.error === "ok") {
      expect(decodeRecord(bytes, codec).lengthBytes).toBe(bytes.length);
      return;
    }
    const error = thrown(() => decodeRecord(bytes, codec)) as RecordError;
    expect(error).toBeInstanceOf(RecordError);
    expect(error.version === undefined ? error.kind : `${error.kind}(${error.version})`).toBe(vector.error);
  });
});

describe("record frames", () => {
  it("storage.md 26.1: a payload alone", () => {
    const bytes = frame({ payload: ascii("hello") });
    expect(hex(bytes)).toBe(
      "4249010000000000000000000000000000000000000000000000000005000000e9baefea68656c6c6f4cbb719a31000000",
    );
    const { record, lengthBytes } = decodeRecord(bytes, codec);
    expect(record.payload).toEqual(ascii("hello"));
    expect(lengthBytes).toBe(49);
  });

  it("storage.md 26.2: the empty record", () => {
    expect(hex(frame({}))).toBe(
      "4249010000000000000000000000000000000000000000000000000000000000a221884c000000002c000000",
    );
  });

  it("storage.md 26.3: key, headers and payload", () => {
    const bytes = frame({
      sequence: 7n,
      timestampMs: 1700000000000n,
      key: ascii("k1"),
      headers: ascii("h"),
      payload: ascii("v"),
    });
    expect(hex(bytes)).toBe(
      "4249010207000000000000000068e5cf8b0100000200000001000000010000002c53e20d6b316876cfab94de30000000",
    );
  });

  it("storage.md 26.4: subject, stream tag, and both", () => {
    const base = { sequence: 1n, timestampMs: 5n, payload: ascii("x") };
    const subject = frame({ ...base, subject: ascii("a.b") });
    expect(hex(subject)).toBe(
      "42490108010000000000000005000000000000000000000000000000010000009830cf7e0300612e626fbd8c8578935f3ca936000000",
    );
    expect(hex(frame({ ...base, streamTag: ascii("orders") }))).toBe(
      "4249011001000000000000000500000000000000000000000000000001000000686cce9206006f7264657273a976c06178935f3ca939000000",
    );
    subject[3] |= 0x10;
    expect(thrown(() => decodeRecord(withHeaderCrc(subject), codec)).kind).toBe("BadLength");
    expect(thrown(() => frame({ subject: ascii("a"), streamTag: ascii("b") })).kind).toBe("BadLength");
    for (const length of [0, 65_536]) {
      expect(thrown(() => frame({ subject: new Uint8Array(length) })).kind).toBe("BadLength");
    }
  });

  it("storage.md 26.5: xxh3 from 65,536 bytes of body on", () => {
    const large = frame({ payload: new Uint8Array(65_536) });
    expect(large.length).toBe(65_588);
    expect(large[3]).toBe(4);
    expect(hex(large.subarray(-16))).toBe("aa5cb602d302b233a4c4c07234000100");
    const below = frame({ payload: new Uint8Array(65_535) });
    expect(below[3]).toBe(0);
    expect(below.length).toBe(65_535 + 44);
  });

  it("storage.md 26.6: every single flipped bit is found, with the error of 3.5", () => {
    const bytes = frame({
      sequence: 3n,
      timestampMs: 9n,
      key: ascii("key"),
      headers: ascii("hh"),
      payload: ascii("payload"),
      subject: ascii("a.b"),
    });
    const expected = (at: number): string[] => {
      if (at < 2) return ["BadMagic"];
      if (at === 2) return ["UnsupportedVersion"];
      if (at < 36) return ["BadHeaderCrc"];
      // A longer or shorter subject also moves what follows it: the trailer is then elsewhere, or outside.
      if (at < 38) return ["BadSubjectCrc", "BadLength", "Truncated"];
      if (at < 45) return ["BadSubjectCrc"];
      if (at < bytes.length - 4) return ["BadBodyCrc"];
      return ["BadLength"];
    };
    for (let at = 0; at < bytes.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const damaged = bytes.slice();
        damaged[at] ^= 1 << bit;
        expect(expected(at), `byte ${at} bit ${bit}`).toContain(thrown(() => decodeRecord(damaged, codec)).kind);
      }
    }
    const large = frame({ payload: lcg(1, 70_000) });
    large[large.length - 12] ^= 1;
    expect(thrown(() => decodeRecord(large, codec)).kind).toBe("BadXxh3");
  });

  it("storage.md 26.7: an unallocated flag bit is kept and not interpreted", () => {
    const bytes = frame({ payload: ascii("x") });
    bytes[3] = 0x80;
    const { record } = decodeRecord(withHeaderCrc(bytes), codec);
    expect(record.flags).toBe(0x80);
    expect(record.payload).toEqual(ascii("x"));
    expect(frame({ payload: ascii("x"), flags: 0xfe })[3]).toBe(0);
  });

  it("storage.md 26.8: lengths of 4 GiB each are too large", () => {
    const bytes = new Uint8Array(36);
    bytes.set([0x42, 0x49, 1, 2]);
    bytes.fill(0xff, 20, 32);
    const error = thrown(() => decodeRecord(withHeaderCrc(bytes), codec));
    expect(error.kind).toBe("TooLarge");
    expect(error.message).toBe("record frame exceeds the maximum size");
  });

  it("storage.md 3.5: the texts of the errors", () => {
    const bytes = frame({ payload: ascii("hello") });
    expect(thrown(() => decodeRecord(bytes.subarray(0, 20), codec)).message).toBe("record frame is truncated");
    const version = bytes.slice();
    version[2] = 9;
    expect(thrown(() => decodeRecord(version, codec)).message).toBe("unsupported record format version 9");
    const body = bytes.slice();
    body[37] ^= 1;
    expect(thrown(() => decodeRecord(body, codec)).message).toBe("record body CRC mismatch");
  });

  it("refuses numbers that are not a u64", () => {
    expect(thrown(() => frame({ sequence: -1n }))).toBeInstanceOf(RangeError);
    expect(thrown(() => frame({ timestampMs: 1n << 64n }))).toBeInstanceOf(RangeError);
  });

  const u64 = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });
  const bytesOf = (maxLength: number) => fc.uint8Array({ maxLength });
  const records: fc.Arbitrary<StoredRecord> = fc
    .record({
      sequence: u64,
      timestampMs: u64,
      flags: fc.constantFrom(0, 1),
      key: bytesOf(20),
      headers: bytesOf(20),
      payload: bytesOf(200),
      label: fc.constantFrom("none", "subject", "streamTag"),
      labelBytes: fc.uint8Array({ minLength: 1, maxLength: 30 }),
    })
    .map(({ label, labelBytes, ...rest }) => (label === "none" ? rest : { ...rest, [label]: labelBytes }));

  it("gives back what was encoded, also from the middle of a buffer", () => {
    fc.assert(
      fc.property(records, bytesOf(9), bytesOf(9), (source, before, after) => {
        const bytes = encodeRecord(source, codec);
        const buffer = new Uint8Array([...before, ...bytes, ...after]);
        const { record, lengthBytes } = decodeRecord(buffer, codec, before.length);
        expect(lengthBytes).toBe(bytes.length);
        expect({ ...record, flags: record.flags & 1 }).toEqual(source);
      }),
    );
  });

  it("truncated, flipped or random bytes are a RecordError", () => {
    fc.assert(
      fc.property(records, fc.nat(), fc.nat({ max: 7 }), (source, at, bit) => {
        const bytes = encodeRecord(source, codec);
        expect(thrown(() => decodeRecord(bytes.subarray(0, at % bytes.length), codec)).kind).toBe("Truncated");
        const damaged = bytes.slice();
        damaged[at % bytes.length] ^= 1 << bit;
        expect(thrown(() => decodeRecord(damaged, codec))).toBeInstanceOf(RecordError);
      }),
    );
    fc.assert(
      fc.property(bytesOf(100), fc.boolean(), (random, plausible) => {
        const bytes = random.slice();
        if (plausible) bytes.set([0x42, 0x49, 1].slice(0, bytes.length));
        const fixed = bytes.length >= 36 ? withHeaderCrc(bytes) : bytes;
        // 32 random CRC bits do not come out right in a thousand tries.
        expect(thrown(() => decodeRecord(fixed, codec))).toBeInstanceOf(RecordError);
      }),
      { numRuns: 1000 },
    );
    expect(thrown(() => decodeRecord(EMPTY, codec)).kind).toBe("Truncated");
  });
});
