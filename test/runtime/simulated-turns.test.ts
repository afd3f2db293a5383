import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { createRuntime } from "../../src/runtime/runtime.ts";
import { Turns } from "../../src/runtime/turns.ts";

describe("turns", () => {
  it("run oldest first without a seed, one a macrotask when automatic", async () => {
    const turns = new Turns("auto");
    const trace: string[] = [];
    for (const name of ["a", "b", "c"]) turns.add(() => trace.push(name));
    expect([trace.length, turns.waiting]).toEqual([0, 3]);
    while (turns.waiting > 0) {
      await new Promise((resolve) => setImmediate(resolve));
      trace.push("-");
    }
    expect(trace.join("").replaceAll("-", "")).toBe("abc");
    expect(trace.length).toBeGreaterThan(4);
  });

  it("run in an order that the seed picks", () => {
    const order = (seed: number) => {
      const turns = new Turns("manual", new SeededRandom(seed));
      const trace: number[] = [];
      for (let index = 0; index < 10; index++) turns.add(() => trace.push(index));
      expect(turns.runAll()).toBe(10);
      expect(turns.step()).toBe(false);
      return trace.join();
    };
    expect(order(1)).toBe(order(1));
    expect(new Set([1, 2, 3, 4, 5].map(order)).size).toBeGreaterThan(1);
  });

  it("say so when something never comes to rest", () => {
    const turns = new Turns("manual");
    const again = () => turns.add(again);
    again();
    expect(() => turns.runAll(100)).toThrow("still busy after 100 turns");
  });
});

describe("runtime", () => {
  it("has everything, with at most one warning", () => {
    const { runtime, warnings } = createRuntime();
    expect(warnings.length).toBe(runtime.codec.kind === "addon" ? 0 : 1);
    expect(runtime.clock.wallMs()).toBeGreaterThan(1_700_000_000_000);
    expect(runtime.random.bytes(4).length).toBe(4);
    expect(runtime.files.stat("/")?.kind).toBe("directory");
    expect(runtime.codec.crc32c(new TextEncoder().encode("123456789"), 0, 9)).toBe(0xe3069283);
    expect(typeof runtime.network.listen).toBe("function");
  });
});
