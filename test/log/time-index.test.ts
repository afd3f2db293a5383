import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Log } from "../../src/log/log.ts";
import { encodeSegmentFooter } from "../../src/log/segment.ts";
import { decodeTimeIndex, encodeTimeIndex, TimeIndexBuilder } from "../../src/log/time-index.ts";
import { seekTime, seekTimeSteps } from "../../src/log/time-seek.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import type { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { codec, flip, frame, get, header, hex, join, put, ROOT, segmentPath, tree } from "./fixtures.ts";
import { newDisk } from "./open-log.ts";

const VECTOR =
  "544944580101000001000000000000006400000000000000030000000000000002000000020000006400000000000000" +
  "000000000000000066000000000000003200000000000000944d42a3";
const SEGMENT = { segmentId: 1, baseOffset: 100, recordCount: 3 };

/** A log of these timestamps, `perSegment` in each sealed segment and the rest in the active one. */
function logOf(timestamps: readonly bigint[], perSegment: number): { log: Log; files: SimulatedFileSystem } {
  const files = newDisk();
  for (let id = 0, base = 0; base <= timestamps.length; id++, base += perSegment) {
    const part = timestamps.slice(base, base + perSegment);
    const frames = part.map((timestampMs, i) => frame({ sequence: BigInt(base + i), timestampMs }));
    const sealed = base + perSegment <= timestamps.length;
    const fields = { segmentId: id, lastSequence: base + part.length - 1, recordCount: part.length };
    put(
      files,
      segmentPath(id),
      join(header(id, base), ...frames, ...(sealed ? [encodeSegmentFooter(fields, codec)] : [])),
    );
  }
  const log = Log.open(
    {
      root: ROOT,
      maxSegmentBytes: 1024 * 1024,
      maxPendingBytes: 1024 * 1024,
      durability: { level: "sync", flushIntervalMs: 1000, flushMaxBytes: 1024 * 1024 },
    },
    { files, codec, clock: new SimulatedClock() },
    { advanced: () => {}, rejected: () => {}, froze: () => {} },
  );
  return { log, files };
}

function scanned(timestamps: readonly bigint[], timestampMs: bigint): number {
  const found = timestamps.findIndex((each) => each >= timestampMs);
  return found < 0 ? timestamps.length : found;
}

describe("time index", () => {
  it("storage.md 26.27: bytes of the vector, both ways", () => {
    const builder = new TimeIndexBuilder(SEGMENT, 2);
    for (const [i, timestamp] of [10n, 50n, 20n].entries()) builder.add(100 + i, timestamp);
    const index = builder.finish();
    expect(hex(encodeTimeIndex(index, codec))).toBe(VECTOR);
    expect(decodeTimeIndex(new Uint8Array(Buffer.from(VECTOR, "hex")), SEGMENT, codec)).toEqual(index);
  });

  it("storage.md 26.27: any flipped bit, any other length, any other segment: no index", () => {
    const bytes = new Uint8Array(Buffer.from(VECTOR, "hex"));
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = bytes.slice();
      changed[bit >> 3] ^= 1 << (bit & 7);
      expect(decodeTimeIndex(changed, SEGMENT, codec)).toBeUndefined();
    }
    for (let length = 0; length < bytes.length; length++) {
      expect(decodeTimeIndex(bytes.subarray(0, length), SEGMENT, codec)).toBeUndefined();
    }
    for (const other of [{ segmentId: 2 }, { baseOffset: 99 }, { recordCount: 4 }]) {
      expect(decodeTimeIndex(bytes, { ...SEGMENT, ...other }, codec)).toBeUndefined();
    }
  });

  it("storage.md 26.27: timestamps 10, 5, 30, 2, 50, seek 30: the third record", () => {
    for (const perSegment of [1, 2, 5, 9]) {
      const { log, files } = logOf([10n, 5n, 30n, 2n, 50n], perSegment);
      expect(seekTime(log, 30n, { files, codec, root: ROOT })).toBe(2);
    }
  });

  it("storage.md 26.27: a damaged file changes no result and is made anew; an offset-only workload makes none", () => {
    const timestamps = Array.from({ length: 5000 }, (_, i) => BigInt((i * 7919) % 10_007));
    const { log, files } = logOf(timestamps, 4000);
    const world = { files, codec, root: ROOT };
    expect(Object.keys(tree(files)).some((path) => path.endsWith(".tindex"))).toBe(false);
    const path = `${ROOT}/seg-0000000000000000.tindex`;
    expect(seekTime(log, 9_990n, world)).toBe(scanned(timestamps, 9_990n));
    const bytes = hex(get(files, path));
    for (const position of [0, 20, 45, 60]) {
      flip(files, path, position);
      expect(seekTime(log, 9_990n, world)).toBe(scanned(timestamps, 9_990n));
      expect(hex(get(files, path))).toBe(bytes);
    }
    files.fail({ operation: "open", path: /tindex/, code: "EACCES" });
    expect(seekTime(log, 5n, world)).toBe(scanned(timestamps, 5n));
  });

  it("segments that go during a seek are passed over and leave no index, whenever they go", () => {
    const timestamps = [3n, 1n, 4n, 1n, 5n, 9n, 2n, 6n, 5n, 3n, 5n];
    for (const wanted of [0n, 5n, 6n, 100n]) {
      for (let before = 0; before < 14; before++) {
        for (const duringBarrier of [false, true]) {
          const { log, files } = logOf(timestamps, 2);
          const steps = seekTimeSteps(log, wanted, { files, codec, root: ROOT });
          let step: IteratorResult<void, number> = { done: false, value: undefined };
          for (let i = 0; i < before && !step.done; i++) step = steps.next();
          if (step.done) continue;
          let removed = 0;
          log.removeOldest(3, (count) => {
            removed = count;
          });
          if (!duringBarrier) files.runAll();
          const earliest = log.earliestOffset;
          expect(earliest).toBe(duringBarrier ? 0 : 6);
          while (!step.done) step = steps.next();
          const left = timestamps.map((each, offset) => (offset < earliest ? -1n : each));
          expect(step.value).toBe(scanned(left, wanted));
          files.runAll();
          expect(removed).toBe(3);
          const indexes = files.list(ROOT).filter(({ name }) => name.endsWith(".tindex"));
          for (const { name } of indexes) expect(files.stat(`${ROOT}/${name.replace("tindex", "log")}`)).toBeDefined();
        }
      }
    }
  });

  it("a seek gives what a full scan gives, also across lost records", () => {
    fc.assert(
      fc.property(
        fc.array(fc.bigInt({ min: 0n, max: 40n }), { maxLength: 60 }),
        fc.integer({ min: 1, max: 20 }),
        fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
        fc.option(fc.nat(59), { nil: undefined }),
        (timestamps, perSegment, wide, lost) => {
          const { log, files } = logOf(timestamps, perSegment);
          const world = { files, codec, root: ROOT };
          for (const wanted of [0n, 1n, 20n, 39n, 40n, 41n, wide]) {
            expect(seekTime(log, wanted, world)).toBe(scanned(timestamps, wanted));
          }
          if (lost === undefined || lost >= timestamps.length) return;
          const id = Math.floor(lost / perSegment);
          files.flipBit(segmentPath(id), 64 + (lost - id * perSegment) * 44 + 36, 1);
          const again = Log.open(
            {
              root: ROOT,
              maxSegmentBytes: 1024 * 1024,
              maxPendingBytes: 1024 * 1024,
              durability: { level: "sync", flushIntervalMs: 1000, flushMaxBytes: 1024 * 1024 },
              fullScan: true,
            },
            { files, codec, clock: new SimulatedClock() },
            { advanced: () => {}, rejected: () => {}, froze: () => {} },
          );
          const left = timestamps.slice(0, again.visibleHead).map((each, i) => (i === lost ? -1n : each));
          for (const wanted of [0n, 20n, 40n]) expect(seekTime(again, wanted, world)).toBe(scanned(left, wanted));
        },
      ),
      { numRuns: 150 },
    );
  });
});
