import { describe, expect, it } from "vitest";
import { BARRIER_BUCKETS, DURATION_BUCKETS, Histogram } from "../../src/log/histogram.ts";

const cumulative = ({ counts }: Histogram) => {
  let sum = 0;
  return [...counts].map((count) => {
    sum += count;
    return sum;
  });
};

describe("histogram", () => {
  it("observability.md 13.22: bounds are inclusive, the sum is exact", () => {
    const histogram = new Histogram(BARRIER_BUCKETS);
    for (const durationMs of [0.05, 0.1, 0.75, 2000]) histogram.observe(durationMs);
    expect(cumulative(histogram)).toEqual([2, 2, 3, 3, 3, 3, 3, 3, 3, 4]);
    expect(histogram.sum).toBe("2.000900000");
  });

  it("every bound belongs to its own bucket", () => {
    for (const bounds of [BARRIER_BUCKETS, DURATION_BUCKETS]) {
      for (const [index, seconds] of bounds.entries()) {
        const histogram = new Histogram(bounds);
        histogram.observe(seconds * 1000);
        histogram.observe(seconds * 1000 + 0.000_002);
        expect([...histogram.counts].indexOf(1)).toBe(index);
        expect(histogram.counts[index + 1]).toBe(1);
      }
    }
  });

  it("adds up beyond what a number of nanoseconds holds", () => {
    const histogram = new Histogram(BARRIER_BUCKETS);
    for (let index = 0; index < 3; index++) histogram.observe(2 ** 33);
    histogram.observe(-1);
    expect(histogram.sum).toBe("25769803.776000000");
    expect([...histogram.counts].reduce((sum, count) => sum + count)).toBe(4);
  });
});
