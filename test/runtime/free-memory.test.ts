import { expect, it } from "vitest";
import { freeMemory } from "../../src/runtime/free-memory.ts";

it("a whole buffer is given back at once, a part of one stays", () => {
  const whole = new Uint8Array(1000).fill(1);
  freeMemory(whole);
  expect(whole.length).toBe(0);
  const part = new Uint8Array(1000).fill(1).subarray(0, 999);
  freeMemory(part);
  expect(part.length).toBe(999);
  expect(part[998]).toBe(1);
  const empty = new Uint8Array(0);
  freeMemory(empty);
  expect(empty.length).toBe(0);
});
