import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CLOCK_IS_SET_FROM_MS, type RetainedSegment, Retention, segmentsAbove } from "../../src/log/retention.ts";

const OFF = { maxRetainedBytes: 0, maxAgeMs: 0, maxMessages: 0 };
const NEVER = Number.POSITIVE_INFINITY;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NOW_MS = Date.UTC(2026, 5, 1);

/** Segments of ten records and 1,000 bytes each; the last one is active. `created` are their creation stamps. */
function segmentsOf(created: readonly number[]): RetainedSegment[] {
  return created.map((createdUnixMs, index) => ({
    sealed: index < created.length - 1,
    endOffset: (index + 1) * 10,
    count: 10,
    end: 64 + 1000,
    createdUnixMs,
  }));
}

const four = segmentsOf([NOW_MS, NOW_MS, NOW_MS, NOW_MS]);

describe("size and count", () => {
  it("storage.md 20.1: nothing is due while every bound is off", () => {
    expect(new Retention(OFF).due(four, NEVER)).toBe(0);
    expect(new Retention(OFF).isOn).toBe(false);
  });

  it("storage.md 26.46: a size bound of 1 takes what every group has and never the active segment", () => {
    const retention = new Retention({ ...OFF, maxRetainedBytes: 1 });
    expect(retention.due(four, 25)).toBe(2);
    expect(retention.due(four, 29)).toBe(2);
    expect(retention.due(four, 30)).toBe(3);
    expect(retention.due(four, NEVER)).toBe(3);
    expect(retention.due(four, 9)).toBe(0);
  });

  it("takes no more than the bound wants", () => {
    expect(new Retention({ ...OFF, maxRetainedBytes: 3000 }).due(four, NEVER)).toBe(1);
    expect(new Retention({ ...OFF, maxRetainedBytes: 4000 }).due(four, NEVER)).toBe(0);
    expect(new Retention({ ...OFF, maxMessages: 25 }).due(four, NEVER)).toBe(2);
    expect(new Retention({ ...OFF, maxMessages: 40 }).due(four, NEVER)).toBe(0);
  });

  it("does not take a last segment that is sealed, nor anything behind an unsealed one", () => {
    const retention = new Retention({ ...OFF, maxRetainedBytes: 1 });
    expect(retention.due(segmentsOf([NOW_MS]), NEVER)).toBe(0);
    const sealed = segmentsOf([NOW_MS, NOW_MS]).map((segment) => ({ ...segment, sealed: true }));
    expect(retention.due(sealed, NEVER)).toBe(1);
    expect(retention.due([], NEVER)).toBe(0);
  });
});

describe("age (README ruling 10)", () => {
  const aged = (
    segments: readonly RetainedSegment[],
    times: readonly (readonly [wall: number, monotonic: number])[],
  ) => {
    const retention = new Retention({ ...OFF, maxAgeMs: HOUR_MS });
    for (const [wall, monotonic] of times) retention.observe(wall, monotonic);
    return retention.due(segments, NEVER);
  };

  it("is counted from the creation of the next segment, not from the segment's own", () => {
    const segments = segmentsOf([NOW_MS - 3 * HOUR_MS, NOW_MS - 2 * HOUR_MS, NOW_MS - HOUR_MS / 2, NOW_MS]);
    expect(aged(segments, [[NOW_MS, 0]])).toBe(1);
    expect(aged(segments, [[NOW_MS + HOUR_MS / 2, 0]])).toBe(1);
    expect(aged(segments, [[NOW_MS + HOUR_MS / 2 + 1, 0]])).toBe(2);
    expect(aged(segments, [[NOW_MS + HOUR_MS + 1, 0]])).toBe(3);
  });

  it("waits while the clock is not set", () => {
    const segments = segmentsOf([0, 0, 0, 0]);
    expect(aged(segments, [[5_000, 0]])).toBe(0);
    expect(
      aged(segments, [
        [5_000, 0],
        [9 * HOUR_MS, 9 * HOUR_MS],
      ]),
    ).toBe(0);
    expect(aged(segments, [[CLOCK_IS_SET_FROM_MS - 1, 0]])).toBe(0);
  });

  it("of segments made while the clock was not set begins when it is set", () => {
    const segments = segmentsOf([0, 5_000, 9_000, NOW_MS]);
    const set: (readonly [number, number])[] = [
      [5_000, 0],
      [NOW_MS, 10_000],
    ];
    expect(aged(segments, set)).toBe(0);
    expect(aged(segments, [...set, [NOW_MS + HOUR_MS, 10_000 + HOUR_MS]])).toBe(0);
    expect(aged(segments, [...set, [NOW_MS + HOUR_MS + 1, 10_001 + HOUR_MS]])).toBe(3);
  });

  it("of segments stamped more than a day ahead begins when the clock is seen", () => {
    const segments = segmentsOf([NOW_MS, Date.UTC(2200, 0, 1), NOW_MS]);
    expect(aged(segments, [[NOW_MS, 0]])).toBe(0);
    expect(
      aged(segments, [
        [NOW_MS, 0],
        [NOW_MS + HOUR_MS + 1, HOUR_MS + 1],
      ]),
    ).toBe(2);
    // Within a day it is a clock that was a little ahead.
    const slightly = segmentsOf([NOW_MS, NOW_MS + DAY_MS / 2, NOW_MS]);
    expect(
      aged(slightly, [
        [NOW_MS, 0],
        [NOW_MS + 2 * HOUR_MS, 2 * HOUR_MS],
      ]),
    ).toBe(0);
  });

  it("a clock that is set back does not make a segment older once it is set right", () => {
    const segments = segmentsOf([NOW_MS, NOW_MS, NOW_MS]);
    const past = Date.UTC(2024, 5, 1);
    expect(
      aged(segments, [
        [NOW_MS, 0],
        [past, 1000],
        [past + 2 * HOUR_MS, 1000 + 2 * HOUR_MS],
      ]),
    ).toBe(2);
    expect(
      aged(segments, [
        [NOW_MS, 0],
        [past, 1000],
        [NOW_MS + 2000, 2000],
      ]),
    ).toBe(0);
  });
});

describe("room under a cap (storage.md 20.2)", () => {
  it("takes as few of the oldest as bring the records below the cap", () => {
    expect(segmentsAbove(four, 4000, 5000)).toBe(0);
    expect(segmentsAbove(four, 4000, 4001)).toBe(0);
    expect(segmentsAbove(four, 4000, 4000)).toBe(1);
    expect(segmentsAbove(four, 4000, 1001)).toBe(3);
    expect(segmentsAbove(four, 4000, 1000)).toBeUndefined();
    expect(segmentsAbove([], 0, 1)).toBe(0);
    // Records of segments that are still to be made count as well.
    expect(segmentsAbove(four, 6500, 4000)).toBe(3);
  });
});

it("whatever is due ends at or below the floor and leaves the last segment", () => {
  const segment = fc.record({
    sealed: fc.boolean(),
    count: fc.nat({ max: 20 }),
    bytes: fc.nat({ max: 5000 }),
    createdUnixMs: fc.constantFrom(0, NOW_MS - 2 * HOUR_MS, NOW_MS, Date.UTC(2200, 0, 1)),
  });
  const bounds = fc.record({
    maxRetainedBytes: fc.nat({ max: 9000 }),
    maxAgeMs: fc.constantFrom(0, 1, HOUR_MS),
    maxMessages: fc.nat({ max: 60 }),
  });
  fc.assert(
    fc.property(fc.array(segment, { maxLength: 8 }), bounds, fc.nat({ max: 100 }), (drawn, given, floor) => {
      let endOffset = 0;
      const segments = drawn.map(({ bytes, ...rest }) => {
        endOffset += rest.count;
        return { ...rest, endOffset, end: 64 + bytes };
      });
      const retention = new Retention(given);
      retention.observe(NOW_MS, 0);
      retention.observe(NOW_MS + HOUR_MS / 2, HOUR_MS / 2);
      const due = retention.due(segments, floor);
      expect(due === 0 || due < segments.length).toBe(true);
      for (const { sealed, endOffset: end } of segments.slice(0, due)) expect(sealed && end <= floor).toBe(true);
      // The bounds hold then, or the next segment may not go.
      const left = segments.slice(due);
      const bytes = left.reduce((sum, { end }) => sum + end - 64, 0);
      const next = left[0];
      const mayGo = left.length > 1 && next.sealed && next.endOffset <= floor;
      if (given.maxRetainedBytes > 0 && mayGo) expect(bytes).toBeLessThanOrEqual(given.maxRetainedBytes);
    }),
  );
});
