import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type CursorState,
  decodeAttempts,
  decodeCounters,
  decodeCursor,
  decodeLayoutMarker,
  encodeAttempts,
  encodeCounters,
  encodeCursor,
  encodeLayoutMarker,
  MAX_ATTEMPTS,
} from "../../src/log/checkpoint-payloads.ts";
import { codec, EMPTY, hex, thrown, unhex } from "./fixtures.ts";

/** The payload with the CRC over all but its last 4 bytes made right. */
function withCrc(payload: Uint8Array): Uint8Array {
  const fixed = payload.slice();
  const end = fixed.length - 4;
  new DataView(fixed.buffer).setUint32(end, codec.crc32c(fixed, 0, end), true);
  return fixed;
}

function rawCursor(committed: bigint, runs: [bigint, bigint][]): Uint8Array {
  const payload = new Uint8Array(13 + runs.length * 16);
  const view = new DataView(payload.buffer);
  payload[0] = 1;
  view.setBigUint64(1, committed, true);
  runs.forEach(([start, end], i) => {
    view.setBigUint64(9 + i * 16, start, true);
    view.setBigUint64(17 + i * 16, end, true);
  });
  return withCrc(payload);
}

const states: fc.Arbitrary<CursorState> = fc
  .tuple(
    fc.nat(),
    fc.array(fc.tuple(fc.integer({ min: 1, max: 99 }), fc.integer({ min: 1, max: 99 })), { maxLength: 5 }),
  )
  .map(([committed, gaps]) => {
    let at = committed;
    const runs = gaps.map(([gap, length]) => {
      const start = at + gap;
      at = start + length;
      return { start, end: at };
    });
    return { committed, runs };
  });

describe("cursor snapshots", () => {
  it("storage.md 26.17: the payload of committed 5", () => {
    expect(hex(encodeCursor({ committed: 5, runs: [] }, codec))).toBe("010500000000000000a141fa27");
  });

  it("storage.md 26.18: runs, at most three of them", () => {
    const one = encodeCursor({ committed: 5, runs: [{ start: 7, end: 9 }] }, codec);
    expect(hex(one)).toBe("01050000000000000007000000000000000900000000000000ace4d6b5");
    const runs = [7, 17, 27, 37, 47].map((start) => ({ start, end: start + 2 }));
    expect(decodeCursor(encodeCursor({ committed: 5, runs }, codec), codec)).toEqual({
      committed: 5,
      runs: runs.slice(0, 3),
    });
  });

  it("storage.md 8.3: a payload below 13 bytes is the legacy form", () => {
    expect(decodeCursor(unhex("0500000000000000"), codec)).toEqual({ committed: 5, runs: [] });
    expect(decodeCursor(unhex("050000000000000001020304"), codec)).toEqual({ committed: 5, runs: [] });
    expect(decodeCursor(unhex("05000000000000"), codec)).toBeUndefined();
    expect(decodeCursor(EMPTY, codec)).toBeUndefined();
    expect(decodeCursor(unhex("ffffffffffffffff"), codec)).toBeUndefined();
  });

  it("storage.md 8.3: what does not hold is dropped, never an error", () => {
    expect(decodeCursor(rawCursor(1n << 53n, []), codec)).toBeUndefined();
    const bad: [bigint, bigint][][] = [
      [[5n, 9n]],
      [[3n, 4n]],
      [[9n, 9n]],
      [[9n, 8n]],
      [[1n << 53n, 1n << 54n]],
      [[9n, 1n << 53n]],
    ];
    for (const runs of bad) expect(decodeCursor(rawCursor(5n, runs), codec)).toEqual({ committed: 5, runs: [] });
    const overlapping = rawCursor(5n, [
      [7n, 9n],
      [8n, 12n],
      [20n, 21n],
    ]);
    expect(decodeCursor(overlapping, codec)).toEqual({ committed: 5, runs: [{ start: 7, end: 9 }] });
    const version = rawCursor(5n, []);
    version[0] = 2;
    expect(decodeCursor(withCrc(version), codec)).toBeUndefined();
    const crc = rawCursor(5n, []);
    crc[12] ^= 1;
    expect(decodeCursor(crc, codec)).toBeUndefined();
  });

  it("comes back; a flip gives nothing", () => {
    fc.assert(
      fc.property(states, fc.nat(), fc.nat({ max: 7 }), (state, at, bit) => {
        const payload = encodeCursor(state, codec);
        expect(decodeCursor(payload, codec)).toEqual({ ...state, runs: state.runs.slice(0, 3) });
        payload[at % payload.length] ^= 1 << bit;
        expect(decodeCursor(payload, codec)).toBeUndefined();
      }),
    );
  });
});

describe("attempts snapshots", () => {
  it("storage.md 26.21: attempts {5: 2}", () => {
    const payload = encodeAttempts([{ offset: 5, deliveries: 2 }], codec);
    expect(hex(payload)).toBe("010100000005000000000000000200000039d5d43c");
    expect(decodeAttempts(payload, codec)).toEqual([{ offset: 5, deliveries: 2 }]);
  });

  it("storage.md 8.3: 2729 pairs fit, the tail is dropped, a count above u32 saturates", () => {
    const entries = Array.from({ length: 3000 }, (_, offset) => ({ offset, deliveries: offset === 0 ? 2 ** 40 : 1 }));
    const payload = encodeAttempts(entries, codec);
    expect(payload.length).toBeLessThanOrEqual(32_768);
    const decoded = decodeAttempts(payload, codec);
    expect(decoded.length).toBe(MAX_ATTEMPTS);
    expect(decoded[0]).toEqual({ offset: 0, deliveries: 0xffff_ffff });
    expect(decoded.at(-1)).toEqual({ offset: 2728, deliveries: 1 });
  });

  it("pairs that do not ascend, a wrong count, or an offset above 2^53 - 1 are no snapshot", () => {
    const two = encodeAttempts(
      [
        { offset: 5, deliveries: 1 },
        { offset: 9, deliveries: 1 },
      ],
      codec,
    );
    const change = (at: number, value: number): Uint8Array => {
      const payload = two.slice();
      payload[at] = value;
      return withCrc(payload);
    };
    expect(decodeAttempts(change(5 + 12, 5), codec)).toEqual([]);
    expect(decodeAttempts(change(1, 3), codec)).toEqual([]);
    expect(decodeAttempts(change(4, 0xff), codec)).toEqual([]);
    expect(decodeAttempts(change(5 + 12 + 6, 0x20), codec)).toEqual([]);
    expect(decodeAttempts(change(0, 2), codec)).toEqual([]);
    expect(decodeAttempts(EMPTY, codec)).toEqual([]);
  });

  it("comes back; a flip gives nothing", () => {
    const entries = fc
      .uniqueArray(fc.nat(), { maxLength: 50 })
      .map((offsets) => offsets.sort((a, b) => a - b).map((offset) => ({ offset, deliveries: (offset % 7) + 1 })));
    fc.assert(
      fc.property(entries, fc.nat(), fc.nat({ max: 7 }), (pairs, at, bit) => {
        const payload = encodeAttempts(pairs, codec);
        expect(decodeAttempts(payload, codec)).toEqual(pairs);
        payload[at % payload.length] ^= 1 << bit;
        expect(decodeAttempts(payload, codec)).toEqual([]);
      }),
    );
  });
});

describe("layout marker and counters", () => {
  it("layout marker", () => {
    expect(hex(encodeLayoutMarker())).toBe("4942444401000000");
    expect(decodeLayoutMarker(encodeLayoutMarker(7))).toBe(7);
    for (const foreign of ["", "49424444010000", "494244440100000000", "4942444501000000"]) {
      expect(decodeLayoutMarker(unhex(foreign)), foreign).toBeUndefined();
    }
  });

  it("storage.md 8.3: counters are read tolerantly", () => {
    const payload = encodeCounters([1, 2, 2 ** 53 - 1]);
    expect(decodeCounters(payload, 3)).toEqual([1, 2, 2 ** 53 - 1]);
    expect(decodeCounters(payload, 5)).toEqual([1, 2, 2 ** 53 - 1, 0, 0]);
    expect(decodeCounters(payload, 1)).toEqual([1]);
    expect(decodeCounters(payload.subarray(0, 12), 3)).toEqual([1, 0, 0]);
    const foreign = payload.slice();
    foreign[0] = 99;
    foreign[15] = 0xff;
    foreign[16] = 0xff;
    expect(decodeCounters(foreign, 3)).toEqual([1, 0, 2 ** 53 - 1]);
    expect(decodeCounters(EMPTY, 2)).toEqual([0, 0]);
    expect(thrown(() => encodeCounters(Array.from({ length: 32 }, () => 0)))).toBeInstanceOf(RangeError);
  });

  it("no bytes make a decoder throw", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), fc.boolean(), (noise, crc) => {
        const payload = crc && noise.length >= 4 ? withCrc(noise) : noise;
        expect(Array.isArray(decodeAttempts(payload, codec))).toBe(true);
        const state = decodeCursor(payload, codec);
        if (state !== undefined) expect(Number.isSafeInteger(state.committed)).toBe(true);
        expect(["number", "undefined"]).toContain(typeof decodeLayoutMarker(payload));
        expect(decodeCounters(payload, 28).every(Number.isSafeInteger)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});
