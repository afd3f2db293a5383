import { describe, expect, it } from "vitest";
import { type Codec, FIELDS, ScanStop } from "../../src/runtime/codec.ts";
import { bytesOf, chunkOf, codecs, hex, lcg, payloadOf, type TableRecord, vectors } from "./codec-fixtures.ts";

const text = (value: string) => new TextEncoder().encode(value);

/** The one frame of a record. */
function frameOf(codec: Codec, sequence: number, record: TableRecord): Uint8Array {
  const { chunk, table } = chunkOf([record]);
  const out = new Uint8Array(chunk.length + 100);
  const result = new Float64Array(1);
  expect(codec.seal(chunk, table, 0, 1, out, 0, out.length, Number.POSITIVE_INFINITY, sequence, result, 0)).toBe(1);
  return out.slice(0, result[0]);
}

interface Scan {
  count: number;
  end: number;
  stop: number;
  needed: number;
  sequence: number;
  row: number[];
}

function scanOf(codec: Codec, frames: Uint8Array, sequence = -1, rows = 4): Scan {
  const table = new Int32Array(rows * FIELDS);
  const result = new Float64Array(4);
  const count = codec.scan(frames, 0, frames.length, table, rows, sequence, result);
  const [end, stop, needed, found] = result;
  return { count, end, stop, needed, sequence: found, row: [...table.subarray(0, FIELDS)] };
}

function withHeaderCrc(codec: Codec, frame: Uint8Array): Uint8Array {
  new DataView(frame.buffer).setUint32(32, codec.crc32c(frame, 0, 32), true);
  return frame;
}

it("the addon is among the codecs where it was built", () => {
  expect(codecs.map(({ name }) => name)).toContain("typescript");
});

describe.each(codecs)("codec: $name", ({ codec }) => {
  it("storage.md 1: check values of CRC-32C and XXH3-64", () => {
    const digits = text("..123456789..");
    expect(codec.crc32c(digits, 2, 11)).toBe(0xe3069283);
    expect(codec.crc32c(digits, 3, 3)).toBe(0);
    expect(codec.xxh3(digits, 3, 3)).toBe(0x2d06800538d394c2n);
  });

  it("storage.md 26.1: a record with a payload", () => {
    const frame = frameOf(codec, 0, { timestampMs: 0n, payload: text("hello") });
    expect(hex(frame)).toBe(
      "4249010000000000000000000000000000000000000000000000000005000000e9baefea68656c6c6f4cbb719a31000000",
    );
    const scan = scanOf(codec, frame, 0);
    expect(scan).toEqual({ count: 1, end: 49, stop: 0, needed: 0, sequence: 0, row: [0, 12, 36, 0, 36, 0, 36, 5] });
  });

  it("storage.md 26.2: the empty record", () => {
    expect(hex(frameOf(codec, 0, { timestampMs: 0n }))).toBe(
      "4249010000000000000000000000000000000000000000000000000000000000a221884c000000002c000000",
    );
  });

  it("storage.md 26.3: a record with key and headers", () => {
    const record = { timestampMs: 1700000000000n, key: text("k1"), headers: text("h"), payload: text("v") };
    const frame = frameOf(codec, 7, record);
    expect(hex(frame)).toBe(
      "4249010207000000000000000068e5cf8b0100000200000001000000010000002c53e20d6b316876cfab94de30000000",
    );
    expect(scanOf(codec, frame, 7).row).toEqual([2, 12, 36, 2, 38, 1, 39, 1]);
  });

  it("storage.md 26.4: a subject or a stream tag is read over; both are BadLength", () => {
    const subject =
      "42490108010000000000000005000000000000000000000000000000010000009830cf7e0300612e626fbd8c8578935f3ca936000000";
    expect(scanOf(codec, bytesOf(subject), 1)).toMatchObject({ count: 1, row: [8, 12, 45, 0, 45, 0, 45, 1] });
    const tag =
      "4249011001000000000000000500000000000000000000000000000001000000686cce9206006f7264657273a976c06178935f3ca939000000";
    expect(scanOf(codec, bytesOf(tag), 1)).toMatchObject({ count: 1, row: [16, 12, 48, 0, 48, 0, 48, 1] });
    const both = bytesOf(subject);
    both[3] |= 0x10;
    expect(scanOf(codec, withHeaderCrc(codec, both)).stop).toBe(ScanStop.BadLength);
  });

  it("storage.md 26.5: xxh3 from 65536 body bytes on", () => {
    const frame = frameOf(codec, 0, { timestampMs: 0n, payload: new Uint8Array(65_536) });
    expect(frame.length).toBe(65_588);
    expect(frame[3]).toBe(4);
    expect(hex(frame.subarray(-16))).toBe("aa5cb602d302b233a4c4c07234000100");
    expect(scanOf(codec, frame, 0)).toMatchObject({ count: 1, end: 65_588 });
    const below = frameOf(codec, 0, { timestampMs: 0n, payload: new Uint8Array(65_535) });
    expect(below.length).toBe(65_535 + 44);
    expect(below[3]).toBe(0);
  });

  it("storage.md 26.6: no flipped bit passes, and the class of the error is that of 3.5", () => {
    const frame = bytesOf(vectors.damaged.find(({ name }) => name === "intact")!.frame_hex);
    const stops = new Map<number, Set<number>>();
    for (let bit = 0; bit < frame.length * 8; bit++) {
      const damaged = frame.slice();
      damaged[bit >> 3] ^= 1 << (bit & 7);
      const scan = scanOf(codec, damaged);
      expect(scan.count).toBe(0);
      const at = bit >> 3;
      const where = at < 2 ? 0 : at < 3 ? 2 : at < 36 ? 3 : at < 45 ? 36 : at < 54 ? 45 : at < 58 ? 54 : 58;
      stops.set(where, (stops.get(where) ?? new Set()).add(scan.stop));
    }
    expect(Object.fromEntries([...stops].map(([at, set]) => [at, [...set].sort((a, b) => a - b)]))).toEqual({
      0: [ScanStop.BadMagic],
      2: [ScanStop.UnsupportedVersion],
      3: [ScanStop.BadHeaderCrc],
      // A longer subject may reach past the end.
      36: [ScanStop.Truncated, ScanStop.BadSubjectCrc],
      45: [ScanStop.BadBodyCrc],
      54: [ScanStop.BadBodyCrc],
      58: [ScanStop.BadLength],
    });
  });

  it("storage.md 26.6: a flip only in the xxh3 field is BadXxh3", () => {
    const frame = frameOf(codec, 0, { timestampMs: 0n, payload: lcg(1, 65_536) });
    for (let at = frame.length - 16; at < frame.length - 8; at++) {
      const damaged = frame.slice();
      damaged[at] ^= 0x10;
      expect(scanOf(codec, damaged).stop).toBe(ScanStop.BadXxh3);
    }
  });

  it("storage.md 26.7: an unknown flag bit is kept and means nothing", () => {
    const frame = frameOf(codec, 3, { timestampMs: 9n, payload: text("x") });
    frame[3] |= 0x80;
    expect(scanOf(codec, withHeaderCrc(codec, frame), 3)).toMatchObject({
      count: 1,
      row: [0x80, 12, 36, 0, 36, 0, 36, 1],
    });
  });

  it("storage.md 26.8: lengths of 4 GiB are TooLarge", () => {
    const frame = frameOf(codec, 0, { timestampMs: 0n });
    frame.fill(0xff, 20, 32);
    expect(scanOf(codec, withHeaderCrc(codec, frame)).stop).toBe(ScanStop.TooLarge);
  });

  it("storage.md 3.5: TooLarge comes before Truncated, at exactly 1 GiB and one more", () => {
    const frame = frameOf(codec, 0, { timestampMs: 0n, payload: text("x") });
    const view = new DataView(frame.buffer);
    frame[3] = 4;
    view.setUint32(28, 0x4000_0000 - 52, true);
    expect(scanOf(codec, withHeaderCrc(codec, frame))).toMatchObject({ stop: ScanStop.Truncated, needed: 0x4000_0000 });
    view.setUint32(28, 0x4000_0000 - 51, true);
    expect(scanOf(codec, withHeaderCrc(codec, frame))).toMatchObject({ stop: ScanStop.TooLarge, needed: 0 });
  });

  it("storage.md 3.5: a frame cut anywhere is Truncated and says how much it needs", () => {
    const frame = bytesOf(vectors.damaged.find(({ name }) => name === "intact")!.frame_hex);
    for (let length = 1; length < frame.length; length++) {
      const needed = length < 36 ? 36 : length < 38 ? 38 : frame.length;
      expect(scanOf(codec, frame.slice(0, length))).toMatchObject({
        count: 0,
        end: 0,
        stop: ScanStop.Truncated,
        needed,
      });
    }
  });

  it("storage.md 3.5: derived flags that disagree with the lengths are BadLength", () => {
    const keyless = frameOf(codec, 0, { timestampMs: 0n, payload: text("x") });
    keyless[3] |= 0x02;
    expect(scanOf(codec, withHeaderCrc(codec, keyless)).stop).toBe(ScanStop.BadLength);
    const keyed = frameOf(codec, 0, { timestampMs: 0n, key: text("k") });
    keyed[3] &= ~0x02;
    expect(scanOf(codec, withHeaderCrc(codec, keyed)).stop).toBe(ScanStop.BadLength);
    const untagged = new Uint8Array(60);
    untagged.set(frameOf(codec, 0, { timestampMs: 0n }));
    untagged[3] |= 0x08;
    expect(scanOf(codec, withHeaderCrc(codec, untagged)).stop).toBe(ScanStop.BadLength);
    const small = new Uint8Array(60);
    small.set(frameOf(codec, 0, { timestampMs: 0n, payload: text("12345678") }));
    small[3] |= 0x04;
    expect(scanOf(codec, withHeaderCrc(codec, small)).stop).toBe(ScanStop.BadLength);
  });

  const sealed = vectors.records.filter(
    ({ subject_hex, stream_tag_hex, seq }) =>
      subject_hex === "" && stream_tag_hex === "" && BigInt(seq) <= BigInt(Number.MAX_SAFE_INTEGER),
  );
  it.each(sealed)("seals the vector $name", (vector) => {
    const frame = frameOf(codec, Number(vector.seq), {
      flags: vector.flags_in,
      timestampMs: BigInt(vector.timestamp_ms),
      key: bytesOf(vector.key_hex),
      headers: bytesOf(vector.headers_hex),
      payload: payloadOf(vector),
    });
    expect(frame.length).toBe(vector.frame_len);
    expect(frame[3]).toBe(vector.flags_stored);
    if (vector.frame_hex !== undefined) expect(hex(frame)).toBe(vector.frame_hex);
    else {
      expect(hex(frame.subarray(0, vector.head_hex!.length / 2))).toBe(vector.head_hex);
      expect(hex(frame.subarray(-vector.tail_hex!.length / 2))).toBe(vector.tail_hex);
      expect(codec.crc32c(frame, 0, frame.length)).toBe(Number.parseInt(vector.frame_crc32c!, 16));
    }
    expect(scanOf(codec, frame, Number(vector.seq))).toMatchObject({ count: 1, end: frame.length });
  });

  it.each(vectors.records.filter(({ frame_hex }) => frame_hex !== undefined))("scans the vector $name", (vector) => {
    const frame = bytesOf(vector.frame_hex!);
    const { count, end, row } = scanOf(codec, frame);
    expect({ count, end }).toEqual({ count: 1, end: vector.frame_len });
    const [flags, timestamp, key, keyLength, headers, headersLength, payload, payloadLength] = row;
    expect(flags).toBe(vector.flags_stored);
    const view = new DataView(frame.buffer);
    expect(view.getBigUint64(timestamp - 8, true)).toBe(BigInt(vector.seq));
    expect(view.getBigUint64(timestamp, true)).toBe(BigInt(vector.timestamp_ms));
    expect(hex(frame.subarray(key, key + keyLength))).toBe(vector.key_hex);
    expect(hex(frame.subarray(headers, headers + headersLength))).toBe(vector.headers_hex);
    expect(hex(frame.subarray(payload, payload + payloadLength))).toBe(hex(payloadOf(vector)));
  });

  it.each(vectors.damaged)("scans the damaged vector $name: $error", ({ frame_hex, error }) => {
    const { count, stop } = scanOf(codec, bytesOf(frame_hex));
    const name = error.replace(/\(.*/, "");
    const expected = name === "ok" ? ScanStop.End : ScanStop[name as keyof typeof ScanStop];
    expect({ count, stop }).toEqual({ count: name === "ok" ? 1 : 0, stop: expected });
  });

  it("an encrypted frame is refused, not walked", () => {
    expect(scanOf(codec, bytesOf(vectors.encrypted_frame.frame_hex)).stop).toBe(ScanStop.Encrypted);
  });

  it("sequences: expected ones pass, another one stops the walk and is named", () => {
    const frames = new Uint8Array(
      Buffer.concat([5, 6, 8].map((sequence) => frameOf(codec, sequence, { timestampMs: 0n, payload: text("x") }))),
    );
    expect(scanOf(codec, frames, 5)).toMatchObject({ count: 2, end: 90, stop: ScanStop.SequenceMismatch, sequence: 8 });
    expect(scanOf(codec, frames)).toMatchObject({ count: 3, end: 135, stop: ScanStop.End, sequence: 0 });
    const last = frameOf(codec, Number.MAX_SAFE_INTEGER, { timestampMs: 0n });
    expect(scanOf(codec, last, Number.MAX_SAFE_INTEGER).count).toBe(1);
    const above = bytesOf(vectors.records.find(({ name }) => name === "seq_above_2_53")!.frame_hex!);
    expect(scanOf(codec, above, 0)).toMatchObject({ count: 0, stop: ScanStop.SequenceMismatch, sequence: -1 });
    const overflow = last.slice();
    overflow.fill(0, 4, 12);
    overflow[10] = 0x20;
    const pair = new Uint8Array(Buffer.concat([last, withHeaderCrc(codec, overflow)]));
    expect(scanOf(codec, pair, Number.MAX_SAFE_INTEGER)).toMatchObject({
      count: 1,
      stop: ScanStop.SequenceMismatch,
      sequence: -1,
    });
  });

  it("scan stops after maxRecords with End, and at zeros with BadMagic", () => {
    const frame = frameOf(codec, 0, { timestampMs: 0n, payload: text("x") });
    const padded = new Uint8Array(Buffer.concat([frame, frame, new Uint8Array(100)]));
    expect(scanOf(codec, padded, -1, 1)).toMatchObject({ count: 1, end: 45, stop: ScanStop.End });
    expect(scanOf(codec, padded, -1, 0)).toMatchObject({ count: 0, end: 0, stop: ScanStop.End });
    expect(scanOf(codec, padded)).toMatchObject({ count: 2, end: 90, stop: ScanStop.BadMagic });
  });

  it("seal stops before a record that does not fit, and before one that would start at stopAt", () => {
    const records = [1, 2, 3, 4].map((n) => ({ timestampMs: BigInt(n), payload: lcg(n, 56) }));
    const { chunk, table } = chunkOf(records, 3);
    const out = new Uint8Array(1000);
    const result = new Float64Array(1);
    const seal = (outLimit: number, stopAt: number) => {
      out.fill(0xaa);
      const written = codec.seal(chunk, table, 1, 4, out, 50, outLimit, stopAt, 90, result, 0);
      expect(out.subarray(result[0]).every((byte) => byte === 0xaa)).toBe(true);
      expect(out.subarray(0, 50).every((byte) => byte === 0xaa)).toBe(true);
      return [written, result[0]];
    };
    expect(seal(1000, 1000)).toEqual([3, 350]);
    expect(scanOf(codec, out.slice(50, 350), 90)).toMatchObject({ count: 3, end: 300 });
    expect(seal(350, 1000)).toEqual([3, 350]);
    expect(seal(349, 1000)).toEqual([2, 250]);
    expect(seal(149, 1000)).toEqual([0, 50]);
    expect(seal(1000, 251)).toEqual([3, 350]);
    expect(seal(1000, 250.5)).toEqual([3, 350]);
    expect(seal(1000, 250)).toEqual([2, 250]);
    expect(seal(1000, 50)).toEqual([0, 50]);
    expect(seal(1000, Number.NaN)).toEqual([0, 50]);
    expect(seal(1000, -1)).toEqual([0, 50]);
  });

  it("seal takes only the compressed bit of a row's flags", () => {
    const frame = frameOf(codec, 0, { flags: -1, timestampMs: 0n, payload: text("x") });
    expect(frame[3]).toBe(0x01);
  });

  it("seal looks at no position of an empty part", () => {
    const { chunk, table } = chunkOf([{ timestampMs: 5n, payload: text("x") }]);
    table[2] = -7;
    table[4] = 1 << 30;
    const out = new Uint8Array(100);
    expect(codec.seal(chunk, table, 0, 1, out, 0, 100, 100, 0, new Float64Array(1), 0)).toBe(1);
    expect(hex(out.subarray(0, 45))).toBe(hex(frameOf(codec, 0, { timestampMs: 5n, payload: text("x") })));
  });
});
