import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { didYouMean, editDistance } from "../../src/config/suggest.ts";

describe("suggestions", () => {
  it.each([
    ["kitten", "sitting", 3],
    ["", "abc", 3],
    ["ab", "ba", 2],
    ["same", "same", 0],
    ["\u{1F600}x", "x", 1],
  ])("editDistance(%j, %j) = %d", (a, b, distance) => {
    expect(editDistance(a, b)).toBe(distance);
  });

  it("is symmetric and no longer than the longer text", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 12 }), fc.string({ maxLength: 12 }), (a, b) => {
        const distance = editDistance(a, b);
        expect(distance).toBe(editDistance(b, a));
        expect(distance).toBeLessThanOrEqual(Math.max([...a].length, [...b].length));
      }),
    );
  });

  it("cli.md 13.82: names one near candidate", () => {
    expect(didYouMean("serv", ["serve", "sub"])).toBe(" (did you mean `serve`?)");
    expect(didYouMean("--jsno", ["--json", "--limit"])).toBe(" (did you mean `--json`?)");
  });

  it("names none when none is near, or two are equally near", () => {
    expect(didYouMean("nope", ["serve", "sub"])).toBe("");
    expect(didYouMean("pbu", ["pub"])).toBe("");
    expect(didYouMean("--foa", ["--fob", "--foc"])).toBe("");
    expect(didYouMean("x".repeat(1_000_000), ["serve"])).toBe("");
  });
});
