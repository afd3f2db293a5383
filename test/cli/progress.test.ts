import { describe, expect, it } from "vitest";
import { ProgressLine, withProgress } from "../../src/cli/progress.ts";

const MIB = 1024 * 1024;

describe("the progress line", () => {
  it("is written over at most five times a second, and wiped at the end", () => {
    let nowMs = 1000;
    const written: string[] = [];
    const line = new ProgressLine(
      "scrub",
      (text) => written.push(text),
      () => nowMs,
    );
    for (let done = 1; done <= 1000; done++) {
      nowMs += 2;
      line.update(done * MIB, 1000 * MIB);
    }
    line.clear();
    line.clear();
    expect(written.length).toBe(11);
    expect(written[0]).toBe("\r\u001b[Kscrub: 100.0 of 1000.0 MiB (10 %), 500 MiB/s");
    expect(written[9]).toBe("\r\u001b[Kscrub: 1000.0 of 1000.0 MiB (100 %), 500 MiB/s");
    expect(written[10]).toBe("\r\u001b[K");
  });

  it("is not there for what is done at once", () => {
    const written: string[] = [];
    const line = new ProgressLine(
      "backup",
      (text) => written.push(text),
      () => 5,
    );
    line.update(0, 0);
    line.update(10, 10);
    line.clear();
    expect(written).toEqual([]);
  });

  it("is not asked for without a terminal: the work runs and its errors pass", () => {
    expect(withProgress("verify", false, (progress) => progress)).toBe(undefined);
    expect(() =>
      withProgress("verify", false, () => {
        throw new RangeError("x");
      }),
    ).toThrow(RangeError);
  });
});
