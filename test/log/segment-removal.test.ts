import { describe, expect, it } from "vitest";
import { get, ROOT, segmentPath } from "./fixtures.ts";
import { newDisk, numbered, TestLog } from "./open-log.ts";

/** Three records a segment; segments 0 to 3 are sealed, 4 is written to. */
function fiveSegments(files = newDisk()): TestLog {
  const test = new TestLog({ maxSegmentBytes: 184 }, files);
  test.commit(numbered(13));
  expect(test.log.segments.map((segment) => segment.sealed)).toEqual([true, true, true, true, false]);
  return test;
}

function remove(test: TestLog, count: number): string[] {
  const outcomes: string[] = [];
  if (!test.log.removeOldest(count, (removed, error) => outcomes.push(`${removed} ${error?.message ?? "ok"}`))) {
    outcomes.push("not begun");
  }
  test.files.runAll();
  return outcomes;
}

describe("storage.md 14.5: removal of the oldest segments", () => {
  it("unlinks, syncs the directory, and only then forgets, one by one", () => {
    const test = fiveSegments();
    const order: string[] = [];
    test.files.onOperation = (operation, path) => order.push(`${operation} ${path}`);
    const outcomes: string[] = [];
    expect(test.log.removeOldest(2, (removed) => outcomes.push(`${removed}`))).toBe(true);
    expect(order).toEqual([`remove ${segmentPath(0)}`]);
    // Not forgotten yet: who reads finds the records by the open files.
    expect(test.log.earliestOffset).toBe(0);
    expect(test.payloads()).toEqual(numbered(13));
    expect(outcomes).toEqual([]);
    test.files.runAll();
    const sync = `sync-directory ${ROOT}`;
    expect(order).toEqual([`remove ${segmentPath(0)}`, sync, `remove ${segmentPath(1)}`, sync]);
    expect(outcomes).toEqual(["2"]);
    expect(test.log.earliestOffset).toBe(6);
    expect(test.payloads()).toEqual(numbered(7, 6));
    expect(test.log.written.recordBytes).toBe(4 * 46 + 3 * 47);
  });

  it("takes the time index along, and what else there is stays", () => {
    const test = fiveSegments();
    for (const name of ["seg-0000000000000000.tindex", "seg-0000000000000001.tindex", "foreign"]) {
      test.files.open(`${ROOT}/${name}`, "create").close();
    }
    remove(test, 1);
    const names = test.files.list(ROOT).map(({ name }) => name);
    expect(names).not.toContain("seg-0000000000000000.tindex");
    expect(names).toContain("seg-0000000000000001.tindex");
    expect(names).toContain("foreign");
  });

  it("never takes the active segment, nor the last one when none is active: offsets go on", async () => {
    const test = fiveSegments();
    expect(remove(test, 100)).toEqual(["4 ok"]);
    expect(remove(test, 100)).toEqual(["not begun"]);
    expect(test.payloads()).toEqual(numbered(1, 12));
    test.commit(numbered(2, 13));
    test.files.fail({ operation: "open", path: /seg-.*5\.log/, code: "EMFILE" });
    test.commit(["sealing and creating"]);
    expect(test.log.segments.map((segment) => segment.sealed)).toEqual([true]);
    expect(remove(test, 1)).toEqual(["not begun"]);
    await test.close();
    expect(new TestLog({ maxSegmentBytes: 184 }, test.files).log.nextOffset).toBe(15);
  });

  it("one at a time", () => {
    const test = fiveSegments();
    expect(test.log.removeOldest(1, () => {})).toBe(true);
    expect(test.log.removeOldest(1, () => {})).toBe(false);
    test.files.runAll();
    expect(remove(test, 1)).toEqual(["1 ok"]);
    expect(test.log.earliestOffset).toBe(6);
  });

  it("a failed unlink is told, stops there, and is tried again", () => {
    const test = fiveSegments();
    test.files.fail({ operation: "remove", path: /seg-0*1\.log/, code: "EACCES" });
    expect(remove(test, 3)).toEqual([`1 remove ${segmentPath(1)}: EACCES`]);
    expect(test.log.frozen).toBeUndefined();
    expect(test.payloads()).toEqual(numbered(10, 3));
    expect(remove(test, 2)).toEqual(["2 ok"]);
    expect(test.payloads()).toEqual(numbered(4, 9));
  });

  it("a failed barrier is told, nothing is forgotten, and only the barrier is repeated", () => {
    const test = fiveSegments();
    test.files.fail({ operation: "sync-directory", path: /data$/, code: "EIO" });
    expect(remove(test, 2)).toEqual([`0 sync-directory ${ROOT}: EIO`]);
    expect(test.log.frozen).toBeUndefined();
    expect(test.log.earliestOffset).toBe(0);
    expect(test.payloads()).toEqual(numbered(13));
    test.commit(numbered(2, 13));
    expect(remove(test, 2)).toEqual(["2 ok"]);
    expect(test.payloads()).toEqual(numbered(9, 6));
  });

  it("storage.md 17: a failed barrier freezes while a segment is made: it was over that one's name too", async () => {
    const test = fiveSegments();
    test.append(numbered(5, 13));
    test.log.pump();
    while (test.files.stat(segmentPath(5)) === undefined) expect(test.files.step()).toBe(true);
    test.files.fail({ operation: "sync-directory", path: /data$/, code: "EIO" });
    expect(remove(test, 1)).toEqual([`0 sync-directory ${ROOT}: EIO`]);
    expect(test.log.frozen?.message).toContain("EIO");
    // What the sealed segment took is acknowledged, and nothing of the new one.
    expect(test.log.visibleHead).toBe(15);
    await test.close();
  });

  it("what is unlinked stays readable until it is forgotten, however many segments are read meanwhile", () => {
    const test = new TestLog({ maxSegmentBytes: 184 });
    test.commit(numbered(120));
    expect(test.payload(0)).toBe("m0");
    test.files.holdBarriers(/data$/);
    test.log.removeOldest(1, () => {});
    test.files.runAll();
    for (let round = 0; round < 2; round++) expect(test.payloads()).toEqual(numbered(120));
    test.files.releaseBarriers();
    test.files.runAll();
    expect(test.payloads()).toEqual(numbered(117, 3));
  });

  it("records are published, rolled and read while it runs", () => {
    const test = fiveSegments();
    test.files.holdBarriers(/data$/);
    test.log.removeOldest(2, () => {});
    test.append(numbered(20, 13));
    test.log.pump();
    test.files.runAll();
    expect(test.payload(0)).toBe("m0");
    test.files.releaseBarriers();
    test.files.runAll();
    test.log.pump();
    test.files.runAll();
    expect(test.payloads()).toEqual(numbered(27, 6));
  });

  it("closes what readers had open, and drops what they had in memory", () => {
    const test = fiveSegments();
    expect(test.payload(1)).toBe("m1");
    const [oldest] = test.log.segments;
    const { file } = oldest;
    expect(file).toBeDefined();
    remove(test, 1);
    expect(oldest.file).toBeUndefined();
    expect(() => file?.status()).toThrow(/closed/);
    expect(test.payload(3)).toBe("m3");
  });

  it("ends with the segment under way when the log is closed", async () => {
    const test = fiveSegments();
    const outcomes: string[] = [];
    test.log.removeOldest(3, (removed, error) => outcomes.push(`${removed} ${error?.message ?? "ok"}`));
    await test.close();
    expect(outcomes).toEqual(["1 ok"]);
    expect(new TestLog({ maxSegmentBytes: 184 }, test.files).payloads()).toEqual(numbered(10, 3));
  });

  it("does nothing in a directory that is another one by now", () => {
    const test = fiveSegments();
    test.files.rename(ROOT, "/aside");
    test.files.makeDirectory(ROOT);
    test.files.open(segmentPath(0), "create").close();
    expect(remove(test, 1)).toEqual(["not begun"]);
    expect(get(test.files, segmentPath(0))).toHaveLength(0);
    expect(test.log.frozen?.message).toMatch(/was (removed|replaced)/);
  });

  it("does nothing in a frozen log", () => {
    const test = fiveSegments();
    test.files.fail({ operation: "sync", path: /seg-/, code: "EIO" });
    test.commit(["x"]);
    expect(remove(test, 1)).toEqual(["not begun"]);
    expect(test.payloads()).toEqual(numbered(13));
  });

  it("storage.md 26.31: a power cut leaves a run of segments that ends where it did, whatever of the removal survives", () => {
    for (let seed = 1; seed <= 60; seed++) {
      const test = fiveSegments(newDisk(seed));
      test.log.removeOldest(1 + (seed % 4), () => {});
      for (let steps = seed % 5; steps > 0; steps--) test.files.step();
      const earliest = test.log.earliestOffset;
      const after = new TestLog({ maxSegmentBytes: 184 }, test.files.cutPower());
      expect(after.log.nextOffset).toBe(13);
      expect(after.log.earliestOffset).toBeGreaterThanOrEqual(earliest);
      expect(after.payloads().at(-1)).toBe("m12");
    }
  });
});
