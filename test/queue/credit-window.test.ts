import { describe, expect, it } from "vitest";
import { CreditWindow, negotiateByteBudget, negotiateCredit } from "../../src/queue/credit-window.ts";
import type { Group } from "../../src/queue/group.ts";
import type { Member } from "../../src/queue/member.ts";
import { flow, makeGroup, type Token } from "./fixtures.ts";

const HEAD = 100_000;

/** One Flow(5000) of a connection, everything acked afterwards. */
function drain(group: Group, member: Member, window: CreditWindow): number {
  const remaining = window.remaining(member.held);
  const granted = Math.min(5000, remaining);
  const tokens: Token[] = flow(group, member, 0, HEAD, granted);
  window.afterBatch(5000, remaining, granted, tokens.length);
  for (const { offset, generation } of tokens) group.ack(member, offset, generation);
  return tokens.length;
}

describe("credit window", () => {
  it.each([
    [1024, 1024],
    [4096, 2048],
  ])("semantics.md 24.45: with max_in_flight %i the batches of a consumer that keeps up stop at %i", (max, last) => {
    const group = makeGroup({ maxInFlight: max });
    const member = group.createMember();
    const window = new CreditWindow(2048);
    const batches = Array.from({ length: 40 }, () => drain(group, member, window));
    const expected = Array.from({ length: 40 }, (_, index) => Math.min(64 * (index + 1), last));
    expect(batches).toEqual(expected);
  });

  it("semantics.md 10.2: with max_in_flight 1024 the window itself stops growing at 1088", () => {
    const group = makeGroup({ maxInFlight: 1024 });
    const member = group.createMember();
    const window = new CreditWindow(2048);
    for (let batch = 0; batch < 40; batch++) drain(group, member, window);
    expect(window.size).toBe(1088);
  });

  it("semantics.md 24.46: a ceiling of 64 or less pins the window", () => {
    for (const ceiling of [1, 10, 64]) {
      const window = new CreditWindow(ceiling);
      for (let batch = 0; batch < 5; batch++) window.afterBatch(5000, ceiling, ceiling, ceiling);
      expect(window.size).toBe(ceiling);
      window.backOff();
      expect(window.size).toBe(ceiling);
    }
  });

  it("semantics.md 24.47: a nack halves the window, never below the floor", () => {
    const window = new CreditWindow(300);
    for (let batch = 0; batch < 9; batch++) window.afterBatch(300, window.size, window.size, window.size);
    const sizes = Array.from({ length: 4 }, () => {
      window.backOff();
      return window.size;
    });
    expect(sizes).toEqual([150, 75, 64, 64]);
  });

  it("semantics.md 10.2: only a batch that used up the remaining window is a sign of keeping up", () => {
    const window = new CreditWindow(2048);
    window.afterBatch(63, 64, 63, 63);
    window.afterBatch(5000, 0, 0, 0);
    window.afterBatch(64, 64, 64, 63);
    expect(window.size).toBe(64);
    window.afterBatch(64, 64, 64, 64);
    expect(window.size).toBe(128);
  });

  it("remaining credit is never negative", () => {
    const window = new CreditWindow(300);
    window.afterBatch(64, 64, 64, 64);
    window.backOff();
    expect(window.remaining(100)).toBe(0);
    expect(window.remaining(63)).toBe(1);
  });

  it("refuses a ceiling below 1", () => {
    expect(() => new CreditWindow(0)).toThrow(RangeError);
    expect(() => new CreditWindow(Number.NaN)).toThrow(RangeError);
  });
});

describe("negotiation", () => {
  it.each([
    [undefined, 2048, 2048],
    [0, 2048, 2048],
    [10, 2048, 10],
    [5000, 2048, 2048],
    [5000, 0, 1],
    [undefined, 0, 1],
    [0xffff_ffff, 2048, 2048],
  ])("wire.md 4.3: message credit, request %s with cap %i gives %i", (requested, cap, expected) => {
    expect(negotiateCredit(requested, cap)).toBe(expected);
  });

  it.each([
    [undefined, 8_388_608, 8_388_608],
    [0, 8_388_608, 8_388_608],
    [1000, 8_388_608, 1000],
    [9_000_000, 8_388_608, 8_388_608],
    [1000, 0, 1000],
    [0, 0, 0],
    [undefined, 0, 0],
  ])("wire.md 4.3: byte budget, request %s with cap %i gives %i", (requested, cap, expected) => {
    expect(negotiateByteBudget(requested, cap)).toBe(expected);
  });
});
