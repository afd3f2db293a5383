import { describe, expect, it } from "vitest";
import { decompressPayload } from "../../src/log/compressed-payload.ts";
import { type ZstdDictionary, zstdCodec } from "../../src/log/zstd-codec.ts";
import { Compression, FIELDS } from "../../src/runtime/codec.ts";
import { type Zstd, zstd } from "../../src/runtime/zstd.ts";
import { chunkOf, lcg, type TableRecord } from "../runtime/codec-fixtures.ts";
import { ascii, codec } from "./fixtures.ts";

const text = (seed: number, length: number) => new Uint8Array(Buffer.alloc(length, `temperature=${seed};humidity=40;`));

describe.skipIf(zstd === undefined)("zstd when records are sealed (skipped only where the runtime has none)", () => {
  const runtime = zstd as Zstd;
  const content = ascii("temperature=21;humidity=40;pressure=1013;".repeat(4));

  /** The stored rows: flags and the payload in plain form, each with its descriptor's head. */
  function sealed(records: readonly TableRecord[], dictionary?: ZstdDictionary, outLimit?: number, stopAt = Infinity) {
    const { chunk, table } = chunkOf(records, 5);
    const out = new Uint8Array(outLimit ?? chunk.length + 60 * records.length);
    const result = new Float64Array(4);
    const written = zstdCodec(codec, runtime, { dictionary }).seal(
      chunk,
      table,
      0,
      records.length,
      out,
      0,
      out.length,
      stopAt,
      40,
      result,
      Compression.None,
    );
    const end = result[0];
    const rows = new Int32Array(records.length * FIELDS);
    expect(codec.scan(out, 0, end, rows, records.length, 40, result)).toBe(written);
    expect(result[0]).toBe(end);
    return Array.from({ length: written }, (_, i) => {
      const [flags, , key, keyLength, headers, headersLength, at, length] = rows.subarray(i * FIELDS);
      const stored = out.slice(at, at + length);
      const compressed = (flags & 1) !== 0;
      const source = { get: (id: number) => (id === dictionary?.id ? dictionary.content : undefined) };
      return {
        compressed,
        stored,
        key: [...out.subarray(key, key + keyLength)],
        headers: [...out.subarray(headers, headers + headersLength)],
        payload: [...(compressed ? decompressPayload(stored, codec, source) : stored)],
      };
    });
  }

  it("storage.md 4: payloads of 64 bytes and more that become shorter are zstd frames; all come back", () => {
    const payloads = [text(1, 63), text(2, 64), text(3, 5000), lcg(4, 300), new Uint8Array(0)];
    const records = payloads.map((payload, i) => ({
      timestampMs: BigInt(i),
      key: ascii(`key ${i}`),
      headers: ascii("h".repeat(i)),
      payload,
    }));
    const found = sealed(records);
    expect(found.map(({ payload }) => payload)).toEqual(payloads.map((payload) => [...payload]));
    expect(found.map(({ compressed }) => compressed)).toEqual([false, true, true, false, false]);
    expect(found.map(({ key }) => key)).toEqual(records.map(({ key }) => [...key]));
    expect(found.map(({ headers }) => headers)).toEqual(records.map(({ headers }) => [...headers]));
    // Codec 2, dictionary 0, length 5000.
    expect([...found[2].stored.subarray(0, 9)]).toEqual([2, 0, 0, 0, 0, 0x88, 0x13, 0, 0]);
  });

  it("storage.md 4: with a dictionary its id is in the descriptor, and short payloads become shorter", () => {
    const records = [{ timestampMs: 0n, payload: text(21, 100) }];
    const [plain] = sealed(records);
    const [short] = sealed(records, { id: 77, content });
    expect(short.payload).toEqual(plain.payload);
    expect([...short.stored.subarray(0, 9)]).toEqual([2, 77, 0, 0, 0, 100, 0, 0, 0]);
    expect(short.stored.length).toBeLessThan(plain.stored.length);
  });

  it("what is compressed already is stored as it came", () => {
    const [found] = sealed([{ flags: 1, timestampMs: 0n, payload: new Uint8Array([0, 0, 0, 0, 0, 2, 0, 0, 0, 8, 9]) }]);
    expect([found.compressed, found.payload]).toEqual([true, [8, 9]]);
  });

  it("goes on over many runs, and stops where there is no room or where it is told to", () => {
    const records = Array.from({ length: 300 }, (_, i) => ({ timestampMs: 0n, payload: text(i, 1000) }));
    const all = sealed(records);
    expect(all.map(({ payload }) => payload)).toEqual(records.map(({ payload }) => [...payload]));
    const frames = all.map(({ stored }) => 44 + stored.length);
    const total = (count: number) => frames.slice(0, count).reduce((sum, length) => sum + length, 0);
    expect(sealed(records, undefined, total(130)).length).toBe(130);
    expect(sealed(records, undefined, total(131) - 1).length).toBe(130);
    expect(sealed(records, undefined, undefined, total(200)).length).toBe(200);
    expect(sealed(records, undefined, undefined, total(200) + 1).length).toBe(201);
    expect(sealed(records, undefined, undefined, 0).length).toBe(0);
  });

  it.each([
    ["payload length", 7, 1 << 30],
    ["payload position", 6, -5],
    ["negative length", 3, -1],
    ["timestamp", 1, 140],
  ])("a bad row is refused by its number: %s", (_name, field, value) => {
    const { chunk, table } = chunkOf([1, 2].map((seed) => ({ timestampMs: 0n, payload: text(seed, 64) })));
    table[FIELDS + field] = value;
    const out = new Uint8Array(1000);
    const call = () =>
      zstdCodec(codec, runtime).seal(chunk, table, 0, 2, out, 0, 1000, 1000, 0, new Float64Array(4), Compression.None);
    expect(call).toThrow(new RangeError("row 1 of the table does not fit the chunk or the limits of a record"));
  });
});
