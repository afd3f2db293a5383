import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { OffsetRun } from "../../src/queue/cursor.ts";
import { Group } from "../../src/queue/group.ts";
import type { GroupOptions } from "../../src/queue/group-options.ts";
import { SERVER_BACKOFF } from "../../src/queue/group-options.ts";
import type { Member } from "../../src/queue/member.ts";
import { flow as flowWithoutGaps, type Token } from "./fixtures.ts";

interface ModelLease {
  generation: number;
  start: number;
  deadline: number;
  deliveries: number;
  owner: number | undefined;
  bytes: number;
}

/** The rules of semantics.md 4 to 7 in the most literal form: sets and maps, everything recounted each time. */
class ModelGroup {
  committed = 0;
  /** Acked above the committed offset. */
  settled = new Set<number>();
  /** Known to be lost, or remembered from a checkpoint. */
  apart = new Set<number>();
  leases = new Map<number, ModelLease>();
  carried = new Map<number, number>();
  nextGeneration = 0;
  redeliveries = 0;
  readonly options: GroupOptions;

  constructor(options: GroupOptions) {
    this.options = options;
  }

  runs(offsets: Iterable<number> = [...new Set([...this.settled, ...this.apart])]): { start: number; end: number }[] {
    const runs: { start: number; end: number }[] = [];
    for (const offset of [...offsets].sort((a, b) => a - b)) {
      const last = runs.at(-1);
      if (last?.end === offset) last.end = offset + 1;
      else runs.push({ start: offset, end: offset + 1 });
    }
    return runs;
  }

  prune(member: number, now: number): void {
    for (const lease of this.leases.values()) {
      if (lease.owner === member && now >= lease.deadline) lease.owner = undefined;
    }
  }

  advance(): void {
    for (;;) {
      const acked = this.settled.delete(this.committed);
      const apart = this.apart.delete(this.committed);
      if (!acked && !apart) return;
      this.committed++;
    }
  }

  lose(gap: OffsetRun): OffsetRun | undefined {
    const unsettled: number[] = [];
    for (let offset = Math.max(gap.start, this.committed); offset < gap.end; offset++) {
      if (!this.settled.has(offset) && !this.apart.has(offset)) unsettled.push(offset);
    }
    if (unsettled.length === 0) return undefined;
    const lost = { start: unsettled[0], end: (unsettled.at(-1) as number) + 1 };
    for (let offset = lost.start; offset < lost.end; offset++) {
      this.apart.add(offset);
      this.settled.delete(offset);
      this.leases.delete(offset);
      this.carried.delete(offset);
    }
    this.advance();
    return lost;
  }

  flow(member: number, now: number, head: number, count: number, bytes: number, gapAt: GapAt): (Token | OffsetRun)[] {
    this.prune(member, now);
    const tokens: (Token | OffsetRun)[] = [];
    const end = () => Math.min(this.committed + this.options.maxInFlight, head);
    for (let offset = this.committed; offset < end() && tokens.length < count; offset++) {
      const lease = this.leases.get(offset);
      if (offset < this.committed || this.settled.has(offset) || this.apart.has(offset)) continue;
      if (lease && now < lease.deadline) continue;
      const generation = this.nextGeneration++;
      const deliveries = lease ? lease.deliveries + 1 : (this.carried.get(offset) ?? 0) + 1;
      if (deliveries > 1) this.redeliveries++;
      const gap = gapAt(offset);
      if (gap !== undefined) {
        tokens.push(this.lose(gap) as OffsetRun);
        continue;
      }
      this.carried.delete(offset);
      const deadline = now + Math.min(this.options.visibility, this.options.hardCap);
      this.leases.set(offset, { generation, start: now, deadline, deliveries, owner: member, bytes });
      tokens.push({ offset, generation, deliveries });
    }
    return tokens;
  }

  owned(member: number, { offset, generation }: Token): ModelLease | undefined {
    const lease = this.leases.get(offset);
    return lease?.owner === member && lease.generation === generation ? lease : undefined;
  }

  ack(member: number, token: Token): boolean {
    if (!this.owned(member, token)) return false;
    const { offset } = token;
    this.leases.delete(offset);
    const isNewRun = offset !== this.committed && !this.settled.has(offset - 1) && !this.settled.has(offset + 1);
    const { maxAckedAheadRuns } = this.options;
    if (isNewRun && maxAckedAheadRuns > 0 && this.runs(this.settled).length >= maxAckedAheadRuns) return true;
    this.settled.add(offset);
    this.advance();
    return true;
  }

  nack(member: number, token: Token, now: number, delay: number): boolean {
    const lease = this.owned(member, token);
    if (!lease) return false;
    const { backoff } = this.options;
    const scheduled = backoff.length === 0 ? 0 : backoff[Math.min(lease.deliveries - 1, backoff.length - 1)];
    lease.generation = this.nextGeneration++;
    lease.deadline = now + (delay === SERVER_BACKOFF ? scheduled : delay);
    lease.owner = undefined;
    return true;
  }

  extend(member: number, token: Token, now: number): string {
    const lease = this.owned(member, token);
    if (!lease) return "fenced";
    const cap = lease.start + this.options.hardCap;
    if (now >= cap) return "cap";
    lease.deadline = Math.min(now + this.options.visibility, cap);
    return "extended";
  }

  unclaim(offset: number): void {
    const lease = this.leases.get(offset);
    if (!lease) return;
    this.leases.delete(offset);
    if (lease.deliveries > 1) this.carried.set(offset, lease.deliveries - 1);
  }

  removeMember(member: number): void {
    for (const lease of this.leases.values()) if (lease.owner === member) lease.owner = undefined;
  }

  truncate(earliest: number): void {
    if (earliest <= this.committed) return;
    this.committed = earliest;
    this.settled.clear();
    for (const offset of [...this.leases.keys()]) if (offset < earliest) this.leases.delete(offset);
    for (const offset of [...this.carried.keys()]) if (offset < earliest) this.carried.delete(offset);
    for (const offset of [...this.apart]) if (offset < earliest) this.apart.delete(offset);
    this.advance();
  }

  attempts(): { offset: number; deliveries: number }[] {
    const pairs = new Map(this.carried);
    for (const [offset, lease] of this.leases) {
      pairs.set(offset, Math.max(lease.deliveries, pairs.get(offset) ?? 0));
    }
    return [...pairs].sort(([a], [b]) => a - b).map(([offset, deliveries]) => ({ offset, deliveries }));
  }

  held(member: number): { held: number; heldBytes: number } {
    let held = 0;
    let heldBytes = 0;
    for (const lease of this.leases.values()) {
      if (lease.owner !== member) continue;
      held++;
      heldBytes += lease.bytes;
    }
    return { held, heldBytes };
  }

  /** What a restart keeps: the lowest three runs and the counts. */
  restarted(): ModelGroup {
    const next = new ModelGroup(this.options);
    next.committed = this.committed;
    for (const run of this.runs().slice(0, 3)) for (let o = run.start; o < run.end; o++) next.apart.add(o);
    for (const { offset, deliveries } of this.attempts()) next.carried.set(offset, deliveries);
    return next;
  }
}

/** The gap of the log that holds the offset. */
type GapAt = (offset: number) => OffsetRun | undefined;

/** The log's gaps: any that touch are one. */
class ModelGaps {
  readonly #offsets = new Set<number>();

  add(start: number, end: number): void {
    for (let offset = start; offset < end; offset++) this.#offsets.add(offset);
  }

  readonly at: GapAt = (offset) => {
    if (!this.#offsets.has(offset)) return undefined;
    let start = offset;
    let end = offset + 1;
    while (this.#offsets.has(start - 1)) start--;
    while (this.#offsets.has(end)) end++;
    return { start, end };
  };
}

/** A connection's Flow over a log with gaps: each notice of one counts as a step, as a record does. */
function flow(
  group: Group,
  member: Member,
  now: number,
  head: number,
  count: number,
  gapAt: GapAt,
): (Token | OffsetRun)[] {
  group.pruneExpired(member, now);
  group.beginScan(now);
  const steps: (Token | OffsetRun)[] = [];
  while (steps.length < count) {
    const offset = group.next(member, head);
    if (offset < 0) break;
    const gap = gapAt(offset);
    if (gap === undefined) {
      steps.push({ offset, generation: group.lastGeneration, deliveries: group.lastDeliveries });
      continue;
    }
    const lost = group.lose(gap.start, gap.end);
    expect(lost).toBeDefined();
    steps.push(lost as OffsetRun);
  }
  return steps;
}

const MEMBERS = 3;

type Step =
  | { op: "produce"; count: number }
  | { op: "wait"; time: number }
  | { op: "flow"; member: number; count: number; bytes: number }
  | { op: "ack" | "extend"; member: number; token: number }
  | { op: "ackMany"; member: number; token: number; count: number; stride: number }
  | { op: "nack"; member: number; token: number; delay: number }
  | { op: "unclaim"; token: number }
  | { op: "replace"; member: number }
  | { op: "truncate"; ahead: number }
  | { op: "damage"; ahead: number; length: number }
  | { op: "restart" };

const member = fc.nat({ max: MEMBERS - 1 });
const token = fc.nat({ max: 1_000_000 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ op: fc.constant("produce" as const), count: fc.integer({ min: 1, max: 400 }) }) },
  { weight: 4, arbitrary: fc.record({ op: fc.constant("wait" as const), time: fc.integer({ min: 0, max: 40 }) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      op: fc.constant("flow" as const),
      member,
      count: fc.integer({ min: 1, max: 120 }),
      bytes: fc.nat({ max: 500 }),
    }),
  },
  { weight: 8, arbitrary: fc.record({ op: fc.constantFrom("ack" as const, "extend" as const), member, token }) },
  {
    weight: 8,
    arbitrary: fc.record({
      op: fc.constant("ackMany" as const),
      member,
      token,
      count: fc.integer({ min: 1, max: 100 }),
      stride: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("nack" as const),
      member,
      token,
      delay: fc.constantFrom(SERVER_BACKOFF, 0, 5, 1000),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("unclaim" as const), token }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("replace" as const), member }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("truncate" as const), ahead: fc.nat({ max: 80 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant("damage" as const),
      ahead: fc.nat({ max: 120 }),
      length: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 900 })),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("restart" as const) }) },
);

const options: fc.Arbitrary<GroupOptions> = fc.record({
  maxInFlight: fc.constantFrom(1, 5, 63, 64, 65, 200, 700),
  visibility: fc.constant(30),
  hardCap: fc.constantFrom(30, 100),
  backoff: fc.constantFrom([], [10], [10, 50]),
  maxAckedAheadRuns: fc.constantFrom(0, 1, 3, 1024),
});

/** Runs the steps on both and compares every answer and the whole visible state. */
function compare(
  groupOptions: GroupOptions,
  steps: readonly Step[],
): { delivered: number; redelivered: number; lost: number } {
  let group = new Group(groupOptions);
  let model = new ModelGroup(groupOptions);
  let members: Member[] = Array.from({ length: MEMBERS }, () => group.createMember());
  let tokens: Token[] = [];
  let now = 0;
  let head = 0;
  let committedBefore = 0;
  const everSettled = new Set<number>();
  const gaps = new ModelGaps();
  const counts = { delivered: 0, redelivered: 0, lost: 0 };
  const pick = (index: number): Token => tokens[tokens.length - 1 - (index % tokens.length)];
  const ack = (memberIndex: number, chosen: Token): void => {
    const acked = group.ack(members[memberIndex], chosen.offset, chosen.generation);
    expect(acked).toBe(model.ack(memberIndex, chosen));
    if (acked) everSettled.add(chosen.offset);
  };
  for (const action of steps) {
    if ("token" in action && tokens.length === 0) continue;
    switch (action.op) {
      case "produce":
        head += action.count;
        break;
      case "wait":
        now += action.time;
        break;
      case "flow": {
        const held = new Map([...model.leases].filter(([, lease]) => now < lease.deadline));
        const steps = flow(group, members[action.member], now, head, action.count, gaps.at);
        const granted: Token[] = [];
        for (const given of steps) {
          if ("start" in given) {
            for (let offset = given.start; offset < given.end; offset++) everSettled.add(offset);
            counts.lost++;
          } else {
            granted.push(given);
          }
        }
        for (const { offset, deliveries } of granted) {
          group.setBytes(offset, action.bytes);
          expect(held.has(offset)).toBe(false);
          counts.delivered++;
          if (deliveries > 1) counts.redelivered++;
        }
        expect(steps).toEqual(model.flow(action.member, now, head, action.count, action.bytes, gaps.at));
        tokens.push(...granted);
        break;
      }
      case "ack":
        ack(action.member, pick(action.token));
        break;
      case "ackMany":
        for (let i = 0; i < action.count; i++) ack(action.member, pick(action.token + i * action.stride));
        break;
      case "extend": {
        const chosen = pick(action.token);
        const outcome = group.extend(members[action.member], chosen.offset, chosen.generation, now);
        expect(outcome).toBe(model.extend(action.member, chosen, now));
        break;
      }
      case "nack": {
        const chosen = pick(action.token);
        const nacked = group.nack(members[action.member], chosen.offset, chosen.generation, now, action.delay);
        expect(nacked).toBe(model.nack(action.member, chosen, now, action.delay));
        break;
      }
      case "unclaim": {
        const { offset } = pick(action.token);
        group.unclaim(offset);
        model.unclaim(offset);
        break;
      }
      case "replace":
        group.removeMember(members[action.member]);
        model.removeMember(action.member);
        members[action.member] = group.createMember();
        break;
      case "truncate": {
        const earliest = Math.min(model.committed + action.ahead, head);
        const skipped = earliest - model.committed;
        expect(group.truncateTo(earliest)).toEqual(skipped > 0 ? { skipped } : undefined);
        for (let offset = model.committed; offset < earliest; offset++) everSettled.add(offset);
        model.truncate(earliest);
        break;
      }
      case "damage": {
        const start = model.committed + action.ahead;
        gaps.add(start, Math.min(start + action.length, head));
        break;
      }
      case "restart":
        group = Group.resume(groupOptions, group.takeSnapshot(), group.attemptsSnapshot(), head);
        model = model.restarted();
        members = Array.from({ length: MEMBERS }, () => group.createMember());
        tokens = [];
        break;
    }
    expect(group.committed).toBeGreaterThanOrEqual(committedBefore);
    for (let offset = committedBefore; offset < group.committed; offset++) expect(everSettled.has(offset)).toBe(true);
    committedBefore = group.committed;
    const runs = model.runs();
    expect(group.takeSnapshot()).toEqual({ committed: model.committed, runs: runs.slice(0, 3) });
    expect(group.ackedAheadRuns).toBe(model.runs(model.settled).length);
    expect(group.hasSettledAhead).toBe(runs.length > 0);
    expect(group.attemptsSnapshot()).toEqual(model.attempts());
    expect(group.redeliveriesSinceFlush).toBe(model.redeliveries);
    for (let index = 0; index < MEMBERS; index++) {
      const { held, heldBytes } = members[index];
      expect({ held, heldBytes }).toEqual(model.held(index));
    }
  }
  return counts;
}

describe("a group against its model", () => {
  it("answers every sequence of steps as the literal rules do", () => {
    let delivered = 0;
    let redelivered = 0;
    let lost = 0;
    fc.assert(
      fc.property(options, fc.array(step, { maxLength: 120, size: "max" }), (groupOptions, steps) => {
        const counts = compare(groupOptions, steps);
        delivered += counts.delivered;
        redelivered += counts.redelivered;
        lost += counts.lost;
      }),
      { numRuns: 300 },
    );
    expect(delivered).toBeGreaterThan(1000);
    expect(redelivered).toBeGreaterThan(100);
    expect(lost).toBeGreaterThan(100);
  });

  it("delivers everything at least once and ends with all of it settled, whoever fails on the way", () => {
    const lottery = fc.array(fc.nat({ max: 9 }), { minLength: 50, maxLength: 400 });
    fc.assert(
      fc.property(options, fc.integer({ min: 1, max: 300 }), lottery, (groupOptions, head, fates) => {
        const group = new Group(groupOptions);
        const seen = new Set<number>();
        let consumer = group.createMember();
        let now = 0;
        for (let turn = 0; group.committed < head; turn++) {
          const fate = fates[turn % fates.length];
          // Once the script is through, the consumer behaves.
          const behaves = turn >= fates.length;
          for (const { offset, generation } of flowWithoutGaps(group, consumer, now, head, 16)) {
            seen.add(offset);
            if (behaves || fate < 6) expect(group.ack(consumer, offset, generation)).toBe(true);
            else if (fate === 6) group.nack(consumer, offset, generation, now, offset % 50);
          }
          if (!behaves && fate === 9) {
            group.removeMember(consumer);
            consumer = group.createMember();
          }
          now += 7;
        }
        expect(seen.size).toBe(head);
        expect(consumer.held).toBe(0);
        expect(group.takeSnapshot()).toEqual({ committed: head, runs: [] });
      }),
      { numRuns: 200 },
    );
  });
});
