import { describe, expect, it } from "vitest";
import { Group } from "../../src/queue/group.ts";
import { flow, makeGroup, offsetsOf, VECTOR_OPTIONS } from "./fixtures.ts";

const V = VECTOR_OPTIONS.visibility;

describe("persistence", () => {
  it("semantics.md 24.26: of five isolated runs the lowest three are remembered, the others are delivered again", () => {
    const group = makeGroup();
    const member = group.createMember();
    const tokens = flow(group, member, 0, 12, 12);
    for (const offset of [2, 4, 6, 8, 10]) group.ack(member, offset, tokens[offset].generation);
    const snapshot = group.takeSnapshot();
    expect(snapshot).toEqual({
      committed: 0,
      runs: [
        { start: 2, end: 3 },
        { start: 4, end: 5 },
        { start: 6, end: 7 },
      ],
    });
    const resumed = Group.resume(VECTOR_OPTIONS, snapshot, [], 12);
    const offsets = offsetsOf(flow(resumed, resumed.createMember(), 0, 12, 100));
    expect(offsets).toEqual([0, 1, 3, 5, 7, 8, 9, 10, 11]);
  });

  it("semantics.md 24.27: a checkpoint beyond the head is clamped, runs beyond it are dropped", () => {
    const runs = [
      { start: 12, end: 14 },
      { start: 18, end: 21 },
    ];
    expect(Group.resume(VECTOR_OPTIONS, { committed: 10, runs }, [], 20).takeSnapshot()).toEqual({
      committed: 10,
      runs: [{ start: 12, end: 14 }],
    });
    expect(Group.resume(VECTOR_OPTIONS, { committed: 10, runs }, [], 7).takeSnapshot()).toEqual({
      committed: 7,
      runs: [],
    });
  });

  it("semantics.md 9: counts of leases and carried ones survive, the next claim goes on, and snapshots never lower them", () => {
    const group = makeGroup();
    const member = group.createMember();
    flow(group, member, 0, 4, 3);
    expect(group.redeliveriesSinceFlush).toBe(0);
    flow(group, member, V, 4, 2);
    expect(group.redeliveriesSinceFlush).toBe(2);
    const attempts = group.attemptsSnapshot();
    expect(attempts).toEqual([
      { offset: 0, deliveries: 2 },
      { offset: 1, deliveries: 2 },
      { offset: 2, deliveries: 1 },
    ]);
    group.markAttemptsFlushed();
    expect(group.redeliveriesSinceFlush).toBe(0);

    const resumed = Group.resume(VECTOR_OPTIONS, group.takeSnapshot(), attempts, 4);
    expect(resumed.attemptsSnapshot()).toEqual(attempts);
    const again = resumed.createMember();
    expect(flow(resumed, again, 0, 4, 2).map((token) => token.deliveries)).toEqual([3, 3]);
    expect(resumed.redeliveriesSinceFlush).toBe(2);
    expect(resumed.attemptsSnapshot()).toEqual([
      { offset: 0, deliveries: 3 },
      { offset: 1, deliveries: 3 },
      { offset: 2, deliveries: 1 },
    ]);
    expect(flow(resumed, again, 0, 4, 9).map((token) => token.deliveries)).toEqual([2, 1]);
  });

  it("semantics.md 9: counts outside [committed, head) or inside a settled run are ignored", () => {
    const snapshot = { committed: 5, runs: [{ start: 7, end: 9 }] };
    const attempts = [4, 5, 7, 9, 10].map((offset) => ({ offset, deliveries: 3 }));
    expect(Group.resume(VECTOR_OPTIONS, snapshot, attempts, 10).attemptsSnapshot()).toEqual([
      { offset: 5, deliveries: 3 },
      { offset: 9, deliveries: 3 },
    ]);
  });

  it("semantics.md 24.29: counts without a cursor resume at committed 0", () => {
    const group = Group.resume(VECTOR_OPTIONS, { committed: 0, runs: [] }, [{ offset: 3, deliveries: 4 }], 4);
    const tokens = flow(group, group.createMember(), 0, 4, 4);
    expect(tokens.map((token) => token.deliveries)).toEqual([1, 1, 1, 5]);
  });

  it("keeps at most 2729 counts, the lowest, and saturates a count", () => {
    const options = { ...VECTOR_OPTIONS, maxInFlight: 4000 };
    const group = Group.resume(options, { committed: 0, runs: [] }, [{ offset: 0, deliveries: 0xffff_ffff }], 4000);
    flow(group, group.createMember(), 0, 4000, 4000);
    const attempts = group.attemptsSnapshot();
    expect(attempts).toHaveLength(2729);
    expect(attempts[0]).toEqual({ offset: 0, deliveries: 0xffff_ffff });
    expect(attempts.at(-1)).toEqual({ offset: 2728, deliveries: 1 });
  });

  it("does not take memory on the word of a checkpoint: counts far above the committed offset are dropped, runs take none", () => {
    const snapshot = {
      committed: 0,
      runs: [
        { start: 2 ** 20 - 1, end: 2 ** 40 },
        { start: 2 ** 40, end: 2 ** 50 },
      ],
    };
    const group = Group.resume(VECTOR_OPTIONS, snapshot, [{ offset: 2 ** 45, deliveries: 2 }], 2 ** 53 - 1);
    expect(group.takeSnapshot().runs).toEqual([{ start: 2 ** 20 - 1, end: 2 ** 50 }]);
    expect(group.attemptsSnapshot()).toEqual([]);
    expect(offsetsOf(flow(group, group.createMember(), 0, 100, 3))).toEqual([0, 1, 2]);
  });

  it("overlapping, touching, empty or reversed runs of a damaged checkpoint do no harm", () => {
    const runs = [
      { start: 0, end: 3 },
      { start: 4, end: 6 },
      { start: 5, end: 8 },
      { start: 8, end: 9 },
      { start: 12, end: 12 },
      { start: 14, end: 13 },
    ];
    const group = Group.resume(VECTOR_OPTIONS, { committed: 2, runs }, [], 20);
    expect(group.takeSnapshot()).toEqual({ committed: 2, runs: [{ start: 4, end: 9 }] });
    expect(group.hasSettledAhead).toBe(true);
  });

  it("works at offsets above 2^32 and near 2^53", () => {
    for (const committed of [2 ** 31 - 5, 2 ** 32 - 5, 2 ** 53 - 200]) {
      const group = Group.resume(VECTOR_OPTIONS, { committed, runs: [] }, [], committed + 100);
      const member = group.createMember();
      for (let round = 0; round < 5; round++) {
        const tokens = flow(group, member, 0, committed + 100, 10);
        for (const token of tokens.reverse()) expect(group.ack(member, token.offset, token.generation)).toBe(true);
      }
      expect(group.takeSnapshot()).toEqual({ committed: committed + 50, runs: [] });
    }
  });
});
