import { describe, expect, it } from "vitest";
import type { Durability } from "../../src/log/durability.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { ROOT, segmentPath } from "./fixtures.ts";
import { newDisk, numbered, TestLog } from "./open-log.ts";

const LEVELS: readonly Durability["level"][] = ["sync", "interval", "async", "none"];

function level(name: Durability["level"]): Durability {
  return { level: name, flushIntervalMs: 1000, flushMaxBytes: 100_000 };
}

/** Frozen: told once, takes nothing, reads go on, and the barrier is never made again. */
function expectFrozen(test: TestLog, reason: RegExp, readable: string[]): void {
  expect(test.log.frozen?.message).toMatch(reason);
  let barriers = 0;
  test.files.onOperation = (operation) => {
    if (operation.startsWith("sync")) barriers += 1;
  };
  expect(test.append(["refused"])).toBe(0);
  expect(test.log.refusal).toBeUndefined();
  test.clock.advance(5000);
  test.log.tick();
  test.log.pump();
  test.files.runAll();
  expect(barriers).toBe(0);
  expect(test.told.filter((line) => line.startsWith("froze"))).toHaveLength(1);
  expect(test.payloads()).toEqual(readable);
}

describe("storage.md 17: what freezes the writer", () => {
  it.each(["EIO", "EROFS", "ENODEV", "EFBIG"])("a write that fails with %s, at every level", (code) => {
    for (const name of LEVELS) {
      const test = new TestLog({ durability: level(name) });
      test.commit(numbered(3));
      test.files.fail({ operation: "write", path: /seg-/, code });
      test.commit(["lost"]);
      expectFrozen(test, new RegExp(code), numbered(3));
    }
  });

  it.each(["EIO", "ENOSPC", "EDQUOT"])("a barrier that fails with %s, at every level that makes one", (code) => {
    for (const name of ["sync", "interval"] as const) {
      const test = new TestLog({ durability: { level: name, flushIntervalMs: 1000, flushMaxBytes: 1 } });
      test.commit(numbered(3));
      test.files.fail({ operation: "sync", path: /seg-/, code });
      test.commit(["lost"]);
      expectFrozen(test, new RegExp(code), numbered(3));
    }
  });

  it("a barrier of the interval that fails while nothing arrives", () => {
    const test = new TestLog({ durability: level("interval") });
    test.commit(numbered(3));
    test.files.fail({ operation: "sync", path: /seg-/, code: "EIO" });
    test.clock.advance(1000);
    test.files.runAll();
    expectFrozen(test, /EIO/, numbered(3));
  });

  it("a seal that fails in a roll: its truncation or its barrier", () => {
    for (const name of LEVELS) {
      for (const operation of ["truncate", "sync"] as const) {
        const test = new TestLog({ maxSegmentBytes: 184, durability: level(name) });
        test.commit(numbered(3));
        test.files.fail({ operation, path: /seg-0*0\.log/, code: "EIO" });
        test.commit(["m3"]);
        expectFrozen(test, /EIO/, numbered(3));
      }
    }
  });

  it("the barrier of a new segment's header, and the one of its directory", () => {
    for (const target of [
      { operation: "sync", path: /seg-0*1\.log/ },
      { operation: "sync-directory", path: /data$/ },
    ] as const) {
      for (const code of ["EIO", "ENOSPC"]) {
        const test = new TestLog({ maxSegmentBytes: 184 });
        test.commit(numbered(3));
        test.files.fail({ ...target, code });
        test.commit(["m3"]);
        expectFrozen(test, new RegExp(code), numbered(3));
        expect(test.files.stat(segmentPath(1))).toBeUndefined();
      }
    }
  });

  it("a creation that no waiting will mend; those that may pass are one refusal", () => {
    for (const [code, freezes] of [
      ["EROFS", true],
      ["EIO", true],
      ["EACCES", true],
      ["EMFILE", false],
      ["ENFILE", false],
      ["ENOMEM", false],
      ["EINTR", false],
      ["ENOSPC", false],
      ["EDQUOT", false],
    ] as const) {
      for (const operation of ["open", "write"] as const) {
        const test = new TestLog({ maxSegmentBytes: 184 });
        test.commit(numbered(3));
        test.files.fail({ operation, path: /seg-0*1\.log/, code });
        test.append(["m3"]);
        test.log.pump();
        test.files.runAll();
        if (freezes) {
          expectFrozen(test, new RegExp(code), numbered(3));
          continue;
        }
        expect(test.log.frozen, `${code} of ${operation}`).toBeUndefined();
        expect(test.told.filter((line) => line.startsWith("rejected"))).toHaveLength(1);
        test.clock.advance(1000);
        test.commit(numbered(3, 3));
        expect(test.payloads()).toEqual(numbered(6));
      }
    }
  });
});

describe("README ruling 12: a data directory that is not what it was", () => {
  const HARM: Record<string, (test: TestLog) => void> = {
    "the active file is removed": ({ files }) => files.remove(segmentPath(0)),
    "the active file is replaced": ({ files }) => {
      files.rename(segmentPath(0), `${ROOT}/aside`);
      files.open(segmentPath(0), "create-new").close();
    },
    "the directory is moved away": ({ files }) => files.rename(ROOT, "/aside"),
    "the directory is replaced by a copy": ({ files }) => {
      files.rename(ROOT, "/aside");
      files.makeDirectory(ROOT);
      files.open(segmentPath(0), "create-new").close();
    },
    "the mount is emptied": ({ files }) => {
      files.rename(ROOT, "/aside");
      files.makeDirectory(ROOT);
    },
  };

  it.each(Object.keys(HARM))("%s: noticed under load within a second, at every level", (what) => {
    for (const name of LEVELS) {
      const test = new TestLog({ durability: level(name), maxSegmentBytes: 4096 });
      // Something is with the I/O thread at every moment from here on.
      test.append(numbered(3));
      test.log.pump();
      test.files.runAll();
      test.clock.advance(5000);
      test.commit(numbered(1, 3));
      HARM[what](test);
      const visible = test.log.visibleHead;
      let ms = 0;
      for (; ms < 1000 && test.log.frozen === undefined; ms += 20) {
        test.clock.advance(20);
        test.append(numbered(1, test.log.nextOffset));
        test.log.pump();
        if (ms % 240 === 0) test.log.tick();
        test.files.step();
        test.files.step();
      }
      test.files.runAll();
      expect(test.log.frozen?.message, name).toMatch(/was (removed|replaced)/);
      expect(ms).toBeLessThanOrEqual(1000);
      const head = test.log.visibleHead;
      test.commit(["later"]);
      expect(test.log.visibleHead).toBe(head);
      expect(head).toBeGreaterThanOrEqual(visible);
    }
  });

  it.each(Object.keys(HARM))("%s: noticed while idle, by the tick", (what) => {
    const test = new TestLog();
    test.commit(numbered(3));
    HARM[what](test);
    test.clock.advance(500);
    test.log.tick();
    expectFrozen(test, /was (removed|replaced)/, numbered(3));
  });

  it("a roll does not go on in the directory that took the place of the log's", () => {
    const test = new TestLog({ maxSegmentBytes: 184 });
    test.commit(numbered(3));
    test.files.rename(ROOT, "/aside");
    test.files.makeDirectory(ROOT);
    // No time passes: only the creation itself can notice.
    test.append(numbered(2, 3));
    test.log.pump();
    test.files.runAll();
    expect(test.log.frozen?.message).toMatch(/directory was replaced/);
    expect(test.log.visibleHead).toBe(3);
  });

  it("nor is what another log has there touched, or read as if it were this one's", () => {
    const test = new TestLog({ maxSegmentBytes: 184 });
    test.commit(numbered(9));
    const foreign = [1, 2, 3, 4].map((id) => segmentPath(id));
    test.files.rename(ROOT, "/aside");
    test.files.makeDirectory(ROOT);
    for (const path of foreign) {
      const file = test.files.open(path, "create-new");
      file.write(Buffer.from("another log's"), 0, 13, 0);
      file.close();
    }
    expect(() => test.payload(3)).toThrow("is not the log's any more");
    expect(test.log.gaps).toEqual([]);
    test.append(numbered(3, 9));
    test.log.pump();
    test.files.runAll();
    expect(test.log.frozen?.message).toMatch(/was replaced/);
    expect(test.log.isInPlace()).toBe(false);
    for (const path of foreign) expect(test.files.stat(path)?.size).toBe(13);
    expect(test.files.list(ROOT)).toHaveLength(foreign.length);
  });

  it("is noticed while a barrier hangs", () => {
    const test = new TestLog();
    test.commit(numbered(3));
    test.files.holdBarriers(/seg-/);
    test.append(["hangs"]);
    test.log.pump();
    test.files.runAll();
    test.files.remove(segmentPath(0));
    test.clock.advance(500);
    test.log.tick();
    expect(test.log.frozen?.message).toMatch(/was removed/);
    test.files.releaseBarriers();
    test.files.runAll();
    expect(test.log.visibleHead).toBe(3);
  });

  it("a file that cannot be examined is a reason too", () => {
    const test = new TestLog();
    test.commit(numbered(3));
    test.files.fail({ operation: "stat", path: /seg-/, code: "EIO" });
    test.clock.advance(500);
    test.log.tick();
    expectFrozen(test, /cannot be examined.*EIO/, numbered(3));
  });

  it("costs two looks at most every half second, however many batches there are", () => {
    const test = new TestLog();
    let looks = 0;
    const stat = test.files.stat.bind(test.files);
    test.files.stat = (path) => {
      looks += 1;
      return stat(path);
    };
    for (let index = 0; index < 100; index++) {
      test.clock.advance(10);
      test.commit(numbered(1, index));
    }
    expect(looks).toBeGreaterThan(0);
    expect(looks).toBeLessThanOrEqual(4);
  });
});

describe("a frozen log", () => {
  it("is closed cleanly, whatever was under way, and a restart has everything that was visible", async () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = new SeededRandom(seed);
      const name = LEVELS[seed % LEVELS.length];
      const test = new TestLog({ maxSegmentBytes: 1000, durability: level(name) }, newDisk(seed));
      const operation = (["write", "sync", "truncate", "sync-directory"] as const)[random.below(4)];
      test.commit(numbered(5));
      test.files.fail({ operation, code: "EIO", skip: random.below(4), times: 1 });
      for (let step = 0; step < 30 && test.log.frozen === undefined; step++) {
        test.append(numbered(1 + random.below(8), test.log.nextOffset));
        test.log.pump();
        for (let turns = random.below(6); turns > 0; turns--) test.files.step();
      }
      const closed = test.log.close();
      test.files.runAll();
      await closed;
      test.files.clearFaults();
      const visible = test.log.visibleHead;
      const again = new TestLog({ maxSegmentBytes: 1000 }, test.files);
      expect(again.payloads().slice(0, visible), `seed ${seed}`).toEqual(numbered(visible));
    }
  });
});
