import { describe, expect, it } from "vitest";
import { Admission } from "../../src/log/admission.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { FileSystemError } from "../../src/runtime/file-system.ts";
import { get, segmentPath } from "./fixtures.ts";
import { newDisk, numbered, TestLog } from "./open-log.ts";

const DAY_MS = 86_400_000;
/** A record of `numbered` with one or two digits takes this many bytes. */
const [SHORT, LONG] = [46, 47];

describe("byte cap", () => {
  it("storage.md 20.2: is checked at or over before each record, so that it is exceeded by one record at most", () => {
    const test = new TestLog({ maxTotalBytes: 3 * SHORT - 1 });
    expect(test.append(numbered(10))).toBe(3);
    expect(test.log.refusal).toEqual({
      kind: "at-capacity",
      message: `durable log is at capacity (${3 * SHORT} of ${3 * SHORT - 1} bytes); produce rejected`,
    });
    const exact = new TestLog({ maxTotalBytes: 3 * SHORT });
    expect(exact.append(numbered(10))).toBe(3);
    const above = new TestLog({ maxTotalBytes: 3 * SHORT + 1 });
    expect(above.append(numbered(10))).toBe(4);
  });

  it("storage.md 20.2: an empty log takes one record, whatever the cap", () => {
    const test = new TestLog({ maxTotalBytes: 1 });
    test.commit(["x".repeat(100_000), "y"]);
    expect(test.log.nextOffset).toBe(1);
    expect(test.log.refusal?.kind).toBe("at-capacity");
  });

  it("storage.md 26.47: nothing is written and no offset consumed by what is refused", () => {
    const test = new TestLog({ maxTotalBytes: 2 * SHORT, maxSegmentBytes: 4096 });
    test.commit(numbered(2));
    const before = get(test.files, segmentPath(0));
    const { operations } = test.files;
    expect(test.append(["refused"])).toBe(0);
    test.log.pump();
    test.files.runAll();
    expect(test.log.nextOffset).toBe(2);
    expect(test.files.operations).toBe(operations);
    expect(get(test.files, segmentPath(0))).toEqual(before);
    expect(test.log.frozen).toBeUndefined();
    expect(test.payloads()).toEqual(numbered(2));
  });

  it("does not seal a full segment for a record that is not taken", () => {
    const test = new TestLog({ maxTotalBytes: 3 * SHORT, maxSegmentBytes: 184 });
    test.commit(numbered(5));
    expect(test.log.nextOffset).toBe(3);
    expect(test.log.segments.map((segment) => segment.sealed)).toEqual([false]);
  });

  it("config.md 13: headers, footers and preallocation do not count, and what is there at the start counts once", async () => {
    const options = { maxTotalBytes: 20 * LONG, maxSegmentBytes: 184 };
    const test = new TestLog(options);
    test.commit(numbered(10, 10));
    expect(test.log.written.recordBytes).toBe(10 * LONG);
    await test.close();
    const again = new TestLog(options, test.files);
    expect(again.log.written.recordBytes).toBe(10 * LONG);
    again.commit(numbered(30, 20));
    expect(again.log.nextOffset).toBe(20);
  });

  it("takes records again after a removal", () => {
    const test = new TestLog({ maxTotalBytes: 6 * SHORT, maxSegmentBytes: 184 });
    test.commit(numbered(9));
    expect(test.log.nextOffset).toBe(6);
    test.log.removeOldest(1, () => {});
    test.files.runAll();
    expect(test.log.refusal).toBeUndefined();
    test.commit(numbered(9, 6));
    expect(test.log.nextOffset).toBe(9);
    expect(test.payloads()).toEqual(numbered(6, 3));
  });
});

describe("daily write budget", () => {
  it("storage.md 26.47: counts frames, headers and footers, and refuses with its own text", () => {
    // Two segments: 2 headers, 4 records, 1 footer.
    const budget = 2 * 64 + 4 * SHORT + 32;
    const test = new TestLog({ dailyWriteBudgetBytes: budget, maxSegmentBytes: 184 });
    test.commit(numbered(3));
    test.commit(numbered(1, 3));
    expect(test.log.written.physicalBytesToday).toBe(budget);
    expect(test.append(["refused"])).toBe(0);
    expect(test.log.refusal).toEqual({
      kind: "daily-budget",
      message: `daily physical write budget reached (${budget} of ${budget} bytes today); produce rejected`,
    });
    expect(test.log.nextOffset).toBe(4);
  });

  it("what waits to be written counts too", () => {
    const test = new TestLog({ dailyWriteBudgetBytes: 64 + 5 * SHORT });
    expect(test.append(numbered(10))).toBe(5);
    expect(test.log.refusal?.kind).toBe("daily-budget");
  });

  it("config.md 14.2: starts anew with each UTC day, and the first write of a day always passes", () => {
    const clock = new SimulatedClock({ wallMs: Date.UTC(2025, 0, 1, 23, 59, 59) });
    const test = new TestLog({ dailyWriteBudgetBytes: 100 }, newDisk(), clock);
    test.commit(["x".repeat(500)]);
    expect(test.append(["refused"])).toBe(0);
    clock.advance(1000);
    test.commit(["y".repeat(5000)]);
    expect(test.log.nextOffset).toBe(2);
    expect(test.append(["refused"])).toBe(0);
    clock.advance(DAY_MS - 1);
    expect(test.append(["refused"])).toBe(0);
    clock.advance(1);
    expect(test.append(["taken"])).toBe(1);
  });

  it("is not given anew by a clock that is set back over midnight and forth", () => {
    const midnight = Date.UTC(2025, 0, 2);
    let wallMs = midnight - 1;
    const clock = new SimulatedClock();
    clock.wallMs = () => wallMs;
    const test = new TestLog({ dailyWriteBudgetBytes: 100 }, newDisk(), clock);
    for (let turn = 0; turn < 10; turn++) {
      test.commit(["x".repeat(500)]);
      expect(test.log.refusal?.kind).toBe("daily-budget");
      wallMs = wallMs < midnight ? midnight : midnight - 1;
    }
    expect(test.log.nextOffset).toBe(2);
    wallMs = midnight + DAY_MS;
    expect(test.append(["taken"])).toBe(1);
  });

  it("is named before the byte cap, so that nothing is removed in vain", () => {
    const test = new TestLog({ dailyWriteBudgetBytes: 100, maxTotalBytes: 100 });
    test.commit(["x".repeat(500)]);
    test.append(["refused"]);
    expect(test.log.refusal?.kind).toBe("daily-budget");
  });
});

describe("free space", () => {
  it("config.md 13: below the minimum nothing is taken, and it is asked for once a second at most", () => {
    const files = newDisk();
    let asked = 0;
    const freeSpace = files.freeSpace.bind(files);
    files.freeSpace = () => {
      asked += 1;
      return freeSpace();
    };
    files.limitSpace(10_000_000);
    const test = new TestLog({ minFreeBytes: 5_000_000 }, files);
    test.commit(["a"]);
    files.limitSpace(4_999_999);
    for (let index = 0; index < 100; index++) test.commit(["a"]);
    expect(asked).toBe(1);
    test.clock.advance(1000);
    expect(test.append(["refused"])).toBe(0);
    const free = freeSpace()?.freeBytes;
    expect(test.log.refusal).toEqual({
      kind: "disk-full",
      message: `disk is almost full (${free} bytes free, 5000000 must stay free); produce rejected`,
    });
    expect(asked).toBe(2);
    files.limitSpace(5_000_000);
    expect(test.append(["refused"])).toBe(0);
    test.clock.advance(1000);
    expect(test.append(["taken"])).toBe(1);
    expect(test.log.refusal).toBeUndefined();
  });

  it("a file system that does not say is no reason to refuse", () => {
    const files = newDisk();
    files.freeSpace = () => {
      throw new FileSystemError("ENOSYS", "statfs", "/");
    };
    const test = new TestLog({ minFreeBytes: 5_000_000 }, files);
    test.commit(["a"]);
    expect(test.payloads()).toEqual(["a"]);
  });
});

describe("a full disk's hold", () => {
  const full = new FileSystemError("ENOSPC", "write", "/data/x");

  function held(freeBytes: () => number | undefined): { admission: Admission; clock: SimulatedClock } {
    const clock = new SimulatedClock();
    const admission = new Admission({}, clock, freeBytes);
    expect(admission.allowance).toBe(Number.POSITIVE_INFINITY);
    expect(admission.diskFull(full).kind).toBe("disk-full");
    expect(admission.allowance).toBe(0);
    return { admission, clock };
  }

  it("ends after a second, at the next look", () => {
    const { admission, clock } = held(() => undefined);
    clock.advance(999);
    admission.refresh();
    expect(admission.refusal?.kind).toBe("disk-full");
    clock.advance(1);
    expect(admission.refusal?.kind).toBe("disk-full");
    admission.refresh();
    expect(admission.refusal).toBeUndefined();
    expect(admission.allowance).toBe(Number.POSITIVE_INFINITY);
  });

  it("ends earlier when there is a MiB more than at the failure, not for free space that cannot be had", () => {
    let free = 50_000_000;
    const { admission, clock } = held(() => free);
    clock.advance(100);
    admission.refresh();
    expect(admission.allowance).toBe(0);
    free += 1024 * 1024;
    clock.advance(100);
    admission.refresh();
    expect(admission.allowance).toBe(Number.POSITIVE_INFINITY);
  });
});
