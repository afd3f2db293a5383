import { describe, expect, it } from "vitest";
import { CompressionError } from "../../src/log/compressed-payload.ts";
import { frameSpan } from "../../src/log/frame-span.ts";
import { PlainPayloads } from "../../src/log/plain-payloads.ts";
import type { Window } from "../../src/log/reader.ts";
import { encodeRecord, MIN_FRAME_LENGTH } from "../../src/log/record.ts";
import { type Codec, Compression, FIELDS } from "../../src/runtime/codec.ts";
import { codec, thrown } from "./fixtures.ts";

/** A codec that counts its calls. */
function counting(): { readonly codec: Codec; readonly expanded: number[]; readonly single: number[] } {
  const expanded: number[] = [];
  const single: number[] = [];
  const counted: Codec = {
    ...codec,
    expand(buffer, table, first, count, out, spots) {
      const end = codec.expand(buffer, table, first, count, out, spots);
      expanded.push(end - first);
      return end;
    },
    lz4Decompress(source, start, end, target, at, length) {
      single.push(length);
      return codec.lz4Decompress(source, start, end, target, at, length);
    },
  };
  return { codec: counted, expanded, single };
}

/** A window of records with these payloads, compressed where it pays. */
function windowOf(payloads: readonly Uint8Array[], firstOffset = 0): Window {
  const lengths = payloads.map((payload) => payload.length);
  const chunk = new Uint8Array(Buffer.concat([new Uint8Array(8), ...payloads]));
  const table = new Int32Array(payloads.length * FIELDS);
  let at = 8;
  for (const [i, length] of lengths.entries()) {
    table.set([0, 0, 0, 0, 0, 0, at, length], i * FIELDS);
    at += length;
  }
  const buffer = new Uint8Array(chunk.length + 60 * payloads.length);
  const result = new Float64Array(4);
  codec.seal(chunk, table, 0, payloads.length, buffer, 0, buffer.length, buffer.length, 1, result, Compression.Lz4);
  const rows = new Int32Array(payloads.length * FIELDS);
  codec.scan(buffer, 0, result[0], rows, payloads.length, 1, result);
  return { buffer, rows, firstOffset, count: payloads.length, segment: undefined, endPosition: 1000 + result[0] };
}

const text = (seed: number, length: number) => new Uint8Array(Buffer.alloc(length, `payload ${seed} `));

function found(plain: PlainPayloads, window: Window, offset: number): Uint8Array {
  plain.find(window, offset);
  return plain.source.slice(plain.start, plain.start + plain.lengthBytes);
}

describe("plain payloads", () => {
  it("takes one call of the codec for all records of a window that fit a run", () => {
    const { codec: counted, expanded, single } = counting();
    const payloads = Array.from({ length: 500 }, (_, i) => text(i, 64 + i));
    const window = windowOf(payloads, 70);
    const plain = new PlainPayloads(counted);
    for (const [i, payload] of payloads.entries()) expect(found(plain, window, 70 + i)).toEqual(payload);
    expect([expanded, single]).toEqual([[500], []]);
  });

  it("goes on with a next run where one is full, in whatever window the record is by then", () => {
    const { codec: counted, expanded } = counting();
    const payloads = Array.from({ length: 100 }, (_, i) => text(i, 10_000));
    const plain = new PlainPayloads(counted);
    const whole = windowOf(payloads);
    const second = windowOf(payloads.slice(40), 40);
    for (const [i, payload] of payloads.entries()) {
      expect(found(plain, i < 40 ? whole : second, i)).toEqual(payload);
    }
    // 262,144 bytes are 26 payloads.
    expect(expanded).toEqual([26, 26, 26, 22]);
  });

  it("decompresses a payload that is larger than a run alone, and keeps no memory of it", () => {
    const { codec: counted, single } = counting();
    const payloads = [text(1, 100), text(2, 300_000), text(3, 100)];
    const window = windowOf(payloads);
    const plain = new PlainPayloads(counted);
    for (const [i, payload] of payloads.entries()) expect(found(plain, window, i)).toEqual(payload);
    expect(single).toEqual([300_000]);
    expect(plain.source.length).toBeLessThan(300_000);
  });

  it("groups that read at different places do not undo each other's work", () => {
    const { codec: counted, expanded } = counting();
    const payloads = Array.from({ length: 180 }, (_, i) => text(i, 10_000));
    const window = windowOf(payloads);
    const plain = new PlainPayloads(counted);
    for (let i = 0; i < 20; i++) {
      for (const place of [0, 50, 100, 150]) expect(found(plain, window, place + i)).toEqual(payloads[place + i]);
    }
    expect(expanded.length).toBe(4);
  });

  it("a payload that cannot be decompressed is an error of its own, those around it are not", () => {
    const window = windowOf([text(1, 100), text(2, 100), text(3, 100)]);
    // The stream of the second, behind its descriptor.
    const at = window.rows[FIELDS + 6] + 9;
    window.buffer.fill(0xff, at, at + 3);
    const plain = new PlainPayloads(codec);
    expect(found(plain, window, 0)).toEqual(text(1, 100));
    for (let again = 0; again < 2; again++) {
      const error = thrown(() => plain.find(window, 1));
      expect(error).toBeInstanceOf(CompressionError);
      expect([(error as CompressionError).message, (error as CompressionError).reason]).toEqual([
        "corrupt-stream",
        "CorruptRecordBody",
      ]);
    }
    expect(found(plain, window, 2)).toEqual(text(3, 100));
  });

  it("gives its memory back when nobody has asked for a while", () => {
    const { codec: counted, expanded } = counting();
    const window = windowOf([text(1, 100), text(2, 100)]);
    const plain = new PlainPayloads(counted);
    plain.find(window, 0);
    for (let tick = 0; tick < 10; tick++) plain.tick();
    plain.find(window, 1);
    for (let tick = 0; tick < 20; tick++) plain.tick();
    expect(plain.source.length).toBeGreaterThan(0);
    plain.tick();
    expect(plain.source.length).toBe(0);
    expect(expanded.length).toBe(1);
    expect(found(plain, window, 1)).toEqual(text(2, 100));
    expect(expanded.length).toBe(2);
  });
});

describe("frame span", () => {
  it("is where the record's frame lies in the segment's file", () => {
    const empty = new Uint8Array(0);
    const frames = [10, 70_000, 3].map((length, i) =>
      encodeRecord(
        {
          sequence: BigInt(i + 1),
          timestampMs: 0n,
          flags: 0,
          key: new Uint8Array(2),
          headers: empty,
          payload: new Uint8Array(length),
          ...(i === 2 ? { subject: new Uint8Array([97, 98]) } : {}),
        },
        codec,
      ),
    );
    const buffer = new Uint8Array(Buffer.concat(frames));
    const rows = new Int32Array(3 * FIELDS);
    const result = new Float64Array(4);
    expect(codec.scan(buffer, 0, buffer.length, rows, 3, 1, result)).toBe(3);
    const endPosition = 5000 + buffer.length;
    const window: Window = { buffer, rows, firstOffset: 40, count: 3, segment: undefined, endPosition };
    let start = 5000;
    for (const [i, frame] of frames.entries()) {
      expect(frameSpan(window, 40 + i)).toEqual({ segmentId: 0, start, end: start + frame.length });
      start += frame.length;
    }
    expect(frames[0].length).toBe(MIN_FRAME_LENGTH + 12);
  });
});
