import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { systemClock } from "../../src/runtime/clock-system.ts";

describe("system clock", () => {
  afterEach(() => void vi.useRealTimers());

  it("reads whole wall milliseconds and a monotonic time that never goes back", () => {
    expect(Number.isInteger(systemClock.wallMs())).toBe(true);
    expect(Math.abs(systemClock.wallMs() - Date.now())).toBeLessThan(1000);
    let last = systemClock.monotonicMs();
    for (let round = 0; round < 1000; round++) {
      const now = systemClock.monotonicMs();
      expect(now).toBeGreaterThanOrEqual(last);
      last = now;
    }
  });

  it("fires once, not early, and not after it was cancelled", async () => {
    const fired: string[] = [];
    const started = systemClock.monotonicMs();
    systemClock.after(5, () => fired.push("cancelled")).cancel();
    await new Promise<void>((resolve) => {
      const timer = systemClock.after(20, () => {
        fired.push("fired");
        timer.cancel();
        resolve();
      });
    });
    expect(systemClock.monotonicMs() - started).toBeGreaterThanOrEqual(19);
    expect(fired).toEqual(["fired"]);
  });

  it("honours delays above 2^31 ms", () => {
    vi.useFakeTimers();
    let fired = 0;
    systemClock.after(2 ** 31 + 1000, () => fired++);
    const cancelled = systemClock.after(2 ** 33, () => fired++);
    vi.advanceTimersByTime(2 ** 31 - 1);
    cancelled.cancel();
    expect(fired).toBe(0);
    vi.advanceTimersByTime(1000);
    expect(fired).toBe(0);
    vi.advanceTimersByTime(2);
    expect(fired).toBe(1);
    vi.advanceTimersByTime(2 ** 34);
    expect(fired).toBe(1);
  });

  it("repeats until cancelled", async () => {
    let count = 0;
    await new Promise<void>((resolve) => {
      const timer = systemClock.every(1, () => {
        if (++count < 3) return;
        timer.cancel();
        resolve();
      });
      // Periodic timers do not keep a process alive: this one does.
      systemClock.after(30_000, () => {}).cancel();
    });
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(count).toBe(3);
  });
});

describe("simulated clock", () => {
  it("fires in order of due times, then of setting, with the readings at the due time", () => {
    const clock = new SimulatedClock({ wallMs: 1_700_000_000_000, monotonicMs: 50 });
    const trace: [string, number, number][] = [];
    const note = (name: string) => () => trace.push([name, clock.monotonicMs(), clock.wallMs()]);
    clock.after(20, note("c"));
    clock.after(10, note("a"));
    clock.after(10, note("b"));
    clock.after(31, note("d"));
    clock.after(5, note("cancelled")).cancel();
    clock.advance(30);
    expect(trace).toEqual([
      ["a", 60, 1_700_000_000_010],
      ["b", 60, 1_700_000_000_010],
      ["c", 70, 1_700_000_000_020],
    ]);
    expect(clock.monotonicMs()).toBe(80);
    expect(clock.timers).toBe(1);
    expect(clock.nextTimerInMs).toBe(1);
    clock.advance(1);
    expect(trace.at(-1)).toEqual(["d", 81, 1_700_000_000_031]);
    expect(clock.nextTimerInMs).toBeUndefined();
  });

  it("fires timers set by timers within the same advance, and repeats", () => {
    const clock = new SimulatedClock();
    const at: number[] = [];
    clock.after(10, () => clock.after(10, () => at.push(clock.monotonicMs())));
    const every = clock.every(7, () => {
      at.push(clock.monotonicMs());
      if (clock.monotonicMs() === 28) every.cancel();
    });
    clock.advance(100);
    expect(at).toEqual([7, 14, 20, 21, 28]);
    expect(clock.timers).toBe(0);
  });

  it("steps the wall alone, and reads it whole", () => {
    const clock = new SimulatedClock({ wallMs: 1000 });
    let fired = 0;
    clock.after(10, () => fired++);
    clock.stepWall(-500);
    clock.advance(0.5);
    expect([clock.wallMs(), clock.monotonicMs(), fired]).toEqual([500, 0.5, 0]);
    clock.stepWall(1e9);
    expect(fired).toBe(0);
    expect(() => clock.advance(-1)).toThrow(RangeError);
    expect(() => clock.advance(Number.NaN)).toThrow(RangeError);
  });

  it("does not depend on how an advance is divided", () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(1000), { maxLength: 20 }),
        fc.array(fc.nat(200), { minLength: 1, maxLength: 10 }),
        (delays, steps) => {
          const run = (advances: number[]) => {
            const clock = new SimulatedClock();
            const trace: number[][] = [];
            for (const [index, delay] of delays.entries())
              clock.after(delay, () => trace.push([index, clock.monotonicMs()]));
            for (const each of advances) clock.advance(each);
            return trace;
          };
          expect(run(steps)).toEqual(run([steps.reduce((sum, each) => sum + each, 0)]));
        },
      ),
    );
  });
});
