import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { INDEXED_SEGMENTS, SegmentEntry } from "../../src/log/segment-entry.ts";
import { lcg } from "./fixtures.ts";
import { TestLog } from "./open-log.ts";

describe("the offset index (storage.md 12.1)", () => {
  it("of a segment of any size is bounded, and an anchor is never behind what is looked for", () => {
    const frameBytes = 100;
    const sizes = fc.record({
      records: fc.integer({ min: 1, max: 10 ** 9 }),
      step: fc.integer({ min: 1, max: 10 ** 6 }),
    });
    fc.assert(
      fc.property(sizes, fc.nat(), ({ records, step }, pick) => {
        const entry = new SegmentEntry(0, "/segment", 0, 0, 64);
        const most = Math.min(records, step * 5000);
        for (let offset = step; offset < most; offset += step) entry.addAnchor(offset, 64 + offset * frameBytes);
        expect(entry.anchorCount).toBeLessThanOrEqual(1024);
        const offset = pick % most;
        const [at, position] = entry.anchor(offset);
        expect(at).toBeLessThanOrEqual(offset);
        expect(position).toBe(64 + at * frameBytes);
      }),
      { numRuns: 50 },
    );
  });

  it("of a log of any number of segments is bounded, written or read", () => {
    const world = new TestLog({ maxSegmentBytes: 1024 * 1024 });
    const anchors = () => world.log.segments.reduce((sum, { anchorCount }) => sum + anchorCount - 1, 0);
    const batch = Array.from({ length: 4 }, (_, index) => lcg(index, 50_000));
    const fill = (segments: number): void => {
      while (world.log.segments.length <= segments) world.commit(batch);
    };
    fill(INDEXED_SEGMENTS);
    const most = anchors();
    expect(most).toBeGreaterThan(INDEXED_SEGMENTS);
    fill(3 * INDEXED_SEGMENTS);
    expect(anchors()).toBeLessThanOrEqual(most + (1024 * 1024) / 65_536);

    const { log } = world;
    for (let offset = log.visibleHead - 1; offset >= 0; offset -= 13) {
      expect(Buffer.compare(world.payloadBytes(offset), batch[offset % 4])).toBe(0);
    }
    expect(anchors()).toBeLessThanOrEqual(2 * most + (1024 * 1024) / 65_536);
  });
});
