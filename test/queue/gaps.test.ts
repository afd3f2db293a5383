import { describe, expect, it } from "vitest";
import { Group } from "../../src/queue/group.ts";
import { OffsetRuns } from "../../src/queue/offset-runs.ts";
import { flow, makeGroup, offsetsOf, poll, pollMessage, VECTOR_OPTIONS } from "./fixtures.ts";

describe("offsets whose records are lost", () => {
  it("README ruling 1: are settled at once for the group that meets them, and told of once", () => {
    const group = makeGroup();
    const member = group.createMember();
    expect(pollMessage(group, member, 0, 10).offset).toBe(0);
    expect(group.lose(0, 4)).toEqual({ start: 0, end: 4 });
    expect(member).toMatchObject({ held: 0, heldBytes: 0 });
    expect(group.takeSnapshot()).toEqual({ committed: 4, runs: [] });
    expect(group.attemptsSnapshot()).toEqual([]);
    expect(group.lose(0, 4)).toBeUndefined();
    expect(pollMessage(group, member, 0, 10).offset).toBe(4);
  });

  it("a gap far larger than the window is crossed in one step, whatever is leased before it", () => {
    const end = 2 ** 50;
    const group = makeGroup({ maxInFlight: 4 });
    const member = group.createMember();
    const [zero, one, two] = flow(group, member, 0, end + 10, 3);
    expect(two.offset).toBe(2);
    expect(group.lose(2, end)).toEqual({ start: 2, end });
    expect(group.takeSnapshot()).toEqual({ committed: 0, runs: [{ start: 2, end }] });
    // The window is one of offsets above the committed one: what lies behind the gap waits for what lies before it.
    expect(poll(group, member, 0, end + 10)).toBe("idle");
    expect(group.ack(member, one.offset, one.generation)).toBe(true);
    expect(group.takeSnapshot()).toEqual({ committed: 0, runs: [{ start: 1, end }] });
    expect(group.ack(member, zero.offset, zero.generation)).toBe(true);
    expect(group.takeSnapshot()).toEqual({ committed: end, runs: [] });
    expect(group.hasSettledAhead).toBe(false);
    expect(offsetsOf(flow(group, member, 0, end + 10, 9))).toEqual([end, end + 1, end + 2, end + 3]);
  });

  it("expired leases before a wide gap are found, and nothing is taken for one behind it", () => {
    const end = 10_000;
    const group = makeGroup({ maxInFlight: 1000 });
    const member = group.createMember();
    flow(group, member, 0, end, 70);
    expect(group.lose(69, end - 1)).toEqual({ start: 69, end: end - 1 });
    const again = flow(group, member, VECTOR_OPTIONS.visibility, end, 1000);
    expect(offsetsOf(again)).toEqual([...Array(69).keys()]);
    expect(again.every(({ deliveries }) => deliveries === 2)).toBe(true);
  });

  it("tells of the part that is new when a gap grows", () => {
    const group = makeGroup();
    const member = group.createMember();
    flow(group, member, 0, 16, 8);
    expect(group.lose(4, 6)).toEqual({ start: 4, end: 6 });
    expect(group.lose(4, 8)).toEqual({ start: 6, end: 8 });
    expect(group.lose(2, 8)).toEqual({ start: 2, end: 4 });
    expect(group.takeSnapshot().runs).toEqual([{ start: 2, end: 8 }]);
  });

  it("does not tell of what was acked before, and fences the leases inside", () => {
    const group = makeGroup();
    const member = group.createMember();
    const tokens = flow(group, member, 0, 16, 8);
    for (const offset of [2, 7]) group.ack(member, offset, tokens[offset].generation);
    expect(group.lose(2, 8)).toEqual({ start: 3, end: 7 });
    expect(group.ack(member, 5, tokens[5].generation)).toBe(false);
    expect(group.takeSnapshot()).toEqual({ committed: 0, runs: [{ start: 2, end: 8 }] });
    for (const offset of [0, 1]) group.ack(member, offset, tokens[offset].generation);
    expect(group.committed).toBe(8);
    expect(group.ackedAheadRuns).toBe(0);
  });

  it("survives a restart as a run, of any length, and is not told of again", () => {
    const end = 2 ** 40;
    const group = makeGroup();
    const member = group.createMember();
    flow(group, member, 0, end + 5, 3);
    group.lose(2, end);
    const resumed = Group.resume(VECTOR_OPTIONS, group.takeSnapshot(), group.attemptsSnapshot(), end + 5);
    const again = resumed.createMember();
    const tokens = flow(resumed, again, 0, end + 5, 9);
    expect(tokens.map(({ offset, deliveries }) => [offset, deliveries])).toEqual([
      [0, 2],
      [1, 2],
    ]);
    for (const { offset, generation } of tokens) resumed.ack(again, offset, generation);
    expect(resumed.committed).toBe(end);
  });

  it("a truncation into a gap that was crossed goes on behind it", () => {
    const group = makeGroup();
    const member = group.createMember();
    flow(group, member, 0, 100, 8);
    group.lose(6, 50);
    expect(group.truncateTo(20)).toEqual({ skipped: 20 });
    expect(group.committed).toBe(50);
    expect(pollMessage(group, member, 0, 100).offset).toBe(50);
  });
});

describe("runs of offsets", () => {
  it("join what they touch and are found by offset", () => {
    const runs = new OffsetRuns();
    for (const [start, end] of [
      [10, 12],
      [20, 30],
      [14, 16],
      [12, 14],
      [0, 5],
      [29, 40],
    ]) {
      runs.add(start, end);
    }
    expect(runs.all).toEqual([
      { start: 0, end: 5 },
      { start: 10, end: 16 },
      { start: 20, end: 40 },
    ]);
    expect(runs.after(5)).toEqual({ start: 10, end: 16 });
    expect(runs.after(39)).toEqual({ start: 20, end: 40 });
    expect(runs.after(40).start).toBe(Number.POSITIVE_INFINITY);
    runs.dropBelow(16);
    expect(runs.all).toEqual([{ start: 20, end: 40 }]);
    runs.add(0, 100);
    expect(runs.all).toEqual([{ start: 0, end: 100 }]);
  });
});
