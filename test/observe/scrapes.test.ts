import { describe, expect, it } from "vitest";
import { Scrapes } from "../../src/observe/scrapes.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";

function setUp() {
  const clock = new SimulatedClock();
  const asked: number[] = [];
  const scrapes = new Scrapes(clock, (id) => asked.push(id));
  const got: string[] = [];
  const ask = (name: string) => scrapes.ask((text) => got.push(`${name}: ${text}`));
  return { clock, asked, scrapes, got, ask };
}

describe("scrapes", () => {
  it("that come at the same time share a snapshot that was taken after all of them", () => {
    const { clock, asked, scrapes, got, ask } = setUp();
    for (const name of ["a", "b", "c"]) ask(name);
    expect(asked).toEqual([1]);
    scrapes.answered(1, "one");
    expect(got).toEqual(["a: one"]);
    clock.advance(1_000);
    expect(asked).toEqual([1, 2]);
    scrapes.answered(2, "two");
    expect(got).toEqual(["a: one", "b: two", "c: two"]);
  });

  it("in a loop ask the broker ten times a second at most", () => {
    const { clock, asked, scrapes } = setUp();
    let answered = 0;
    const again = () => {
      answered += 1;
      scrapes.ask(again);
    };
    for (let index = 0; index < 30; index++) scrapes.ask(again);
    for (let elapsedMs = 0; elapsedMs < 950; elapsedMs++) {
      scrapes.answered(asked.length, "text");
      clock.advance(1);
    }
    expect(asked.length).toBe(10);
    expect(answered).toBe(1 + 9 * 30);
  });

  it("do not wait for ever for a snapshot that is not given", () => {
    const { clock, asked, scrapes, got, ask } = setUp();
    ask("early");
    ask("late");
    clock.advance(2_999);
    expect(asked).toEqual([1]);
    clock.advance(1);
    expect(asked).toEqual([1, 2]);
    scrapes.answered(1, "of long ago");
    scrapes.answered(2, "now");
    scrapes.answered(2, "again");
    expect(got).toEqual(["late: now"]);
  });
});
