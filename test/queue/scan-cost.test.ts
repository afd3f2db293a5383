import { describe, expect, it } from "vitest";
import { flow, makeGroup, VECTOR_OPTIONS } from "./fixtures.ts";

const V = VECTOR_OPTIONS.visibility;

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
