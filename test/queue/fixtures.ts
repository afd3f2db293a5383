import { Group } from "../../src/queue/group.ts";
import type { GroupOptions } from "../../src/queue/group-options.ts";
import type { Member } from "../../src/queue/member.ts";

/** The defaults of the behaviour vectors (semantics.md 21). */
export const VECTOR_OPTIONS: GroupOptions = {
  maxInFlight: 16,
  visibility: 30,
  hardCap: 100,
  backoff: [],
  maxAckedAheadRuns: 1024,
};

export interface Token {
  readonly offset: number;
  readonly generation: number;
  readonly deliveries: number;
}

export function makeGroup(options: Partial<GroupOptions> = {}): Group {
  return new Group({ ...VECTOR_OPTIONS, ...options });
}

/** One scan that takes one record, without the member's pruning: what the engine calls a poll. */
export function poll(group: Group, member: Member, now: number, head: number): Token | "idle" {
  group.beginScan(now);
  const offset = group.next(member, head);
  if (offset < 0) return "idle";
  return { offset, generation: group.lastGeneration, deliveries: group.lastDeliveries };
}

export function pollMessage(group: Group, member: Member, now: number, head: number): Token {
  const outcome = poll(group, member, now, head);
  if (outcome === "idle") throw new Error(`nothing to deliver at ${now}`);
  return outcome;
}

/** A connection's Flow or Fetch: prune, then one scan of at most `count` grants. */
export function flow(group: Group, member: Member, now: number, head: number, count: number): Token[] {
  group.pruneExpired(member, now);
  group.beginScan(now);
  const tokens: Token[] = [];
  while (tokens.length < count) {
    const offset = group.next(member, head);
    if (offset < 0) break;
    tokens.push({ offset, generation: group.lastGeneration, deliveries: group.lastDeliveries });
  }
  return tokens;
}

export function offsetsOf(tokens: readonly Token[]): number[] {
  return tokens.map((token) => token.offset);
}
