import { describe, expect, it } from "vitest";
import { bounded, outcome } from "./fuzzing.ts";

describe("what the fuzzing stands on", () => {
  it("an allocation above the bound is seen, however it is made", () => {
    const makers: (() => unknown)[] = [
      () => new Uint8Array(1001),
      () => new Int32Array(251),
      () => new Float64Array(126),
      () => new ArrayBuffer(1001),
      () => Buffer.alloc(1001),
      () => Buffer.allocUnsafe(1001),
    ];
    for (const make of makers) expect(() => bounded(1000, make)).toThrow("bytes asked for at once");
    expect(bounded(1000, () => new Uint8Array(1000).subarray(3).slice(1) instanceof Uint8Array)).toBe(true);
    expect(new Uint8Array(2000).length).toBe(2000);
  });

  it("an error of another type is not let pass", () => {
    expect(outcome(RangeError, () => 1)).toEqual({ value: 1 });
    const fail = () => {
      throw new TypeError("other");
    };
    expect(outcome(TypeError, fail).error?.message).toBe("other");
    expect(() => outcome(RangeError, fail)).toThrow(TypeError);
  });
});
