import { describe, expect, it } from "vitest";
import type { Random } from "../../src/runtime/random.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { systemRandom } from "../../src/runtime/random-system.ts";

const sources: [string, Random][] = [
  ["system", systemRandom],
  ["seeded", new SeededRandom(42)],
];

describe.each(sources)("%s", (_name, random) => {
  it("gives numbers in [0, 1), spread evenly", () => {
    const buckets = new Array<number>(10).fill(0);
    for (let round = 0; round < 10_000; round++) {
      const value = random.next();
      expect(value >= 0 && value < 1).toBe(true);
      buckets[Math.floor(value * 10)]++;
    }
    // 1000 expected in each, standard deviation 30.
    for (const count of buckets) expect(Math.abs(count - 1000)).toBeLessThan(300);
  });

  it("gives as many bytes as asked, of every value, fresh each time", () => {
    expect(random.bytes(0).length).toBe(0);
    const bytes = random.bytes(10_000);
    expect(bytes.length).toBe(10_000);
    expect(new Set(bytes).size).toBe(256);
    expect(random.bytes(32)).not.toEqual(random.bytes(32));
  });
});

describe("seeded", () => {
  it("repeats from its seed and differs between neighbours", () => {
    const take = (seed: number) =>
      Array.from(
        { length: 50 },
        (
          (random) => () =>
            random.word()
        )(new SeededRandom(seed)),
      );
    expect(take(7)).toEqual(take(7));
    const firsts = new Set<number>();
    for (let seed = 0; seed < 1000; seed++) firsts.add(take(seed)[0]);
    expect(firsts.size).toBe(1000);
    expect(take(2 ** 40)).not.toEqual(take(0));
    for (const bad of [-1, 0.5, 2 ** 53, Number.NaN]) expect(() => new SeededRandom(bad)).toThrow(RangeError);
  });

  it("draws below a limit, by chance, and forks", () => {
    const random = new SeededRandom(1);
    const drawn = new Set(Array.from({ length: 200 }, () => random.below(5)));
    expect([...drawn].sort()).toEqual([0, 1, 2, 3, 4]);
    const hits = Array.from({ length: 1000 }, () => random.chance(0.25)).filter(Boolean).length;
    expect(Math.abs(hits - 250)).toBeLessThan(120);
    expect(random.chance(0)).toBe(false);
    expect(random.chance(1)).toBe(true);
    const left = new SeededRandom(9).fork();
    const right = new SeededRandom(9).fork();
    expect(left.word()).toBe(right.word());
    expect(new SeededRandom(9).fork().word()).not.toBe(new SeededRandom(9).word());
  });
});
