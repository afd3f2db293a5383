import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { Batch } from "../../src/log/batch.ts";
import { SegmentEntry } from "../../src/log/segment-entry.ts";
import { TailCache } from "../../src/log/tail-cache.ts";
import { MemoryFile } from "../../src/runtime/memory-file.ts";
import { lcg, segmentPath } from "./fixtures.ts";
import { newDisk, numbered, TestLog } from "./open-log.ts";

const MiB = 1024 * 1024;

function segment(id: number): SegmentEntry {
  return new SegmentEntry(id, segmentPath(id), 0, 0, 64);
}

describe("TailCache", () => {
  it("gives what the file holds or nothing, whatever was added, and keeps within its bound", () => {
    const additions = fc.array(
      fc.record({
        length: fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 60_000, max: 130_000 })),
        rolls: fc.integer({ min: 0, max: 9 }).map((value) => value === 0),
        /** Another buffer length than the pool's, as of a record that is larger than a batch. */
        large: fc.integer({ min: 0, max: 9 }).map((value) => value === 0),
      }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(additions, fc.infiniteStream(fc.nat()), (steps, numbers) => {
        const bound = 512 * 1024;
        const cache = new TailCache(bound);
        const next = () => numbers.next().value as number;
        let current = segment(0);
        const files = new Map([[current, new Uint8Array(64)]]);
        const inUse = new Set<Uint8Array>();
        for (const [index, { length, rolls, large }] of steps.entries()) {
          if (rolls) {
            current = segment(index + 1);
            files.set(current, new Uint8Array(64));
          }
          const file = files.get(current) as Uint8Array;
          const start = file.length % 4096;
          const records = lcg(index, length);
          const buffer = new Uint8Array(large ? 1_000_000 : 140_000);
          buffer.set(file.subarray(file.length - start));
          buffer.set(records, start);
          const batch: Batch = {
            buffer,
            start,
            end: start + length,
            limit: 0,
            segment: current,
            position: file.length - start,
            baseOffset: 0,
            count: 1,
            bodyBytes: 0,
            seals: false,
          };
          files.set(current, Buffer.concat([file, records]));
          inUse.add(buffer);
          const free = cache.add(batch);
          if (free !== undefined) {
            expect(inUse.delete(free)).toBe(true);
            // Whoever gets it writes to it.
            free.fill(0xee);
          }
          for (let read = 0; read < 4; read++) {
            const [of, bytes] = [...files][next() % files.size];
            const position = next() % bytes.length;
            const count = 1 + (next() % (bytes.length - position));
            const target = new Uint8Array(count + 2).fill(7);
            if (cache.read(of, target, 1, count, position)) {
              expect(Buffer.compare(target.subarray(1, 1 + count), bytes.subarray(position, position + count))).toBe(0);
              expect([target[0], target[count + 1]]).toEqual([7, 7]);
            } else {
              expect(target.every((byte) => byte === 7)).toBe(true);
            }
          }
          // The newest batch is there, unless it is larger than everything that may be.
          const whole = files.get(current) as Uint8Array;
          const found = cache.read(current, new Uint8Array(length), 0, length, whole.length - length);
          expect(found || buffer.length > bound).toBe(true);
        }
        // What nobody has back is what the cache holds.
        let held = 0;
        for (const buffer of inUse) held += buffer.length;
        expect(held).toBeLessThanOrEqual(bound + steps.filter(({ large }) => large).length * 1_000_000);
      }),
      { numRuns: 60 },
    );
  });

  it("forgets everything when told", () => {
    const cache = new TailCache(MiB);
    const of = segment(0);
    const buffer = lcg(1, 4096);
    const batch = {
      buffer,
      start: 64,
      end: 200,
      limit: 0,
      segment: of,
      position: 0,
      baseOffset: 0,
      count: 1,
      bodyBytes: 0,
      seals: false,
    };
    cache.add(batch);
    expect(cache.read(of, new Uint8Array(10), 0, 10, 64)).toBe(true);
    // In front of its records a batch has what belongs to others.
    expect(cache.read(of, new Uint8Array(10), 0, 10, 60)).toBe(false);
    expect(cache.read(of, new Uint8Array(10), 0, 10, 195)).toBe(false);
    expect(cache.read(segment(0), new Uint8Array(10), 0, 10, 64)).toBe(false);
    cache.clear();
    expect(cache.read(of, new Uint8Array(10), 0, 10, 64)).toBe(false);
  });
});

describe("a log with direct writes", () => {
  /** What `read` returns, and how often a segment's file was read for it. */
  function readsOf<T>(read: () => T): { result: T; reads: number } {
    const spy = vi.spyOn(MemoryFile.prototype, "read");
    try {
      const result = read();
      const files = spy.mock.contexts as MemoryFile[];
      return { result, reads: files.filter(({ path }) => path.includes("/seg-")).length };
    } finally {
      spy.mockRestore();
    }
  }

  it("serves its newest records from memory, over rolls too, and older ones from the disk", () => {
    const test = new TestLog({ directWrites: true, maxSegmentBytes: 300_000, maxPendingBytes: 2 * MiB });
    const payloads = Array.from({ length: 3000 }, (_, index) => `${index}:${"x".repeat(1000)}`);
    for (let at = 0; at < payloads.length; at += 40) test.commit(payloads.slice(at, at + 40));
    const newest = readsOf(() => numbered(500).map((_, index) => test.payload(2500 + index)));
    expect(newest).toEqual({ result: payloads.slice(2500), reads: 0 });
    const old = readsOf(() => test.payload(100));
    expect(old.result).toBe(payloads[100]);
    expect(old.reads).toBeGreaterThan(0);
    expect(test.payloads()).toEqual(payloads);
  });

  it("keeps nothing in buffered mode", () => {
    const test = new TestLog();
    test.commit(numbered(3));
    expect(readsOf(() => test.payload(2)).reads).toBeGreaterThan(0);
  });

  it("gives its memory back when idle, and goes on from the disk", () => {
    const test = new TestLog({ directWrites: true });
    test.commit(numbered(3));
    for (const _ of [1, 2]) {
      test.log.tick();
      test.clock.advance(6000);
      test.log.tick();
    }
    expect(readsOf(() => test.payload(2)).reads).toBeGreaterThan(0);
    test.commit(["next"]);
    expect(test.payloads()).toEqual([...numbered(3), "next"]);
  });

  it("records that were rejected are not found under the offsets of those that came instead", () => {
    const test = new TestLog({ directWrites: true, maxSegmentBytes: 184 }, newDisk());
    test.commit(numbered(3));
    test.files.fail({ operation: "open", path: /seg-.*1\.log/, code: "EMFILE" });
    test.commit(["rejected"]);
    test.files.clearFaults();
    test.commit(["instead", "and more"]);
    test.commit(["and more still"]);
    const { result, reads } = readsOf(() => test.payloads().slice(3));
    expect(result.at(-1)).toBe("and more still");
    expect(result).not.toContain("rejected");
    expect(reads).toBe(0);
  });

  it("after a close and a start everything comes from the disk", async () => {
    const test = new TestLog({ directWrites: true });
    test.commit(numbered(3));
    await test.close();
    const again = new TestLog({ directWrites: true }, test.files);
    expect(again.payloads()).toEqual(numbered(3));
    again.commit(["next"]);
    expect(again.payloads()).toEqual([...numbered(3), "next"]);
  });
});
