import { describe, expect, it } from "vitest";
import { GenerationExhaustedError, SERVER_BACKOFF } from "../../src/queue/group-options.ts";
import { flow, makeGroup, offsetsOf, poll, pollMessage, VECTOR_OPTIONS } from "./fixtures.ts";

const V = VECTOR_OPTIONS.visibility;

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
