import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Durability } from "../../src/log/durability.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { get, ROOT, segmentPath } from "./fixtures.ts";
import { newDisk, numbered, publishes, TestLog } from "./open-log.ts";

const LEVELS: readonly Durability["level"][] = ["sync", "interval", "async", "none"];

function level(name: Durability["level"]): Durability {
  return { level: name, flushIntervalMs: 1000, flushMaxBytes: 100_000 };
}

/** Payloads that no other test step writes, of a length that the disk feels. */
function bulky(count: number, from: number, length = 2000): string[] {
  return Array.from({ length: count }, (_, index) => `m${from + index}:`.padEnd(length, "."));
}

describe("a disk that is full while the log runs", () => {
  it.each(LEVELS)("%s: refuses, keeps what was visible, mints the same offsets again once there is room", (name) => {
    const test = new TestLog({ durability: level(name) });
    test.commit(numbered(3));
    test.files.limitSpace(0);
    test.commit(bulky(20, 100));
    expect(test.told).toContain("rejected 3 disk-full");
    expect(test.log.refusal?.message).toMatch(/^disk is full \(.*ENOSPC.*\); produce rejected$/);
    expect(test.log.frozen).toBeUndefined();
    expect(test.log.nextOffset).toBe(3);
    expect(test.log.visibleHead).toBe(3);
    expect(test.payloads()).toEqual(numbered(3));
    // Cut off, and durably so: what was written behind the records is not taken for the next ones.
    expect(get(test.files, segmentPath(0))).toHaveLength(64 + 3 * 46);
    const image = new TestLog({}, test.files.imageAfterPowerCut({ style: "lost" }));
    expect(image.payloads()).toEqual(numbered(3));
    test.files.limitSpace(100_000_000);
    test.clock.advance(100);
    test.commit(numbered(5, 3));
    expect(test.payloads()).toEqual(numbered(8));
    expect(test.log.refusal).toBeUndefined();
  });

  it("a segment that was made in vain does not come back with a power cut", () => {
    const files = newDisk();
    files.fail({ operation: "write", path: /seg-/, code: "ENOSPC", times: 2 });
    const test = new TestLog({}, files);
    // As the broker makes them: from here on a lone segment without a header is a damaged one.
    files.open(`${ROOT}/cursor.ckpt`, "create").close();
    files.syncDirectory(ROOT);
    test.clock.advance(1000);
    test.commit(["refused"]);
    expect(test.told).toEqual(["rejected 0 disk-full"]);
    for (let seed = 1; seed <= 30; seed++) {
      const image = files.imageAfterPowerCut({ seed, turns: "manual" });
      expect(image.stat(segmentPath(0))).toBeUndefined();
      expect(new TestLog({}, image).log.losses).toEqual([]);
    }
  });

  it("direct: does not fill what is left of the disk with the zeros of a segment that does not fit", () => {
    const files = newDisk();
    const maxSegmentBytes = 64 * 1024;
    const test = new TestLog({ directWrites: true, maxSegmentBytes }, files);
    test.commit(bulky(5, 0));
    files.limitSpace(maxSegmentBytes - 1);
    const touched: string[] = [];
    files.onOperation = (operation, path) => touched.push(`${operation} ${path}`);
    test.commit(bulky(40, 5));
    expect(test.log.refusal?.kind).toBe("disk-full");
    expect(touched.filter((step) => step.endsWith(segmentPath(1)))).toEqual([]);
    files.limitSpace(10 * maxSegmentBytes);
    test.clock.advance(1000);
    test.commit(bulky(40, test.log.nextOffset));
    expect(test.log.refusal).toBeUndefined();
    expect(test.log.segments).toHaveLength(3);
  });

  it("direct: a last block that cannot be read back freezes, and publishers hear of it", () => {
    const test = new TestLog({ directWrites: true, maxSegmentBytes: 1024 * 1024 });
    test.commit(numbered(10));
    test.files.fail({ operation: "write", path: /seg-/, code: "ENOSPC" });
    test.files.fail({ operation: "read", path: /seg-/, code: "EIO" });
    test.commit(numbered(5, 10));
    expect(test.log.frozen?.message).toContain("EIO");
    expect(test.log.visibleHead).toBe(10);
    expect(test.payloads()).toEqual(numbered(10));
  });

  it("waits a second before the next try, without a sign of room", () => {
    const test = new TestLog();
    test.files.limitSpace(0);
    test.commit(bulky(5, 0));
    const writes = countWrites(test);
    for (let index = 0; index < 9; index++) {
      test.clock.advance(100);
      expect(test.append(bulky(5, 0))).toBe(0);
      test.log.pump();
      test.files.runAll();
    }
    expect(writes()).toBe(0);
    test.clock.advance(100);
    test.commit(bulky(5, 0));
    expect(writes()).toBeGreaterThan(0);
    expect(test.log.frozen).toBeUndefined();
  });

  it("tells who waits once it may be tried again, also when nothing is appended", () => {
    const test = new TestLog();
    test.files.limitSpace(0);
    test.commit(bulky(5, 0));
    test.told.length = 0;
    test.clock.advance(500);
    test.log.tick();
    expect(test.told).toEqual([]);
    test.clock.advance(500);
    test.log.tick();
    expect(test.told).toEqual(["advanced 0"]);
  });

  it("a batch behind the one that failed is given up with it, even if it was written", () => {
    const test = new TestLog();
    test.commit(numbered(3));
    test.files.fail({ operation: "write", path: /seg-/, code: "ENOSPC" });
    // More than a batch holds: two of them are with the I/O thread.
    expect(test.append(bulky(700, 100))).toBe(700);
    test.log.pump();
    test.files.runAll();
    expect(test.told.filter((line) => line.startsWith("rejected"))).toEqual(["rejected 3 disk-full"]);
    expect(test.payloads()).toEqual(numbered(3));
    expect(test.log.nextOffset).toBe(3);
    expect(test.log.hasRoom).toBe(true);
    test.clock.advance(1000);
    test.commit(bulky(700, 3));
    expect(test.log.visibleHead).toBe(703);
    expect(test.payload(702)).toBe(bulky(1, 702)[0]);
  });

  it("EDQUOT is the same", () => {
    const test = new TestLog();
    test.files.fail({ operation: "write", path: /seg-/, code: "EDQUOT" });
    test.commit(["x"]);
    expect(test.told).toContain("rejected 0 disk-full");
    expect(test.log.frozen).toBeUndefined();
  });

  it("no room for a footer: the full segment stays the one that is filled, and is sealed later", () => {
    const test = new TestLog({ maxSegmentBytes: 184 });
    test.commit(numbered(3));
    test.files.fail({ operation: "write", path: /seg-0*0\.log/, code: "ENOSPC" });
    test.commit(["m3"]);
    expect(test.told).toContain("rejected 3 disk-full");
    expect(test.log.segments.map((segment) => segment.sealed)).toEqual([false]);
    test.clock.advance(1000);
    test.commit(numbered(4, 3));
    expect(test.payloads()).toEqual(numbered(7));
    expect(get(test.files, segmentPath(0))).toHaveLength(234);
  });

  it("no room for the next segment's header: deferred, and its file takes no space meanwhile", () => {
    const test = new TestLog({ maxSegmentBytes: 184 });
    test.commit(numbered(3));
    test.files.fail({ operation: "write", path: /seg-0*1\.log/, code: "ENOSPC" });
    test.commit(["m3"]);
    expect(test.told).toContain("rejected 3 disk-full");
    expect(test.files.stat(segmentPath(1))).toBeUndefined();
    expect(test.log.segments.map((segment) => segment.sealed)).toEqual([true]);
    expect(test.payloads()).toEqual(numbered(3));
    test.clock.advance(1000);
    test.commit(numbered(4, 3));
    expect(test.payloads()).toEqual(numbered(7));
    expect(test.log.segments.map((segment) => segment.id)).toEqual([0, 1, 2]);
  });

  it("no room to preallocate is no failure", () => {
    const test = new TestLog({ maxSegmentBytes: 184 });
    test.files.fail({ operation: "allocate", code: "ENOSPC", times: Number.POSITIVE_INFINITY });
    test.commit(numbered(10));
    expect(test.payloads()).toEqual(numbered(10));
    expect(test.told.filter((line) => line.startsWith("rejected"))).toEqual([]);
  });

  it("a barrier that reports it freezes: its pages may count as clean", () => {
    const test = new TestLog();
    test.commit(numbered(3));
    test.files.fail({ operation: "sync", path: /seg-/, code: "ENOSPC" });
    test.commit(["x"]);
    expect(test.log.frozen?.message).toMatch(/ENOSPC/);
    expect(test.log.refusal).toBeUndefined();
  });

  it("a cut that fails freezes", () => {
    for (const operation of ["truncate", "sync"] as const) {
      const test = new TestLog();
      test.commit(numbered(3));
      test.files.fail({ operation: "write", path: /seg-/, code: "ENOSPC" });
      test.files.fail({ operation, path: /seg-/, code: "EIO" });
      test.commit(["x"]);
      expect(test.log.frozen?.message).toMatch(/EIO/);
      expect(test.payloads()).toEqual(numbered(3));
    }
  });

  it("can be closed while full, and while the cut is under way", async () => {
    const test = new TestLog();
    test.commit(numbered(3));
    test.files.limitSpace(0);
    test.append(bulky(20, 100));
    await test.close();
    const again = new TestLog({}, test.files);
    expect(again.payloads()).toEqual(numbered(3));
  });
});

describe("README ruling 11: a start on a full disk", () => {
  it("serves what is there, refuses, and makes the first segment of this run once there is room", async () => {
    const before = new TestLog({ maxSegmentBytes: 184 });
    before.commit(numbered(4));
    await before.close();
    // The last segment is full: this run has to make one, and cannot.
    const files = before.files;
    const test = new TestLog({ maxSegmentBytes: 184 }, files);
    test.commit(numbered(2, 4));
    await test.close();
    files.limitSpace(0);
    const names = files.list(ROOT).map(({ name }) => name);
    const full = new TestLog({ maxSegmentBytes: 184 }, files);
    expect(full.payloads()).toEqual(numbered(6));
    full.commit(["refused"]);
    full.clock.advance(1000);
    full.commit(["refused"]);
    expect(full.payloads()).toEqual(numbered(6));
    expect(full.log.frozen).toBeUndefined();
    expect(full.log.refusal?.kind).toBe("disk-full");
    expect(files.list(ROOT).map(({ name }) => name)).toEqual(names);
    files.limitSpace(100_000_000);
    full.clock.advance(1000);
    full.commit(numbered(3, 6));
    expect(full.payloads()).toEqual(numbered(9));
  });

  it("an empty directory: no segment at all until there is room, and then the first one", async () => {
    const files = newDisk();
    files.limitSpace(0);
    const test = new TestLog({}, files);
    expect(test.log.earliestOffset).toBe(0);
    expect(test.log.segments).toEqual([]);
    expect(test.append(["refused"])).toBe(0);
    expect(test.log.refusal?.kind).toBe("disk-full");
    test.clock.advance(2000);
    test.log.tick();
    test.commit(["refused"]);
    expect(test.told).toContain("rejected 0 disk-full");
    files.limitSpace(100_000_000);
    test.clock.advance(2000);
    test.commit(numbered(3));
    expect(test.payloads()).toEqual(numbered(3));
    await test.close();
    expect(new TestLog({}, files).payloads()).toEqual(numbered(3));
  });

  it("is closed without a segment too", async () => {
    const files = newDisk();
    files.limitSpace(0);
    const test = new TestLog({}, files);
    await test.close();
    expect(test.log.frozen).toBeUndefined();
  });

  it("any other failure there refuses to open", () => {
    const files = newDisk();
    files.fail({ operation: "write", path: /seg-/, code: "EIO" });
    expect(() => new TestLog({}, files)).toThrow(/EIO/);
  });
});

/** How the creation of a segment fails, now and then, if one is due. */
const NO_CREATION = fc.constantFrom("", "", "", "EMFILE", "ENOSPC");

describe("space that comes and goes", () => {
  it("never freezes, never loses or changes what was visible, and counts no byte twice", () => {
    const step = fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({ publish: fc.integer({ min: 1, max: 30 }), length: fc.nat(3000), creation: NO_CREATION }),
      },
      { weight: 2, arbitrary: fc.record({ space: fc.nat(60_000) }) },
      { weight: 1, arbitrary: fc.record({ space: fc.constant(10_000_000) }) },
      { weight: 2, arbitrary: fc.record({ waitMs: fc.nat(1500) }) },
      { weight: 1, arbitrary: fc.record({ remove: fc.integer({ min: 1, max: 3 }) }) },
      { weight: 1, arbitrary: fc.constant({ restart: true }) },
    );
    const property = fc.property(
      fc.array(step, { minLength: 1, maxLength: 40 }),
      fc.constantFrom(...LEVELS),
      fc.nat(),
      (steps, name, seed) => {
        const options = { maxSegmentBytes: 8192, durability: level(name), maxPendingBytes: 128 * 1024 };
        const clock = new SimulatedClock();
        let test = new TestLog(options, newDisk(seed), clock);
        const model: string[] = [];
        for (const now of steps) {
          if ("publish" in now) {
            const { creation } = now;
            if (creation !== "") test.files.fail({ operation: "open", path: /seg-/, code: creation });
            const { chunk, table } = publishes(bulky(now.publish, model.length, now.length));
            const taken = test.log.append(chunk, table, 0, now.publish);
            test.log.pump();
            test.files.runAll();
            test.files.clearFaults();
            const visible = test.log.visibleHead;
            expect(visible).toBeLessThanOrEqual(model.length + taken);
            model.push(...bulky(visible - model.length, model.length, now.length));
          } else if ("space" in now) test.files.limitSpace(now.space);
          else if ("waitMs" in now) {
            clock.advance(now.waitMs);
            test.log.tick();
            test.files.runAll();
          } else if ("remove" in now) {
            test.log.removeOldest(now.remove, () => {});
            test.files.runAll();
          } else {
            void test.log.close();
            test.files.runAll();
            test = new TestLog(options, test.files, clock);
          }
          expect(test.log.frozen).toBeUndefined();
          expect(test.log.nextOffset).toBe(model.length);
          expect(test.log.visibleHead).toBe(model.length);
          expect(test.payloads()).toEqual(model.slice(test.log.earliestOffset));
          const image = test.files.imageAfterPowerCut({ style: "kept" });
          const recount = new TestLog(options, image).log;
          expect(test.log.written.recordBytes).toBe(recount.written.recordBytes);
          expect(recount.nextOffset).toBe(model.length);
        }
        if (name !== "sync") return;
        const survived = new TestLog(options, test.files.cutPower());
        expect(survived.payloads()).toEqual(model.slice(survived.log.earliestOffset));
        expect(survived.log.nextOffset).toBe(model.length);
      },
    );
    fc.assert(property, { numRuns: 150 });
  });
});

function countWrites(test: TestLog): () => number {
  let writes = 0;
  test.files.onOperation = (operation) => {
    if (operation === "write") writes += 1;
  };
  return () => writes;
}
