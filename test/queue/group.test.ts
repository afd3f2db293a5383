import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Group } from "../../src/queue/group.ts";
import { GenerationExhaustedError, SERVER_BACKOFF } from "../../src/queue/group-options.ts";
import { flow, makeGroup, offsetsOf, poll, pollMessage, VECTOR_OPTIONS } from "./fixtures.ts";

const V = VECTOR_OPTIONS.visibility;

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

describe("leases", () => {
  it("semantics.md 24.7: a lease lasts until its deadline, then the offset comes again with the next generation", () => {
    const group = makeGroup();
    const member = group.createMember();
    expect(poll(group, member, 0, 1)).toEqual({ offset: 0, generation: 0, deliveries: 1 });
    expect(poll(group, member, V - 1, 1)).toBe("idle");
    expect(poll(group, member, V, 1)).toEqual({ offset: 0, generation: 1, deliveries: 2 });
  });

  it("semantics.md 24.8: a token from before a redelivery is fenced for every verb", () => {
    const group = makeGroup();
    const member = group.createMember();
    const first = pollMessage(group, member, 0, 1);
    const second = pollMessage(group, member, V, 1);
    expect(group.ack(member, 0, first.generation)).toBe(false);
    expect(group.nack(member, 0, first.generation, V, 0)).toBe(false);
    expect(group.term(member, 0, first.generation)).toBe(false);
    expect(group.extend(member, 0, first.generation, V)).toBe("fenced");
    expect(member.held).toBe(1);
    expect(group.ack(member, 0, second.generation)).toBe(true);
    expect(group.committed).toBe(1);
  });

  it("semantics.md 24.9: an expired lease settles until the member's next Flow has pruned it", () => {
    const late = makeGroup();
    const lateMember = late.createMember();
    const lateToken = pollMessage(late, lateMember, 0, 1);
    expect(late.ack(lateMember, 0, lateToken.generation)).toBe(true);

    const pruned = makeGroup();
    const prunedMember = pruned.createMember();
    const prunedToken = pollMessage(pruned, prunedMember, 0, 1);
    pruned.pruneExpired(prunedMember, V - 1);
    expect(prunedMember.held).toBe(1);
    pruned.pruneExpired(prunedMember, V);
    expect(prunedMember.held).toBe(0);
    expect(pruned.ack(prunedMember, 0, prunedToken.generation)).toBe(false);
    expect(poll(pruned, prunedMember, V + 1, 1)).toMatchObject({ offset: 0, deliveries: 2 });
  });

  it("semantics.md 24.10: progress prolongs up to the hard cap; a new attempt gets a fresh one", () => {
    const group = makeGroup();
    const member = group.createMember();
    const token = pollMessage(group, member, 0, 1);
    const extend = (now: number, generation = token.generation) => group.extend(member, 0, generation, now);
    const idleUntil = (deadline: number) => expect(poll(group, member, deadline - 1, 1)).toBe("idle");
    expect(extend(20)).toBe("extended");
    idleUntil(50);
    expect(extend(45)).toBe("extended");
    expect(extend(70)).toBe("extended");
    expect(extend(90)).toBe("extended");
    idleUntil(100);
    expect(extend(100)).toBe("cap");
    const again = pollMessage(group, member, 100, 1);
    expect(again).toMatchObject({ offset: 0, deliveries: 2 });
    for (const now of [125, 150, 175, 199]) expect(extend(now, again.generation)).toBe("extended");
    idleUntil(200);
    expect(extend(200, again.generation)).toBe("cap");
  });

  it("semantics.md 24.11: a nack without delay makes the offset claimable and fences the nacked token", () => {
    const group = makeGroup();
    const member = group.createMember();
    const token = pollMessage(group, member, 0, 1);
    expect(group.nack(member, 0, token.generation, 0, 0)).toBe(true);
    expect(group.ack(member, 0, token.generation)).toBe(false);
    expect(group.ack(member, 0, token.generation + 1)).toBe(false);
    expect(poll(group, member, 0, 1)).toMatchObject({ offset: 0, deliveries: 2 });
  });

  it("semantics.md 24.12: the backoff schedule by attempt, its last entry repeating; explicit delays override it", () => {
    const group = makeGroup({ backoff: [10, 50] });
    const member = group.createMember();
    let now = 0;
    const nackAndExpectDelay = (delay: number, expected: number) => {
      const token = pollMessage(group, member, now, 1);
      expect(group.nack(member, 0, token.generation, now, delay)).toBe(true);
      if (expected > 0) expect(poll(group, member, now + expected - 1, 1)).toBe("idle");
      now += expected;
    };
    nackAndExpectDelay(SERVER_BACKOFF, 10);
    nackAndExpectDelay(SERVER_BACKOFF, 50);
    nackAndExpectDelay(SERVER_BACKOFF, 50);
    nackAndExpectDelay(5, 5);
    nackAndExpectDelay(0, 0);
    expect(poll(group, member, now, 1)).toMatchObject({ deliveries: 6 });
  });

  it("semantics.md 7: an empty schedule, or a single 0, means no delay", () => {
    for (const backoff of [[], [0]]) {
      const group = makeGroup({ backoff });
      const member = group.createMember();
      const token = pollMessage(group, member, 7, 1);
      group.nack(member, 0, token.generation, 7, SERVER_BACKOFF);
      expect(poll(group, member, 7, 1)).toMatchObject({ offset: 0, deliveries: 2 });
    }
  });

  it("semantics.md 24.13: a nack's delay beyond the hard cap is honoured", () => {
    const group = makeGroup();
    const member = group.createMember();
    const token = pollMessage(group, member, 0, 1);
    const delay = 1000 * VECTOR_OPTIONS.hardCap;
    group.nack(member, 0, token.generation, 0, delay);
    expect(poll(group, member, delay - 1, 1)).toBe("idle");
    expect(poll(group, member, delay, 1)).toMatchObject({ offset: 0, deliveries: 2 });
  });

  it("semantics.md 24.14: redeliveries come before newer records, and a delayed nack holds nothing back", () => {
    const expired = makeGroup();
    const member = expired.createMember();
    pollMessage(expired, member, 0, 2);
    expect(poll(expired, member, V, 2)).toMatchObject({ offset: 0, deliveries: 2 });

    const nacked = makeGroup();
    const other = nacked.createMember();
    const token = pollMessage(nacked, other, 0, 2);
    nacked.nack(other, 0, token.generation, 0, 10);
    expect(poll(nacked, other, 0, 2)).toMatchObject({ offset: 1, deliveries: 1 });
  });

  it("semantics.md 24.15: only the member that a token was delivered to settles it", () => {
    const group = makeGroup();
    const owner = group.createMember();
    const stranger = group.createMember();
    const token = pollMessage(group, owner, 0, 1);
    expect(group.ack(stranger, 0, token.generation)).toBe(false);
    expect(group.nack(stranger, 0, token.generation, 0, 0)).toBe(false);
    expect(group.extend(stranger, 0, token.generation, 0)).toBe("fenced");
    expect(group.ack(owner, 0, token.generation)).toBe(true);
  });

  it("semantics.md 24.16: a terminated record is settled like an acked one", () => {
    const group = makeGroup();
    const member = group.createMember();
    const token = pollMessage(group, member, 0, 1);
    expect(group.term(member, 0, token.generation)).toBe(true);
    expect(group.committed).toBe(1);
    expect(poll(group, member, 10 * V, 1)).toBe("idle");
  });

  it("semantics.md 5: a removed member's leases stay until they expire, and its index is not a way back in", () => {
    const group = makeGroup();
    const gone = group.createMember();
    const token = pollMessage(group, gone, 0, 1);
    group.removeMember(gone);
    group.removeMember(gone);
    const heir = group.createMember();
    expect(group.ack(gone, 0, token.generation)).toBe(false);
    expect(group.ack(heir, 0, token.generation)).toBe(false);
    expect(heir.held).toBe(0);
    expect(poll(group, heir, V - 1, 1)).toBe("idle");
    expect(poll(group, heir, V, 1)).toMatchObject({ offset: 0, deliveries: 2 });
  });

  it("semantics.md 5: tokens that name no lease are fenced", () => {
    const group = makeGroup();
    const member = group.createMember();
    pollMessage(group, member, 0, 5);
    for (const offset of [-1, 1, 4, 15, 16, 64, 128, 2 ** 40, Number.MAX_SAFE_INTEGER, Number.NaN]) {
      expect(group.ack(member, offset, 0)).toBe(false);
      expect(group.extend(member, offset, 0, 0)).toBe("fenced");
    }
    for (const generation of [-1, 1, 0.5, Number.NaN, 2 ** 53]) expect(group.ack(member, 0, generation)).toBe(false);
    expect(group.ack(member, 0, 0)).toBe(true);
  });

  it("semantics.md 5: when generations run out a claim is refused and nothing has changed", () => {
    const group = makeGroup({ firstGeneration: Number.MAX_SAFE_INTEGER - 2 });
    const member = group.createMember();
    const token = pollMessage(group, member, 0, 3);
    pollMessage(group, member, 0, 3);
    expect(() => poll(group, member, 0, 3)).toThrow(GenerationExhaustedError);
    expect(() => group.nack(member, 0, token.generation, 0, 0)).toThrow(GenerationExhaustedError);
    expect(member.held).toBe(2);
    expect(group.ack(member, 0, token.generation)).toBe(true);
  });

  it("semantics.md 24.34: two members get disjoint offsets that together are complete", () => {
    const group = makeGroup({ maxInFlight: 100 });
    const one = group.createMember();
    const two = group.createMember();
    const taken: number[] = [];
    for (let round = 0; round < 10; round++) {
      taken.push(...offsetsOf(flow(group, one, 0, 100, 3)), ...offsetsOf(flow(group, two, 0, 100, 7)));
    }
    expect(taken).toEqual([...Array(100).keys()]);
    expect(one.held).toBe(30);
    expect(two.held).toBe(70);
  });
});

describe("cost of a scan", () => {
  /** Time of many Flows by a consumer behind `leased` offsets that a peer holds, some of them claimed and given back. */
  function timeFlows(leased: number): number {
    const group = makeGroup({ maxInFlight: 200_000, visibility: 1000, hardCap: 1000 });
    const member = group.createMember();
    flow(group, group.createMember(), 0, 1e9, leased / 2);
    flow(group, member, 10, 1e9, 1);
    flow(group, group.createMember(), 11, 1e9, leased / 2);
    const started = performance.now();
    for (let turn = 0; turn < 20_000; turn++) {
      const [token] = flow(group, member, 20, 1e9, 1);
      if (turn % 1000 === 0) group.nack(member, token.offset, token.generation, 20, 5000);
      else group.ack(member, token.offset, token.generation);
    }
    return performance.now() - started;
  }

  it("does not grow with the number of leases that others hold", () => {
    timeFlows(1000);
    const few = Math.max(timeFlows(100), timeFlows(100));
    const many = Math.min(timeFlows(100_000), timeFlows(100_000));
    // A walk over the leases on each Flow would take a thousand times as long.
    expect(many / few).toBeLessThan(50);
  });

  it("goes back to that after leases have expired", () => {
    const group = makeGroup({ maxInFlight: 200_000 });
    const [peer, member] = [group.createMember(), group.createMember()];
    flow(group, peer, 0, 1e9, 100_000);
    const expired = () => flow(group, member, V, 1e9, 100_000).length;
    expect(expired()).toBe(100_000);
    const timeIdle = (times: number) => {
      const started = performance.now();
      for (let i = 0; i < times; i++) expect(flow(group, member, V + 1, 100_000, 1)).toHaveLength(0);
      return performance.now() - started;
    };
    timeIdle(100);
    const fresh = makeGroup();
    const freshMember = fresh.createMember();
    const started = performance.now();
    for (let i = 0; i < 5000; i++) expect(flow(fresh, freshMember, 0, 0, 1)).toHaveLength(0);
    const base = performance.now() - started;
    expect(timeIdle(5000) / base).toBeLessThan(50);
  });
});

describe("claims taken back", () => {
  it("semantics.md 6.2 step 5: an attempt that was not delivered does not count", () => {
    const group = makeGroup();
    const member = group.createMember();
    group.beginScan(0);
    group.next(member, 2);
    group.setBytes(0, 100);
    group.unclaim(0);
    expect(member).toMatchObject({ held: 0, heldBytes: 0 });
    expect(group.next(member, 2)).toBe(1);
    expect(poll(group, member, 0, 2)).toMatchObject({ offset: 0, deliveries: 1 });
    expect(poll(group, member, V, 2)).toMatchObject({ offset: 0, deliveries: 2 });
    group.unclaim(0);
    expect(poll(group, member, V, 2)).toMatchObject({ offset: 0, deliveries: 2 });
  });

  it("leaves offsets alone that are not leased", () => {
    const group = makeGroup();
    const member = group.createMember();
    const [, one] = flow(group, member, 0, 2, 2);
    group.ack(member, 1, one.generation);
    for (const offset of [-1, 1, 2, 1000]) group.unclaim(offset);
    expect(group.takeSnapshot()).toEqual({ committed: 0, runs: [{ start: 1, end: 2 }] });
    expect(member.held).toBe(1);
  });
});

describe("bytes held", () => {
  it("counts what was set and gives it back at ack, nack, expiry and takeover", () => {
    const group = makeGroup();
    const member = group.createMember();
    const peer = group.createMember();
    const tokens = flow(group, member, 0, 4, 4);
    for (const token of tokens) group.setBytes(token.offset, 100 + token.offset);
    group.setBytes(0, 50);
    expect(member.heldBytes).toBe(50 + 101 + 102 + 103);
    group.ack(member, 0, tokens[0].generation);
    group.nack(member, 1, tokens[1].generation, 0, 0);
    expect(member.heldBytes).toBe(102 + 103);
    group.setBytes(1, 7);
    expect(member.heldBytes).toBe(102 + 103);
    group.beginScan(V);
    expect([group.next(peer, 4), group.next(peer, 4)]).toEqual([1, 2]);
    expect(member).toMatchObject({ held: 1, heldBytes: 103 });
    group.pruneExpired(member, V);
    expect(member).toMatchObject({ held: 0, heldBytes: 0 });
    for (const offset of [-1, 4, 1000]) group.setBytes(offset, 1);
    expect(peer).toMatchObject({ held: 2, heldBytes: 0 });
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

  it("does not take memory on the word of a checkpoint: runs far above the committed offset are cut or dropped", () => {
    const snapshot = {
      committed: 0,
      runs: [
        { start: 2 ** 20 - 1, end: 2 ** 40 },
        { start: 2 ** 40, end: 2 ** 50 },
      ],
    };
    const group = Group.resume(VECTOR_OPTIONS, snapshot, [{ offset: 2 ** 45, deliveries: 2 }], 2 ** 53 - 1);
    expect(group.takeSnapshot().runs).toEqual([{ start: 2 ** 20 - 1, end: 2 ** 20 }]);
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
    expect(group.ackedAheadRuns).toBe(1);
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
