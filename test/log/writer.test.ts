import { describe, expect, it } from "vitest";
import type { Durability } from "../../src/log/durability.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { get, lcg, ROOT, segmentPath } from "./fixtures.ts";
import { newDisk, numbered, TestLog } from "./open-log.ts";

function level(name: Durability["level"], flushIntervalMs = 1000, flushMaxBytes = 1024 * 1024): Durability {
  return { level: name, flushIntervalMs, flushMaxBytes };
}

describe("group commit", () => {
  it("storage.md 26.29: nothing is visible before the barrier, then all of it, by one barrier", () => {
    const test = new TestLog();
    test.files.holdBarriers(/seg-/);
    test.append(["first"]);
    test.log.pump();
    test.files.runAll();
    let barriers = 0;
    test.files.onOperation = (operation) => {
      if (operation === "sync") barriers += 1;
    };
    for (const payload of numbered(50)) {
      test.append([payload]);
      test.log.pump();
    }
    test.files.runAll();
    expect(test.told).toEqual([]);
    expect(test.log.visibleHead).toBe(0);
    expect(test.log.nextOffset).toBe(51);
    test.files.releaseBarriers();
    test.files.runAll();
    // The first record's barrier, then one for the fifty that came meanwhile.
    expect(test.told).toEqual(["advanced 1", "advanced 51"]);
    expect(barriers).toBe(2);
    expect(test.payloads()).toEqual(["first", ...numbered(50)]);
  });

  it("storage.md 26.30: a failed barrier freezes for good, what was visible stays readable, a restart has the acked prefix", async () => {
    const test = new TestLog();
    test.commit(numbered(3));
    test.files.fail({ operation: "sync", path: /seg-/, code: "EIO" });
    test.commit(["lost"]);
    expect(test.log.frozen?.message).toMatch(/EIO/);
    expect(test.log.visibleHead).toBe(3);
    expect(test.append(["refused"])).toBe(0);
    test.log.pump();
    test.files.runAll();
    expect(test.told.filter((line) => line.startsWith("froze"))).toHaveLength(1);
    expect(test.payloads()).toEqual(numbered(3));
    await test.close();
    const image = test.files.cutPower({ style: "lost" });
    // The bytes of the failed barrier may have reached the disk or not; nobody was told that they did.
    const survived = new TestLog({}, image).payloads();
    expect(survived.slice(0, 3)).toEqual(numbered(3));
    expect(["", "lost"]).toContain(survived.slice(3).join());
  });

  it("what a failed barrier left in the cache is not taken for written by the next start", async () => {
    const faults = [
      { operation: "sync", path: /seg-/ },
      { operation: "sync-directory", path: /data/ },
    ] as const;
    for (const durability of [level("sync"), level("interval", 0, 150)]) {
      for (const fault of faults) {
        for (let seed = 1; seed <= 20; seed++) {
          const test = new TestLog({ maxSegmentBytes: 400, durability }, newDisk(seed));
          test.commit(numbered(8));
          test.files.fail({ ...fault, code: "EIO", skip: seed % 4 });
          for (let index = 8; test.log.frozen === undefined; index++) test.commit(numbered(1, index));
          const visible = test.payloads();
          await test.close();
          test.files.clearFaults();
          const restarted = new TestLog({ maxSegmentBytes: 400 }, test.files);
          restarted.commit(numbered(5, 100));
          const expected = restarted.payloads();
          expect(expected.slice(0, visible.length)).toEqual(visible);
          expect(expected.slice(-5)).toEqual(numbered(5, 100));
          const after = new TestLog({ maxSegmentBytes: 400 }, restarted.files.cutPower({ style: "lost" }));
          expect(after.payloads(), `seed ${seed}, ${durability.level}, ${fault.operation}`).toEqual(expected);
        }
      }
    }
  });

  it("a failed write freezes too", () => {
    const test = new TestLog();
    test.files.fail({ operation: "write", path: /seg-/, code: "EIO" });
    test.commit(["x"]);
    expect(test.log.frozen?.message).toMatch(/EIO/);
    expect(test.log.visibleHead).toBe(0);
  });

  it("takes only as much as the pending bound allows, and the rest once there is room", () => {
    const test = new TestLog({ maxPendingBytes: 256 * 1024 });
    test.files.holdBarriers(/seg-/);
    const payloads = Array.from({ length: 400 }, (_, index) => lcg(index, 1000));
    const taken = test.append(payloads);
    expect(taken).toBeGreaterThan(100);
    expect(taken).toBeLessThan(300);
    test.log.pump();
    test.files.runAll();
    expect(test.append(payloads.slice(taken))).toBe(0);
    test.files.releaseBarriers();
    test.files.runAll();
    expect(test.append(payloads.slice(taken))).toBeGreaterThan(0);
  });
});

describe("segments", () => {
  it("storage.md 26.13: three records, sealed, are 234 bytes; the next segment continues at 3/3", () => {
    // m0 m1 m2 take 46 bytes each: the segment is full after the third.
    const test = new TestLog({ maxSegmentBytes: 184 });
    test.commit(numbered(4));
    const sealed = get(test.files, segmentPath(0));
    expect(sealed).toHaveLength(234);
    const next = new DataView(get(test.files, segmentPath(1)).buffer);
    expect(next.getBigUint64(20, true)).toBe(3n);
    expect(next.getBigUint64(28, true)).toBe(3n);
    expect(test.payloads()).toEqual(numbered(4));
  });

  it("storage.md 26.15: ids are consecutive and only the last segment has no footer", async () => {
    const test = new TestLog({ maxSegmentBytes: 184 });
    for (const payload of numbered(40)) test.commit([payload.padEnd(8, ".")]);
    const names = test.files.list(ROOT).filter((entry) => entry.name.startsWith("seg-"));
    expect(names.length).toBeGreaterThan(10);
    for (const [id, entry] of names.entries()) {
      expect(entry.name).toBe(`seg-${id.toString(16).padStart(16, "0")}.log`);
      const bytes = get(test.files, `${ROOT}/${entry.name}`);
      const hasFooter = bytes[bytes.length - 32] === 0x53 && bytes[bytes.length - 31] === 0x46;
      expect(hasFooter).toBe(id < names.length - 1);
    }
    await test.close();
    const again = new TestLog({ maxSegmentBytes: 184 }, test.files);
    expect(again.payloads()).toEqual(numbered(40).map((payload) => payload.padEnd(8, ".")));
    expect(again.log.nextOffset).toBe(40);
  });

  it("one append crosses several segments, and the batches that wait for a roll keep their order", () => {
    const test = new TestLog({ maxSegmentBytes: 400 });
    test.commit(numbered(200));
    expect(test.payloads()).toEqual(numbered(200));
  });

  it("storage.md 26.14: a sealed file is the same whether or not it could be preallocated", () => {
    const images = [true, false].map((preallocates) => {
      const files = newDisk();
      if (!preallocates) files.fail({ operation: "allocate", code: "EOPNOTSUPP", times: Number.POSITIVE_INFINITY });
      const test = new TestLog({ maxSegmentBytes: 4096 }, files);
      test.commit(numbered(300));
      return get(files, segmentPath(0));
    });
    expect(images[0]).toEqual(images[1]);
  });

  it("storage.md 26.33: no descriptor for the next segment is one refusal, and no gap", () => {
    const test = new TestLog({ maxSegmentBytes: 184 });
    test.commit(numbered(3));
    test.files.fail({ operation: "open", path: /seg-.*1\.log/, code: "EMFILE", times: 2 });
    test.commit(["sealing and creating"]);
    expect(test.told).toContain("rejected 3");
    expect(test.log.frozen).toBeUndefined();
    test.files.clearFaults();
    test.commit(["after"]);
    expect(test.payloads()).toEqual([...numbered(3), "after"]);
    expect(test.log.nextOffset).toBe(4);
  });

  it("storage.md 26.33: a failed directory barrier at that place freezes", () => {
    const test = new TestLog({ maxSegmentBytes: 184 });
    test.commit(numbered(3));
    test.files.fail({ operation: "sync-directory", path: /data$/, code: "EIO" });
    test.commit(["x", "y"]);
    expect(test.log.frozen?.message).toMatch(/EIO/);
    expect(test.payloads()).toEqual(numbered(3));
  });

  it("holds a record larger than a batch, alone and between others", () => {
    const test = new TestLog({ maxPendingBytes: 128 * 1024 });
    const large = lcg(7, 3_000_000);
    test.commit(["before", large, "between", lcg(8, 200_000), "after"]);
    expect(test.log.visibleHead).toBe(5);
    expect(Buffer.compare(test.payloadBytes(1), large)).toBe(0);
    expect(test.payload(2)).toBe("between");
    expect(Buffer.compare(test.payloadBytes(3), lcg(8, 200_000))).toBe(0);
    expect(test.payload(4)).toBe("after");
  });
});

describe("reading", () => {
  it("finds any offset, near and far, in any order", async () => {
    const test = new TestLog({ maxSegmentBytes: 300_000 });
    const count = 5000;
    test.commit(Array.from({ length: count }, (_, index) => `${index}:${"x".repeat(index % 700)}`));
    const check = (log: TestLog) => {
      for (let index = 0, offset = 17; index < 2000; index++, offset = (offset * 7919 + 13) % count) {
        expect(log.payload(offset)).toBe(`${offset}:${"x".repeat(offset % 700)}`);
      }
    };
    check(test);
    await test.close();
    check(new TestLog({ maxSegmentBytes: 300_000 }, test.files));
  });

  it("does not hand out a record whose bytes changed", () => {
    const test = new TestLog();
    test.commit(numbered(10));
    test.files.flipBit(segmentPath(0), 64 + 5 * 46 + 37, 3);
    expect(test.payload(4)).toBe("m4");
    expect(test.log.read(5, test.log.visibleHead)).toBeUndefined();
    expect(test.log.gapAt(5)).toEqual({ start: 5, end: 6 });
    expect(test.payload(6)).toBe("m6");
  });
});

describe("durability levels (storage.md 15)", () => {
  function barriersOf(test: TestLog): string[] {
    const barriers: string[] = [];
    test.files.onOperation = (operation, path) => {
      if (operation === "sync") barriers.push(path);
    };
    return barriers;
  }

  it("none and async: visible at the write, no barrier until the log is closed", async () => {
    for (const name of ["none", "async"] as const) {
      const test = new TestLog({ durability: level(name) });
      const barriers = barriersOf(test);
      test.commit(numbered(10));
      test.clock.advance(60_000);
      test.log.tick();
      test.files.runAll();
      expect(test.log.visibleHead).toBe(10);
      expect(test.log.durableHead).toBe(0);
      expect(barriers).toEqual([]);
      await test.close();
      expect(barriers).toEqual([segmentPath(0)]);
    }
  });

  it("none: large writes ask for writeback, so that the roll's barrier does not find a whole segment to write", () => {
    const files = newDisk();
    const jobs: (boolean | undefined)[] = [];
    const createQueue = files.createQueue.bind(files);
    files.createQueue = () => {
      const queue = createQueue();
      const submit = queue.submit.bind(queue);
      queue.submit = (job) => {
        if (job.write !== undefined) jobs.push(job.barrier === "none" && job.writeback);
        submit(job);
      };
      return queue;
    };
    const test = new TestLog({ durability: level("none") }, files);
    test.commit(numbered(3));
    expect(jobs).toEqual([]);
    test.commit(Array.from({ length: 100 }, () => "x".repeat(1000)));
    expect(jobs).toEqual([true]);
  });

  it("none: a roll is a barrier all the same", () => {
    const test = new TestLog({ durability: level("none"), maxSegmentBytes: 184 });
    test.commit(numbered(4));
    expect(test.log.durableHead).toBe(3);
  });

  it("storage.md 26.32: interval syncs by time, also when nothing new arrives", () => {
    const test = new TestLog({ durability: level("interval", 1000, 0) });
    const barriers = barriersOf(test);
    test.commit(["a"]);
    expect(test.log.visibleHead).toBe(1);
    test.clock.advance(999);
    test.log.tick();
    test.files.runAll();
    expect(barriers).toEqual([]);
    test.clock.advance(1);
    test.log.tick();
    test.files.runAll();
    expect(barriers).toHaveLength(1);
    expect(test.log.durableHead).toBe(1);
  });

  it("interval syncs by bytes", () => {
    const test = new TestLog({ durability: level("interval", 0, 1000) });
    const barriers = barriersOf(test);
    test.commit(["x".repeat(600)]);
    expect(barriers).toHaveLength(0);
    test.commit(["x".repeat(600)]);
    expect(barriers).toHaveLength(1);
    expect(test.log.durableHead).toBe(2);
  });
});

describe("README ruling 12: the data directory is not what it was", () => {
  it("freezes before it acknowledges into a removed file", () => {
    const test = new TestLog();
    test.commit(["kept"]);
    test.files.remove(segmentPath(0));
    test.clock.advance(1000);
    test.commit(["lost"]);
    expect(test.log.frozen?.message).toMatch(/removed/);
    expect(test.log.visibleHead).toBe(1);
  });

  it("freezes when the path is another file by now", () => {
    const test = new TestLog();
    test.commit(["kept"]);
    test.files.rename(segmentPath(0), `${ROOT}/aside`);
    test.files.open(segmentPath(0), "create-new").close();
    test.clock.advance(1000);
    test.commit(["lost"]);
    expect(test.log.frozen?.message).toMatch(/replaced/);
  });

  it("notices while idle", () => {
    const test = new TestLog();
    test.files.remove(segmentPath(0));
    test.clock.advance(1000);
    test.log.tick();
    expect(test.log.frozen?.message).toMatch(/removed/);
  });
});

describe("storage.md 26.31, README: the power goes at any operation", () => {
  it("what a cut leaves of a batch is never more than recovery takes for a torn end, however small the segments", () => {
    for (let seed = 1; seed <= 400; seed++) {
      const test = new TestLog({ maxSegmentBytes: 4096 }, newDisk(seed));
      test.commit(numbered(3));
      const acked = test.payloads();
      test.append([
        ...numbered(30),
        "x".repeat(test.log.maxBodyBytes),
        ...numbered(60),
        "y".repeat(4000),
        "z".repeat(4000),
      ]);
      test.log.pump();
      for (let step = seed % 12; step > 0; step--) test.files.step();
      const after = new TestLog({ maxSegmentBytes: 4096 }, test.files.cutPower());
      expect(after.payloads().slice(0, acked.length)).toEqual(acked);
    }
  });

  const SEEDS = Number(process.env.IRONBUS_POWER_CUT_SEEDS ?? 64);

  /** Publishes and rolls, cutting the power after operation `cutAt`; returns what was acknowledged and what survived. */
  function run(seed: number, cutAt: number): { acked: number; survived: string[]; operations: number } {
    const files = newDisk(seed);
    let acked = 0;
    let image: ReturnType<typeof files.imageAfterPowerCut> | undefined;
    let ackedAtCut = 0;
    files.onOperation = () => {
      if (files.operations === cutAt) {
        image = files.imageAfterPowerCut();
        ackedAtCut = acked;
      }
    };
    const test = new TestLog({ maxSegmentBytes: 300 }, files, new SimulatedClock());
    for (let index = 0; index < 12; index++) {
      test.commit(numbered(1 + ((seed + index) % 3), test.log.nextOffset));
      acked = test.log.visibleHead;
    }
    if (image === undefined) return { acked: 0, survived: [], operations: files.operations };
    const again = new TestLog({ maxSegmentBytes: 300 }, image);
    const survived = again.payloads();
    again.commit(["next"]);
    expect(again.payload(survived.length)).toBe("next");
    return { acked: ackedAtCut, survived, operations: files.operations };
  }

  it(`loses nothing acknowledged and invents nothing, over ${SEEDS} seeds`, () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { operations } = run(seed, Number.POSITIVE_INFINITY);
      for (let cutAt = 1 + (seed % 3); cutAt <= operations; cutAt += 3) {
        const { acked, survived } = run(seed, cutAt);
        const where = `seed ${seed}, cut after operation ${cutAt}`;
        expect(survived.length, where).toBeGreaterThanOrEqual(acked);
        expect(survived, where).toEqual(numbered(survived.length));
      }
    }
  });

  it("storage.md 26.34: without the barrier on the directory the same run loses acknowledged records", () => {
    let lost = 0;
    for (let seed = 1; seed <= SEEDS && lost === 0; seed++) {
      const files = newDisk(seed);
      const sync = files.openDirectory.bind(files);
      files.openDirectory = (path) => {
        const directory = sync(path);
        directory.sync = () => {};
        return directory;
      };
      const createQueue = files.createQueue.bind(files);
      files.createQueue = () => {
        const queue = createQueue();
        const submit = queue.submit.bind(queue);
        queue.submit = (job) => submit(job.file.path === ROOT ? { ...job, barrier: "none" } : job);
        return queue;
      };
      const test = new TestLog({ maxSegmentBytes: 300 }, files);
      test.commit(numbered(12));
      const acked = test.log.visibleHead;
      const image = files.cutPower({ style: "lost" });
      try {
        if (new TestLog({ maxSegmentBytes: 300 }, image).log.nextOffset < acked) lost += 1;
      } catch {
        lost += 1;
      }
    }
    expect(lost).toBe(1);
  });
});
