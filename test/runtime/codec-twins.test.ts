import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Codec, FIELDS } from "../../src/runtime/codec.ts";
import { loadAddon } from "../../src/runtime/native/addon.ts";
import { addonCodec } from "../../src/runtime/native/codec-addon.ts";
import { typescriptCodec } from "../../src/runtime/native/codec-typescript.ts";
import { xxh3 } from "../../src/runtime/native/xxh3-typescript.ts";
import { bytesOf, chunkOf, codecs, lcg, type TableRecord, vectors } from "./codec-fixtures.ts";

const twin = typescriptCodec(xxh3);
const { addon } = loadAddon();

/** What a call gave: its value, or the words of its error. */
function outcome<T>(call: () => T): T | string {
  try {
    return call();
  } catch (error) {
    expect(error).toBeInstanceOf(RangeError);
    return (error as RangeError).message;
  }
}

const record: fc.Arbitrary<TableRecord> = fc.record({
  flags: fc.integer({ min: 0, max: 255 }),
  timestampMs: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  key: fc.uint8Array({ maxLength: 20 }),
  headers: fc.uint8Array({ maxLength: 20 }),
  payload: fc.oneof(
    { weight: 20, arbitrary: fc.uint8Array({ maxLength: 200 }) },
    { weight: 4, arbitrary: fc.integer({ min: 700, max: 3000 }).map((length) => lcg(length, length)) },
    { weight: 1, arbitrary: fc.integer({ min: 65_500, max: 65_600 }).map((length) => lcg(length, length)) },
  ),
});

/** Frames with damage: cuts, flipped bits, header CRCs that are right all the same. */
const damagedFrames = fc
  .tuple(
    fc.array(record, { minLength: 1, maxLength: 3 }),
    fc.array(fc.tuple(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), fc.nat(7)), { maxLength: 4 }),
    fc.array(fc.constantFrom(3, 20, 21, 23, 24, 27, 28, 30, 31, 36, 37), { maxLength: 2 }),
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.boolean(),
  )
  .map(([records, flips, headerFlips, kept, fixed]) => {
    const { chunk, table } = chunkOf(records);
    const out = new Uint8Array(chunk.length + 60 * records.length);
    const result = new Float64Array(1);
    twin.seal(chunk, table, 0, records.length, out, 0, out.length, out.length, 1, result, 0);
    const bytes = out.slice(0, fixed ? result[0] : Math.ceil(result[0] * kept));
    for (const [where, bit] of flips) if (bytes.length > 0) bytes[Math.floor(where * bytes.length)] ^= 1 << bit;
    for (const at of headerFlips) if (at < bytes.length) bytes[at] ^= 1 << (at & 7);
    if (fixed) new DataView(bytes.buffer).setUint32(32, twin.crc32c(bytes, 0, 32), true);
    return bytes;
  });

describe.skipIf(addon === undefined)("the addon and its twin (skipped only where no addon was built)", () => {
  const codec = addon === undefined ? twin : addonCodec(addon);
  const pair: [Codec, Codec] = [codec, twin];

  it("checksums of any piece agree", () => {
    const data = lcg(99, 300_000);
    const lengths = fc.oneof(fc.integer({ min: 0, max: 1100 }), fc.integer({ min: 0, max: 200_000 }));
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 64 }), lengths, (start, length) => {
        const [a, b] = pair.map((each) => [
          each.crc32c(data, start, start + length),
          each.xxh3(data, start, start + length),
        ]);
        expect(b).toEqual(a);
      }),
      { numRuns: 400 },
    );
  });

  it("checksums agree at each length up to 1100", () => {
    const data = lcg(7, 1200);
    for (let length = 0; length <= 1100; length++) {
      expect(twin.crc32c(data, 5, 5 + length)).toBe(codec.crc32c(data, 5, 5 + length));
      expect(twin.xxh3(data, 5, 5 + length)).toBe(codec.xxh3(data, 5, 5 + length));
    }
  });

  it("seal gives the same bytes and stops at the same record; scan reads them back", () => {
    fc.assert(
      fc.property(
        fc.array(record, { maxLength: 8 }),
        fc.nat(9),
        fc.nat(100),
        fc.double({ min: 0, max: 1.2, noNaN: true }),
        fc.double({ min: 0, max: 1.2, noNaN: true }),
        fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER - 8 }),
        (records, gap, outStart, limit, stop, sequence) => {
          const { chunk, table } = chunkOf(records, gap);
          const size = outStart + chunk.length + 60 * records.length;
          const outLimit = Math.max(outStart, Math.min(size, Math.floor(size * limit)));
          const [a, b] = pair.map((each) => {
            const out = new Uint8Array(size).fill(0xdd);
            const result = new Float64Array(4).fill(-5);
            const written = each.seal(
              chunk,
              table,
              0,
              records.length,
              out,
              outStart,
              outLimit,
              size * stop,
              sequence,
              result,
              0,
            );
            const rows = new Int32Array(records.length * FIELDS);
            const scanned = new Float64Array(4);
            const found = each.scan(out, outStart, result[0], rows, records.length, sequence, scanned);
            expect(found).toBe(written);
            expect(scanned[0]).toBe(result[0]);
            const untouched = Buffer.alloc(size, 0xdd);
            expect(untouched.compare(out, 0, outStart, 0, outStart)).toBe(0);
            expect(untouched.compare(out, result[0], size, result[0], size)).toBe(0);
            return { out: Buffer.from(out), result, written, rows, scanned };
          });
          expect(b.out.equals(a.out)).toBe(true);
          expect([b.written, b.result, b.rows, b.scanned]).toEqual([a.written, a.result, a.rows, a.scanned]);
          for (let i = 0; i < a.written; i++) {
            const part = (field: number) => {
              const at = a.rows[i * FIELDS + field];
              return Buffer.from(a.out.subarray(at, at + a.rows[i * FIELDS + field + 1]));
            };
            expect(part(2).equals(records[i].key!)).toBe(true);
            expect(part(4).equals(records[i].headers!)).toBe(true);
            expect(part(6).equals(records[i].payload!)).toBe(true);
            expect(a.out.readBigUInt64LE(a.rows[i * FIELDS + 1])).toBe(records[i].timestampMs);
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it("seal answers random rows alike: the same bytes or the same RangeError", () => {
    const position = fc.oneof(fc.integer({ min: -3, max: 420 }), fc.integer());
    const length = fc.oneof(fc.integer({ min: 0, max: 60 }), fc.integer({ min: -2, max: 70_000 }), fc.integer());
    const row = fc.tuple(fc.integer(), position, position, length, position, length, position, length);
    const chunk = lcg(3, 400);
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 4 }), (rows) => {
        const table = Int32Array.from(rows.flat());
        const [a, b] = pair.map((each) => {
          const out = new Uint8Array(2000);
          const result = new Float64Array(1);
          const written = outcome(() => each.seal(chunk, table, 0, rows.length, out, 0, 2000, 2000, 0, result, 0));
          return { written, result, out: typeof written === "number" ? Buffer.from(out).toString("hex") : "" };
        });
        expect(b).toEqual(a);
      }),
      { numRuns: 2000 },
    );
  });

  it("scan stops at the same place for the same reason", () => {
    const stops = new Set<number>();
    fc.assert(
      fc.property(damagedFrames, fc.constantFrom(-1, 1, 2), fc.nat(3), (bytes, sequence, start) => {
        const from = Math.min(start === 3 ? 1 : 0, bytes.length);
        const [a, b] = pair.map((each) => {
          const table = new Int32Array(5 * FIELDS);
          const result = new Float64Array(4).fill(-9);
          return [each.scan(bytes, from, bytes.length, table, 5, sequence, result), [...result], [...table]];
        });
        expect(b).toEqual(a);
        stops.add((a[1] as number[])[1]);
      }),
      { numRuns: 1000 },
    );
    // The generator reaches most of the reasons, or the property says little.
    expect(stops.size).toBeGreaterThanOrEqual(6);
  });

  it("scan answers flips in vectors with subject and stream tag alike", () => {
    const frames = vectors.records.filter(({ frame_hex }) => frame_hex !== undefined).map((v) => bytesOf(v.frame_hex!));
    fc.assert(
      fc.property(
        fc.constantFrom(...frames),
        fc.array(fc.tuple(fc.nat(80), fc.nat(7)), { maxLength: 3 }),
        fc.nat(80),
        (frame, flips, cut) => {
          const bytes = frame.slice(0, Math.max(1, frame.length - Math.max(0, cut - 60)));
          for (const [at, bit] of flips) if (at < bytes.length) bytes[at] ^= 1 << bit;
          if (bytes.length >= 36) new DataView(bytes.buffer).setUint32(32, twin.crc32c(bytes, 0, 32), true);
          const [a, b] = pair.map((each) => {
            const table = new Int32Array(FIELDS);
            const result = new Float64Array(4);
            return [each.scan(bytes, 0, bytes.length, table, 1, -1, result), [...result], [...table]];
          });
          expect(b).toEqual(a);
        },
      ),
      { numRuns: 3000 },
    );
  });

  it("arguments out of range get the same RangeError", () => {
    const bad = fc.constantFrom(-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 32, 2 ** 53, 101, 64, 3, 0);
    const chunk = lcg(1, 100);
    fc.assert(
      fc.property(fc.array(bad, { minLength: 5, maxLength: 5 }), fc.nat(4), (values, entries) => {
        const [v, w, x, y, z] = values;
        const calls = pair.map((each) => {
          const out = new Uint8Array(100);
          const table = new Int32Array(24);
          const result = new Float64Array(entries);
          return [
            outcome(() => each.crc32c(chunk, v, w)),
            outcome(() => each.xxh3(chunk, v, w)),
            outcome(() => each.seal(chunk, table, v, w, out, x, y, 100, z, result, 0)),
            outcome(() => each.scan(chunk, v, w, table, x, y, result)),
            outcome(() => each.lz4Decompress(chunk, v, w, out, x, y)),
          ];
        });
        expect(calls[1]).toEqual(calls[0]);
      }),
      { numRuns: 2000 },
    );
  });

  it("overlapping arrays get the same RangeError", () => {
    const memory = new ArrayBuffer(4096);
    const bytes = new Uint8Array(memory, 0, 1000);
    const [a, b] = pair.map((each) => [
      outcome(() =>
        each.seal(bytes, new Int32Array(8), 0, 1, new Uint8Array(memory, 999), 0, 9, 9, 0, new Float64Array(1), 0),
      ),
      outcome(() =>
        each.seal(bytes, new Int32Array(8), 0, 1, new Uint8Array(9), 0, 9, 9, 0, new Float64Array(memory), 0),
      ),
      outcome(() => each.scan(bytes, 0, 0, new Int32Array(memory), 1, -1, new Float64Array(4))),
      outcome(() => each.scan(bytes, 0, 0, new Int32Array(8), 1, -1, new Float64Array(memory, 8, 4))),
      outcome(() => each.lz4Decompress(bytes, 0, 10, new Uint8Array(memory, 500), 0, 10)),
      outcome(() => each.lz4Decompress(bytes, 0, 10, new Uint8Array(memory, 1000), 0, 10)),
    ]);
    expect(b).toEqual(a);
    expect(a.slice(0, 5).every((value) => String(value).includes("overlap"))).toBe(true);
    expect(a[5]).toBe(false);
  });

  it("LZ4 blocks, random and damaged, decode alike", () => {
    const stored = vectors.lz4
      .filter(({ stored_hex }) => stored_hex !== null)
      .map((v) => bytesOf(v.stored_hex!).slice(9));
    const block = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc
        .array(fc.constantFrom(0, 1, 2, 0x10, 0x1f, 0xf0, 0xff), { maxLength: 30 })
        .map((list) => Uint8Array.from(list)),
      fc
        .tuple(fc.constantFrom(...stored), fc.array(fc.tuple(fc.nat(60), fc.nat(7)), { maxLength: 2 }))
        .map(([b, flips]) => {
          const copy = b.slice();
          for (const [at, bit] of flips) if (at < copy.length) copy[at] ^= 1 << bit;
          return copy;
        }),
    );
    const length = fc.oneof(fc.nat(80), fc.constantFrom(64, 319, 100_000));
    let decoded = 0;
    fc.assert(
      fc.property(block, length, (source, length) => {
        const [a, b] = pair.map((each) => {
          const target = new Uint8Array(length + 40).fill(0x55);
          const intact = each.lz4Decompress(source, 0, source.length, target, 20, length);
          expect(target.subarray(0, 20).every((byte) => byte === 0x55)).toBe(true);
          expect(target.subarray(20 + length).every((byte) => byte === 0x55)).toBe(true);
          return { intact, bytes: intact ? Buffer.from(target).toString("hex") : "" };
        });
        expect(b).toEqual(a);
        if (a.intact) decoded++;
      }),
      { numRuns: 4000 },
    );
    expect(decoded).toBeGreaterThan(20);
  });
});

describe.each(codecs)("refusals: $name", ({ codec }) => {
  it.each([
    ["timestamp before the chunk", 1, -1],
    ["timestamp cut by the chunk's end", 1, 93],
    ["key past the end", 2, 98],
    ["negative key length", 3, -1],
    ["key length above 65,535", 3, 65_536],
    ["headers before the chunk", 4, -5],
    ["negative payload length", 7, -2147483648],
    ["payload length of 2^30", 7, 2 ** 30],
    ["position and length that would wrap", 6, 2147483647],
  ])("a row with a %s is a RangeError that names the row", (_name, field, value) => {
    const chunk = lcg(1, 100);
    const good = [0, 0, 8, 3, 11, 3, 14, 3];
    const table = Int32Array.from([...good, ...good]);
    table[FIELDS + field] = value;
    const call = () => codec.seal(chunk, table, 0, 2, new Uint8Array(900), 0, 900, 900, 0, new Float64Array(1), 0);
    expect(call).toThrow(new RangeError("row 1 of the table does not fit the chunk or the limits of a record"));
    table[FIELDS + field] = good[field];
    expect(call()).toBe(2);
  });

  it("a sequence that would leave the exact numbers is refused", () => {
    const { chunk, table } = chunkOf([{ timestampMs: 0n }, { timestampMs: 0n }]);
    const seal = (sequence: number) =>
      codec.seal(chunk, table, 0, 2, new Uint8Array(100), 0, 100, 100, sequence, new Float64Array(1), 0);
    expect(seal(Number.MAX_SAFE_INTEGER - 1)).toBe(2);
    expect(() => seal(Number.MAX_SAFE_INTEGER)).toThrow(RangeError);
  });

  it("LZ4 vectors decode to their payloads", () => {
    for (const vector of vectors.lz4) {
      if (vector.stored_hex === null) continue;
      const stored = bytesOf(vector.stored_hex);
      const target = new Uint8Array(vector.payload_len);
      expect(codec.lz4Decompress(stored, 9, stored.length, target, 0, target.length)).toBe(true);
      expect(codec.crc32c(target, 0, target.length)).toBe(Number.parseInt(vector.payload_crc32c, 16));
      expect(codec.lz4Decompress(stored, 9, stored.length, target, 0, target.length - 1)).toBe(false);
      expect(codec.lz4Decompress(stored, 9, stored.length - 1, target, 0, target.length)).toBe(false);
    }
  });

  it.each([
    ["the empty block of nothing", "00", 0, true],
    ["no token at all", "", 0, false],
    ["literals only", "30616263", 3, true],
    ["an overlapping match", "1061" + "0100" + "10" + "62", 6, true],
    ["offset 0", "1061" + "0000" + "1062", 6, false],
    ["an offset before the output", "1061" + "0200" + "1062", 6, false],
    ["a block that ends behind a match", "1061" + "0100", 5, false],
    ["half an offset", "106101", 5, false],
    ["a length that never ends", "f0ffffff", 800, false],
    ["literals that are not there", "50616263", 5, false],
  ])("LZ4: %s", (_name, block, length, intact) => {
    const source = bytesOf(block);
    expect(codec.lz4Decompress(source, 0, source.length, new Uint8Array(length), 0, length)).toBe(intact);
  });

  it("an array whose memory was transferred away is empty", () => {
    const gone = new Uint8Array(100);
    structuredClone(gone.buffer, { transfer: [gone.buffer] });
    expect(() => codec.crc32c(gone, 0, 1)).toThrow(RangeError);
  });
});
