import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { flow, makeGroup, poll, pollMessage } from "./fixtures.ts";

describe("cursor", () => {
  it("semantics.md 24.3: acks ahead form a run, the watermark absorbs it, a repeat changes nothing", () => {
    const group = makeGroup();
    const member = group.createMember();
    const [zero, one, two] = flow(group, member, 0, 3, 3);
    expect(group.ack(member, one.offset, one.generation)).toBe(true);
    expect(group.ack(member, two.offset, two.generation)).toBe(true);
    expect(group.takeSnapshot()).toEqual({ committed: 0, runs: [{ start: 1, end: 3 }] });
    expect(group.ack(member, zero.offset, zero.generation)).toBe(true);
    expect(group.takeSnapshot()).toEqual({ committed: 3, runs: [] });
    expect(group.ack(member, one.offset, one.generation)).toBe(false);
    expect(group.takeSnapshot()).toEqual({ committed: 3, runs: [] });
  });

  it("semantics.md 24.4: any permutation of acks ends at the same committed offset without runs", () => {
    const permutation = fc
      .integer({ min: 1, max: 200 })
      .chain((n) => fc.shuffledSubarray([...Array(n).keys()], { minLength: n, maxLength: n }));
    fc.assert(
      fc.property(permutation, (order) => {
        const group = makeGroup({ maxInFlight: 200 });
        const member = group.createMember();
        const tokens = flow(group, member, 0, order.length, order.length);
        for (const index of order) group.ack(member, index, tokens[index].generation);
        expect(group.takeSnapshot()).toEqual({ committed: order.length, runs: [] });
        expect(group.ackedAheadRuns).toBe(0);
      }),
    );
  });

  it("semantics.md 24.5: an ack beyond the cap of runs is answered but not recorded; merging acks are recorded", () => {
    const group = makeGroup({ maxAckedAheadRuns: 2 });
    const member = group.createMember();
    const tokens = flow(group, member, 0, 7, 7);
    const ack = (offset: number) => group.ack(member, offset, tokens[offset].generation);
    expect([ack(2), ack(4), ack(6)]).toEqual([true, true, true]);
    expect(group.shedAcks).toBe(1);
    expect(group.ackedAheadRuns).toBe(2);
    expect(flow(group, member, 0, 7, 7)).toMatchObject([{ offset: 6, deliveries: 1 }]);
    expect(ack(3)).toBe(true);
    expect(group.takeSnapshot()).toEqual({ committed: 0, runs: [{ start: 2, end: 5 }] });
    expect([ack(0), ack(1)]).toEqual([true, true]);
    expect(group.takeSnapshot()).toEqual({ committed: 5, runs: [] });
    expect(group.shedAcks).toBe(1);
  });

  it("semantics.md 4: a cap of 0 never sheds", () => {
    const group = makeGroup({ maxAckedAheadRuns: 0, maxInFlight: 5000 });
    const member = group.createMember();
    for (const token of flow(group, member, 0, 5000, 5000)) {
      if (token.offset % 2 === 1) group.ack(member, token.offset, token.generation);
    }
    expect(group.ackedAheadRuns).toBe(2500);
    expect(group.shedAcks).toBe(0);
  });

  it("semantics.md 24.6: the window counts offsets above the committed one, not leases", () => {
    const group = makeGroup({ maxInFlight: 4 });
    const member = group.createMember();
    const tokens = [0, 1, 2, 3].map(() => pollMessage(group, member, 0, 10));
    expect(poll(group, member, 0, 10)).toBe("idle");
    for (const token of tokens.slice(1)) group.ack(member, token.offset, token.generation);
    expect(poll(group, member, 0, 10)).toBe("idle");
    group.ack(member, 0, tokens[0].generation);
    expect([0, 1, 2, 3].map(() => pollMessage(group, member, 0, 10).offset)).toEqual([4, 5, 6, 7]);
    expect(poll(group, member, 0, 10)).toBe("idle");
  });

  it("semantics.md 20.2: a window of 0 is refused", () => {
    expect(() => makeGroup({ maxInFlight: 0 })).toThrow("max_in_flight must be greater than zero");
    expect(() => makeGroup({ maxInFlight: Number.NaN })).toThrow("max_in_flight must be greater than zero");
  });
});

describe("truncation", () => {
  it("semantics.md 24.35: a group behind the earliest offset is told once and goes on there", () => {
    const group = makeGroup();
    const member = group.createMember();
    expect(group.truncateTo(5)).toEqual({ skipped: 5 });
    expect(group.truncateTo(5)).toBeUndefined();
    expect(group.truncateTo(4)).toBeUndefined();
    expect(poll(group, member, 0, 6)).toEqual({ offset: 5, generation: 0, deliveries: 1 });
  });

  it("semantics.md 6.2: leases and counts below are dropped, runs forgotten, generations go on", () => {
    const group = makeGroup();
    const member = group.createMember();
    const tokens = flow(group, member, 0, 10, 8);
    for (const token of tokens) group.setBytes(token.offset, 10);
    for (const offset of [2, 5, 6]) group.ack(member, offset, tokens[offset].generation);
    expect(group.truncateTo(4)).toEqual({ skipped: 4 });
    expect(group.takeSnapshot()).toEqual({ committed: 4, runs: [] });
    expect(group.ackedAheadRuns).toBe(0);
    expect(member).toMatchObject({ held: 2, heldBytes: 20 });
    expect(group.attemptsSnapshot()).toEqual([
      { offset: 4, deliveries: 1 },
      { offset: 7, deliveries: 1 },
    ]);
    expect(group.ack(member, 3, tokens[3].generation)).toBe(false);
    expect(flow(group, member, 0, 10, 9)).toEqual([
      { offset: 5, generation: 8, deliveries: 1 },
      { offset: 6, generation: 9, deliveries: 1 },
      { offset: 8, generation: 10, deliveries: 1 },
      { offset: 9, generation: 11, deliveries: 1 },
    ]);
    expect(group.ack(member, 4, tokens[4].generation)).toBe(true);
    expect(group.committed).toBe(5);
  });

  it("goes far beyond everything the group ever held", () => {
    const group = makeGroup();
    const member = group.createMember();
    flow(group, member, 0, 10, 8);
    expect(group.truncateTo(2 ** 40)).toEqual({ skipped: 2 ** 40 });
    expect(member.held).toBe(0);
    expect(poll(group, member, 0, 2 ** 40 + 1)).toMatchObject({ offset: 2 ** 40, deliveries: 1 });
  });
});
