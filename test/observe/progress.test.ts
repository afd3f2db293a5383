import { describe, expect, it } from "vitest";
import { Progress } from "../../src/observe/progress.ts";
import { SharedHealth } from "../../src/observe/shared-health.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";

describe("progress of another thread", () => {
  it("observability.md 13.11: stalls once the beacon stood still for a window, whoever asks when", () => {
    const clock = new SimulatedClock();
    const health = new SharedHealth();
    const progress = new Progress(clock, 10_000, () => health.beacon);
    for (let tick = 0; tick < 100; tick++) {
      health.tick();
      clock.advance(250);
      expect(progress.progressing).toBe(true);
    }
    clock.advance(9_000);
    expect(progress.progressing).toBe(true);
    // Nobody asked meanwhile: the stall is known all the same.
    clock.advance(2_000);
    expect(progress.progressing).toBe(false);
    health.tick();
    expect(progress.progressing).toBe(true);
    progress.stop();
  });

  it("is seen without anybody asking before", () => {
    const clock = new SimulatedClock();
    const health = new SharedHealth();
    const progress = new Progress(clock, 1_000, () => health.beacon);
    health.tick();
    clock.advance(1_400);
    expect(progress.progressing).toBe(false);
  });

  it("a window of 0 never stalls", () => {
    const clock = new SimulatedClock();
    const progress = new Progress(clock, 0, () => 0);
    clock.advance(1_000_000);
    expect(progress.progressing).toBe(true);
  });

  it("both threads see the same fields", () => {
    const writer = new SharedHealth();
    const reader = new SharedHealth(writer.buffer);
    writer.set({ draining: true, frozen: false, stopped: true, wedged: false });
    expect([reader.draining, reader.frozen, reader.stopped, reader.wedged]).toEqual([true, false, true, false]);
    writer.set({ draining: false, frozen: true, stopped: false, wedged: true });
    expect([reader.draining, reader.frozen, reader.stopped, reader.wedged]).toEqual([false, true, false, true]);
  });
});
