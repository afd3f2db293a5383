import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Codec, Compression, FIELD_PAYLOAD, FIELD_PAYLOAD_LENGTH, FIELDS } from "../../src/runtime/codec.ts";
import reference from "../vectors/lz4_reference.json" with { type: "json" };
import { bytesOf, chunkOf, codecs, hex, lcg, type TableRecord, vectors } from "./codec-fixtures.ts";

const EIGHT_MIB = 8 * 1024 * 1024;
const lz4 = Compression.Lz4;

interface Sealed {
  readonly out: Uint8Array;
  readonly end: number;
  readonly written: number;
  readonly rows: Int32Array;
}

/** Seals the records compressed, and checks what was written as a reader does. */
function seal(codec: Codec, records: readonly TableRecord[], outLimit?: number, stopAt = Infinity): Sealed {
  const { chunk, table } = chunkOf(records, 3);
  const out = new Uint8Array(outLimit ?? chunk.length + 60 * records.length);
  const result = new Float64Array(4);
  const written = codec.seal(chunk, table, 0, records.length, out, 0, out.length, stopAt, 7, result, lz4);
  const end = result[0];
  const rows = new Int32Array(records.length * FIELDS);
  expect(codec.scan(out, 0, end, rows, records.length, 7, result)).toBe(written);
  expect([result[0], result[1]]).toEqual([end, 0]);
  return { out, end, written, rows };
}

function storedPayload({ out, rows }: Sealed, index = 0): { readonly flags: number; readonly bytes: Uint8Array } {
  const row = index * FIELDS;
  const start = rows[row + FIELD_PAYLOAD];
  return { flags: rows[row], bytes: out.slice(start, start + rows[row + FIELD_PAYLOAD_LENGTH]) };
}

/** What the first payload is stored as. */
function stored(codec: Codec, payload: Uint8Array, flags = 0) {
  return storedPayload(seal(codec, [{ flags, timestampMs: 1n, payload }]));
}

/** All payloads of the run in plain form; those that are not compressed as they are. */
function plain(codec: Codec, sealed: Sealed): string[] {
  const { out, rows, written } = sealed;
  const room = new Uint8Array(2 * EIGHT_MIB);
  const spots = new Int32Array(2 * written);
  expect(codec.expand(out, rows, 0, written, room, spots)).toBe(written);
  return Array.from({ length: written }, (_, i) => {
    const at = spots[2 * i];
    return hex(at < 0 ? storedPayload(sealed, i).bytes : room.subarray(at, at + spots[2 * i + 1]));
  });
}

const payload = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc.array(fc.constantFrom(0, 0, 0, 65, 66), { maxLength: 400 }).map((list) => Uint8Array.from(list)),
  // Pieces that come again, near and far.
  fc
    .tuple(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 30 }), { minLength: 1, maxLength: 5 }),
      fc.array(fc.nat(4), { maxLength: 60 }),
    )
    .map(([pieces, order]) => new Uint8Array(Buffer.concat(order.map((at) => pieces[at % pieces.length])))),
  fc.tuple(fc.integer({ min: 65_000, max: 140_000 }), fc.nat(9)).map(([length, seed]) => {
    const bytes = new Uint8Array(length);
    bytes.set(lcg(seed, 500));
    bytes.set(lcg(seed, 500), length - 520);
    return bytes;
  }),
);
const record: fc.Arbitrary<TableRecord> = fc.record({
  flags: fc.constantFrom(0, 0, 0, 0, 1),
  timestampMs: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  key: fc.uint8Array({ maxLength: 20 }),
  headers: fc.uint8Array({ maxLength: 20 }),
  payload,
});

describe.each(codecs)("compression: $name", ({ codec }) => {
  it("storage.md 26.9: 63 equal bytes are stored raw, 64 compressed, 4 KiB of noise raw", () => {
    const short = new Uint8Array(63).fill(97);
    expect(stored(codec, short)).toEqual({ flags: 0, bytes: short });
    const { flags, bytes } = stored(codec, new Uint8Array(64).fill(97));
    expect(flags).toBe(1);
    expect([bytes[0], ...new Uint32Array(bytes.slice(1, 9).buffer)]).toEqual([1, 0, 64]);
    expect(bytes.length).toBeLessThan(64);
    const noise = lcg(11, 4096);
    expect(stored(codec, noise)).toEqual({ flags: 0, bytes: noise });
  });

  it.each(vectors.lz4.map((vector) => [vector.name, vector] as const))("the bytes of vector %s", (name, vector) => {
    if (vector.stored_hex === null) {
      const bytes = name.startsWith("zeros") ? new Uint8Array(63) : lcg(3, 256);
      expect(stored(codec, bytes)).toEqual({ flags: 0, bytes });
      return;
    }
    const expected = bytesOf(vector.stored_hex);
    const original = new Uint8Array(vector.payload_len);
    expect(codec.lz4Decompress(expected, 9, expected.length, original, 0, original.length)).toBe(true);
    expect(stored(codec, original)).toEqual({ flags: 1, bytes: expected });
  });

  it("storage.md 4: what is compressed already is stored as it came", () => {
    const bytes = new Uint8Array(100);
    expect(stored(codec, bytes, 1)).toEqual({ flags: 1, bytes });
  });

  it("storage.md 4: a payload of 8 MiB is compressed, one byte more is stored raw", () => {
    expect(stored(codec, new Uint8Array(EIGHT_MIB)).flags).toBe(1);
    const more = stored(codec, new Uint8Array(EIGHT_MIB + 1));
    expect([more.flags & 1, more.bytes.length]).toEqual([0, EIGHT_MIB + 1]);
  });

  it("storage.md 4: the compressed form is kept only when it is strictly shorter", () => {
    let kept = 0;
    for (let noise = 40; noise <= 120; noise++) {
      const bytes = Uint8Array.from([...lcg(noise, noise), ...new Uint8Array(24)]);
      const found = stored(codec, bytes);
      if ((found.flags & 1) === 0) {
        expect(found.bytes).toEqual(bytes);
      } else {
        expect(found.bytes.length).toBeLessThan(bytes.length);
        kept++;
      }
    }
    expect(kept).toBeGreaterThan(0);
  });

  it("the body that counts for checksums and xxh3 is the stored one", () => {
    expect(stored(codec, new Uint8Array(70_000)).flags).toBe(1);
    const long = new Uint8Array(200_000);
    long.set(lcg(5, 100_000));
    expect(stored(codec, long).flags).toBe(1 | 4);
  });

  it("a record has room only if it would have it uncompressed; then not a byte of it is written", () => {
    const records = [{ timestampMs: 1n, payload: new Uint8Array(500) }];
    expect(seal(codec, records, 44 + 500).written).toBe(1);
    const { written, end, out } = seal(codec, records, 44 + 499);
    expect([written, end, out.every((byte) => byte === 0)]).toEqual([0, 0, true]);
    const two = [...records, ...records];
    expect(seal(codec, two, undefined, seal(codec, records).end).written).toBe(1);
    expect(seal(codec, two, undefined, seal(codec, records).end + 1).written).toBe(2);
  });

  it("what looks like noise at its start is searched all the same", () => {
    const noise = lcg(7, 96);
    const again = stored(codec, Uint8Array.from([...noise, ...noise, ...noise]));
    expect([again.flags, again.bytes.length < 96 + 30]).toEqual([1, true]);
    const text = new Uint8Array(Buffer.from("temperature=21.5;humidity=40;".repeat(30)));
    const framed = stored(codec, Uint8Array.from([...noise, ...text]));
    expect([framed.flags, framed.bytes.length < 96 + 80]).toEqual([1, true]);
  });

  it("what was compressed before leaves no trace", () => {
    const bytes = new Uint8Array(Buffer.from("temperature=21.5;humidity=40;".repeat(11)));
    const first = hex(stored(codec, bytes).bytes);
    const long = new Uint8Array(Buffer.from("humidity=40;temperature=21.5;".repeat(7000)));
    for (const between of [long, bytes.slice(1), bytes.slice(0, 70), lcg(8, 9000)]) {
      stored(codec, between);
      expect(hex(stored(codec, bytes).bytes)).toBe(first);
    }
  });

  it("any payloads come back", () => {
    let compressed = 0;
    fc.assert(
      fc.property(fc.array(record, { minLength: 1, maxLength: 6 }), (drawn) => {
        const records = drawn.map((each) => ({ ...each, flags: 0 }));
        const sealed = seal(codec, records);
        expect(plain(codec, sealed)).toEqual(records.map((each) => hex(each.payload!)));
        for (let i = 0; i < sealed.written; i++) if (sealed.rows[i * FIELDS] & 1) compressed++;
      }),
      { numRuns: 150 },
    );
    expect(compressed).toBeGreaterThan(50);
  });

  it.each(reference.blocks.map((block) => [block.name, block] as const))(
    "a block of the reference implementation decodes: %s",
    (_name, block) => {
      const source = bytesOf(block.block_hex);
      const target = new Uint8Array(block.payload_len);
      expect(codec.lz4Decompress(source, 0, source.length, target, 0, target.length)).toBe(true);
      expect(codec.crc32c(target, 0, target.length)).toBe(Number.parseInt(block.payload_crc32c, 16));
    },
  );
});

/** Rows of payloads that lie one behind the other. */
function rowsOf(payloads: readonly Uint8Array[], flags = 1): { buffer: Uint8Array; table: Int32Array } {
  const table = new Int32Array(payloads.length * FIELDS);
  let at = 0;
  for (const [i, each] of payloads.entries()) {
    table[i * FIELDS] = flags;
    table[i * FIELDS + FIELD_PAYLOAD] = at;
    table[i * FIELDS + FIELD_PAYLOAD_LENGTH] = each.length;
    at += each.length;
  }
  return { buffer: new Uint8Array(Buffer.concat(payloads)), table };
}

function described(codecId: number, dictionary: number, claim: number, stream: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(9 + stream.length);
  const view = new DataView(bytes.buffer);
  bytes[0] = codecId;
  view.setUint32(1, dictionary, true);
  view.setUint32(5, claim, true);
  bytes.set(stream, 9);
  return bytes;
}

const abc = new Uint8Array([97, 98, 99]);
const abcBlock = bytesOf("30616263");

describe.each(codecs)("expand: $name", ({ codec }) => {
  const expand = (payloads: readonly Uint8Array[], room: number) => {
    const { buffer, table } = rowsOf(payloads);
    const out = new Uint8Array(room);
    const spots = new Int32Array(2 * payloads.length).fill(-7);
    return { next: codec.expand(buffer, table, 0, payloads.length, out, spots), out, spots: [...spots] };
  };

  it("decodes LZ4 and takes codec none as it is, one behind the other", () => {
    const { next, out, spots } = expand([described(1, 0, 3, abcBlock), described(0, 0, 3, abc)], 6);
    expect([next, spots, hex(out)]).toEqual([2, [0, 3, 3, 3], "616263616263"]);
  });

  it("storage.md 26.10: what cannot be decoded here has no place, and those behind it do", () => {
    const good = described(1, 0, 3, abcBlock);
    const bad = [
      described(1, 0, EIGHT_MIB + 1, abcBlock),
      described(2, 0, 3, abcBlock),
      described(9, 0, 3, abcBlock),
      described(1, 9, 3, abcBlock),
      described(1, 0, 3, abc),
      described(1, 0, 2, abcBlock),
      described(1, 0, 4, abcBlock),
      described(0, 0, 4, abc),
      new Uint8Array(8),
      new Uint8Array(0),
    ];
    const { next, spots } = expand([...bad, good], 100);
    expect(next).toBe(bad.length + 1);
    expect(spots.slice(0, -2)).toEqual(bad.flatMap(() => [-1, 0]));
    expect(spots[spots.length - 1]).toBe(3);
  });

  it("storage.md 26.10: a claim of 4 GiB costs nothing", () => {
    const { next, spots } = expand([described(1, 0, 0xffff_ffff, abcBlock)], 0);
    expect([next, spots]).toEqual([1, [-1, 0]]);
  });

  it("stops at the first that has no room; a damaged one uses up what it claims", () => {
    const good = described(1, 0, 3, abcBlock);
    const { next, spots } = expand([good, good, good], 7);
    expect([next, spots.slice(0, 4)]).toEqual([2, [0, 3, 3, 3]]);
    expect(expand([described(1, 0, 5, abcBlock), good], 7).next).toBe(1);
    expect(expand([good], 2).next).toBe(0);
  });

  it("starts at `first`, and leaves what is not flagged alone", () => {
    const { buffer, table } = rowsOf([described(1, 0, 3, abcBlock), described(0, 0, 3, abc), abc]);
    table[2 * FIELDS] = 0;
    const spots = new Int32Array(4);
    expect(codec.expand(buffer, table, 1, 3, new Uint8Array(3), spots)).toBe(3);
    expect([...spots]).toEqual([0, 3, -1, 0]);
  });

  it("a row that does not fit the buffer is a RangeError that names it", () => {
    for (const [field, value] of [
      [FIELD_PAYLOAD, -1],
      [FIELD_PAYLOAD, 13],
      [FIELD_PAYLOAD_LENGTH, 100],
      [FIELD_PAYLOAD_LENGTH, -1],
    ]) {
      const { buffer, table } = rowsOf([described(1, 0, 3, abcBlock), abc]);
      table[FIELDS + field] = value;
      if (field === FIELD_PAYLOAD && value === 13) table[FIELDS + FIELD_PAYLOAD_LENGTH] = 4;
      expect(() => codec.expand(buffer, table, 0, 2, new Uint8Array(9), new Int32Array(4))).toThrow(
        new RangeError("row 1 of the table does not fit the chunk or the limits of a record"),
      );
    }
  });

  it("arguments that do not fit are RangeErrors", () => {
    const { buffer, table } = rowsOf([abc, abc]);
    const memory = new ArrayBuffer(1000);
    const shared = new Uint8Array(memory);
    for (const call of [
      () => codec.expand(buffer, table, 0, 3, new Uint8Array(9), new Int32Array(9)),
      () => codec.expand(buffer, table, 2, 1, new Uint8Array(9), new Int32Array(9)),
      () => codec.expand(buffer, table, 0.5, 1, new Uint8Array(9), new Int32Array(9)),
      () => codec.expand(buffer, table, 0, 2, new Uint8Array(9), new Int32Array(3)),
      () => codec.expand(shared, table, 0, 2, shared.subarray(100), new Int32Array(4)),
      () => codec.expand(buffer, table, 0, 2, shared, new Int32Array(memory)),
      () => codec.seal(abc, table, 0, 0, new Uint8Array(9), 0, 9, 9, 0, new Float64Array(1), 2 as Compression),
    ]) {
      expect(call).toThrow(RangeError);
    }
  });
});

describe.skipIf(codecs.length < 3)(
  "compression of the addon and its twin (skipped only where no addon was built)",
  () => {
    const [native, twin] = [codecs[0].codec, codecs[codecs.length - 1].codec];

    it("seal gives the same bytes and stops at the same record", () => {
      fc.assert(
        fc.property(
          fc.array(record, { maxLength: 6 }),
          fc.double({ min: 0, max: 1.2, noNaN: true }),
          fc.double({ min: 0, max: 1.2, noNaN: true }),
          (records, limit, stop) => {
            const size = records.reduce(
              (sum, { key, headers, payload }) => sum + 52 + key!.length + headers!.length + payload!.length,
              0,
            );
            const [a, b] = [native, twin].map((codec) => {
              const { out, end, written } = seal(codec, records, Math.floor(size * limit), size * stop);
              return [written, end, Buffer.from(out.subarray(0, end)).toString("base64")];
            });
            expect(b).toEqual(a);
          },
        ),
        { numRuns: 300 },
      );
    });

    it("expand answers random and damaged payloads alike", () => {
      const repetitive = fc
        .tuple(fc.uint8Array({ minLength: 1, maxLength: 30 }), fc.uint8Array({ maxLength: 30 }), fc.nat(3))
        .map(([a, b, times]) => new Uint8Array(Buffer.concat([a, b, ...new Array(70 + times).fill(a), b])));
      const block = fc
        .tuple(repetitive, fc.array(fc.tuple(fc.nat(60), fc.nat(7)), { maxLength: 1 }), fc.nat(2))
        .map(([bytes, flips, cut]) => {
          const found = stored(twin, bytes);
          const damaged = found.bytes.slice(0, found.bytes.length - (cut === 2 ? 1 : 0));
          for (const [at, bit] of flips) if (at < damaged.length) damaged[at] ^= 1 << bit;
          return damaged;
        });
      const anything = fc.oneof(
        fc.uint8Array({ maxLength: 40 }),
        fc
          .tuple(fc.nat(3), fc.constantFrom(0, 0, 0, 7), fc.nat(90), fc.uint8Array({ maxLength: 40 }))
          .map(([codecId, dictionary, claim, stream]) => described(codecId, dictionary, claim, stream)),
        block,
      );
      let decoded = 0;
      fc.assert(
        fc.property(fc.array(anything, { maxLength: 6 }), fc.nat(6000), (payloads, room) => {
          const { buffer, table } = rowsOf(payloads);
          const [a, b] = [native, twin].map((codec) => {
            const out = new Uint8Array(room);
            const spots = new Int32Array(2 * payloads.length);
            const next = codec.expand(buffer, table, 0, payloads.length, out, spots);
            const texts = Array.from({ length: next }, (_, i) =>
              spots[2 * i] < 0 ? "none" : hex(out.subarray(spots[2 * i], spots[2 * i] + spots[2 * i + 1])),
            );
            return { next, spots: [...spots.subarray(0, 2 * next)], texts };
          });
          expect(b).toEqual(a);
          decoded += a.texts.filter((text) => text !== "none").length;
        }),
        { numRuns: 1500 },
      );
      expect(decoded).toBeGreaterThan(300);
    });
  },
);
