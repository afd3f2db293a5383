import { expect, it } from "vitest";
import { freeMemory } from "../../src/runtime/free-memory.ts";

it("a whole buffer is given back at once, a part of one stays", () => {
  const whole = new Uint8Array(100_000).fill(1);
  freeMemory(whole);
  expect(whole.length).toBe(0);
  const part = new Uint8Array(100_000).fill(1).subarray(0, 99_999);
  freeMemory(part);
  expect(part.length).toBe(99_999);
  expect(part[99_998]).toBe(1);
  for (const length of [0, 1000]) {
    const small = new Uint8Array(length);
    freeMemory(small);
    expect(small.length).toBe(length);
  }
});
