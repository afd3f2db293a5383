import { describe, expect, it } from "vitest";
import { BarrierPolicy, type Durability } from "../../src/log/durability.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { newDisk, numbered, publishes, TestLog } from "./open-log.ts";

const LEVELS: readonly Durability["level"][] = ["sync", "interval", "async", "none"];

function level(name: Durability["level"], flushIntervalMs = 1000, flushMaxBytes = 1024 * 1024): Durability {
  return { level: name, flushIntervalMs, flushMaxBytes };
}

describe("when a barrier is due", () => {
  it("sync: every hand-over; async and none: only a seal; interval: by bytes or by time, whichever is first", () => {
    const outcomes = LEVELS.map((name) => {
      const policy = new BarrierPolicy(level(name, 1000, 100), 0);
      return [
        policy.handOver(60, false, 1),
        policy.handOver(39, false, 2),
        policy.handOver(1, false, 3),
        policy.handOver(1, false, 4),
        policy.handOver(1, false, 1003),
        policy.handOver(1, true, 1004),
      ];
    });
    expect(outcomes).toEqual([
      [true, true, true, true, true, true],
      [false, false, true, false, true, true],
      [false, false, false, false, false, true],
      [false, false, false, false, false, true],
    ]);
  });

  it("0 disables a trigger", () => {
    const byTime = new BarrierPolicy(level("interval", 10, 0), 0);
    expect([byTime.handOver(1e9, false, 9), byTime.handOver(1, false, 10)]).toEqual([false, true]);
    const byBytes = new BarrierPolicy(level("interval", 0, 10), 0);
    expect([byBytes.handOver(9, false, 1e9), byBytes.handOver(1, false, 1e9)]).toEqual([false, true]);
    byBytes.written(10);
    expect(byBytes.overdueInMs(2e9)).toBeUndefined();
  });

  it("what is on its way counts before it is written, and no longer once it is given up", () => {
    const policy = new BarrierPolicy(level("interval", 0, 100), 0);
    policy.handOver(60, false, 0);
    policy.written(60);
    policy.handOver(30, false, 0);
    policy.givenUp();
    expect(policy.unsyncedBytes).toBe(60);
    expect(policy.handOver(39, false, 0)).toBe(false);
    expect(policy.handOver(1, false, 0)).toBe(true);
  });
});

describe("storage.md 26.32: level interval", () => {
  it("idle: the last records are synced when their time has come, without a tick", () => {
    const test = new TestLog({ durability: level("interval", 100, 0) });
    test.commit(["a"]);
    test.clock.advance(99);
    test.files.runAll();
    expect(test.log.durableHead).toBe(0);
    test.clock.advance(1);
    test.files.runAll();
    expect(test.log.durableHead).toBe(1);
    expect(test.told.at(-1)).toBe("advanced 1");
  });

  it("no timer is left when nothing is unsynced, nor after a close or a freeze", async () => {
    const closed = new TestLog({ durability: level("interval") });
    closed.commit(["a"]);
    expect(closed.clock.timers).toBe(1);
    await closed.close();
    expect(closed.clock.timers).toBe(0);
    const synced = new TestLog({ durability: level("interval") });
    synced.commit(["a"]);
    synced.clock.advance(1000);
    synced.files.runAll();
    expect(synced.clock.timers).toBe(0);
    const frozen = new TestLog({ durability: level("interval") });
    frozen.commit(["a"]);
    frozen.files.fail({ operation: "write", path: /seg-/, code: "EIO" });
    frozen.commit(["b"]);
    expect(frozen.log.frozen).toBeDefined();
    expect(frozen.clock.timers).toBe(0);
  });

  /**
   * Publishes at random over a simulated disk whose every step takes a while, and cuts the power at random moments. Returns
   * the oldest acknowledgement, and the most acknowledged bytes, that a cut cost.
   */
  function worst(durability: Durability, seeds: number): { ageMs: number; bytes: number } {
    let ageMs = 0;
    let bytes = 0;
    for (let seed = 1; seed <= seeds; seed++) {
      const random = new SeededRandom(seed);
      const options = { durability, maxSegmentBytes: 50_000, maxPendingBytes: 128 * 1024 };
      const test = new TestLog(options, newDisk(seed), new SimulatedClock());
      const acked: { readonly atMs: number; readonly bytes: number }[] = [];
      for (let step = 0; step < 300; step++) {
        const length = random.below(4) === 0 ? random.below(3000) : random.below(100);
        if (random.below(3) > 0) {
          const count = 1 + random.below(20);
          const { chunk, table } = publishes(Array.from({ length: count }, () => "x".repeat(length)));
          const from = test.log.nextOffset;
          const taken = test.log.append(chunk, table, 0, count);
          for (let index = 0; index < taken; index++) acked[from + index] = { atMs: -1, bytes: 44 + length };
          test.log.pump();
        }
        for (let turns = 1 + random.below(4); turns > 0; turns--) {
          test.files.step();
          const head = test.log.visibleHead;
          for (let offset = head - 1; offset >= 0 && acked[offset].atMs < 0; offset--) {
            acked[offset] = { ...acked[offset], atMs: test.clock.monotonicMs() };
          }
          test.clock.advance(random.below(3));
        }
        const { durableHead, visibleHead } = test.log;
        if (durableHead === visibleHead) continue;
        ageMs = Math.max(ageMs, test.clock.monotonicMs() - acked[durableHead].atMs);
        let lost = 0;
        for (let offset = durableHead; offset < visibleHead; offset++) lost += acked[offset].bytes;
        bytes = Math.max(bytes, lost);
        if (step % 50 === 49) {
          const survived = new TestLog(options, test.files.imageAfterPowerCut({ style: "lost" }));
          expect(survived.log.nextOffset).toBeGreaterThanOrEqual(durableHead);
        }
      }
    }
    return { ageMs, bytes };
  }

  it("a power cut costs at most what was acknowledged within the window, and the barrier that closes it", () => {
    const WINDOW_MS = 50;
    const { ageMs } = worst(level("interval", WINDOW_MS, 0), 30);
    // Each step of the disk takes up to 2 ms here, a write and a barrier behind another one some of them.
    expect(ageMs).toBeGreaterThan(WINDOW_MS / 2);
    expect(ageMs).toBeLessThanOrEqual(WINDOW_MS + 30);
  });

  it("and less than the bytes of the other trigger", () => {
    const { bytes } = worst(level("interval", 0, 20_000), 30);
    expect(bytes).toBeGreaterThan(5_000);
    expect(bytes).toBeLessThan(20_000);
  });
});

describe("storage.md 26.31: a power cut at every operation, at every level", () => {
  /** Publishes and rolls, cutting the power after operation `cutAt`; what was acknowledged, durable, and what survived. */
  function run(name: Durability["level"], seed: number, cutAt: number) {
    const files = newDisk(seed);
    const options = { maxSegmentBytes: 300, durability: level(name, 1000, 150) };
    let image: ReturnType<typeof files.imageAfterPowerCut> | undefined;
    let durable = 0;
    let visible = 0;
    const test = new TestLog(options, files);
    files.onOperation = () => {
      if (files.operations !== cutAt) return;
      image = files.imageAfterPowerCut();
      durable = test.log.durableHead;
      visible = test.log.visibleHead;
    };
    for (let index = 0; index < 12; index++) {
      test.commit(numbered(1 + ((seed + index) % 3), test.log.nextOffset));
      if (index % 4 === 3) test.clock.advance(1000);
    }
    if (image === undefined) return { operations: files.operations, durable, visible, survived: undefined };
    const again = new TestLog(options, image);
    return { operations: files.operations, durable, visible, survived: again };
  }

  it.each(LEVELS)(
    "%s: everything a barrier covered is there, nothing is invented, nothing counts as damage",
    (name) => {
      let cuts = 0;
      for (let seed = 1; seed <= 12; seed++) {
        const { operations } = run(name, seed, Number.POSITIVE_INFINITY);
        for (let cutAt = 2 + (seed % 2); cutAt <= operations; cutAt += 2) {
          const { durable, visible, survived } = run(name, seed, cutAt);
          if (survived === undefined) continue;
          cuts += 1;
          const where = `seed ${seed}, cut after operation ${cutAt}`;
          const payloads = survived.payloads();
          expect(payloads.length, where).toBeGreaterThanOrEqual(durable);
          if (name === "sync") expect(durable, where).toBe(visible);
          expect(payloads, where).toEqual(numbered(payloads.length));
          survived.commit(numbered(3, payloads.length));
          expect(survived.payloads(), where).toEqual(numbered(payloads.length + 3));
        }
      }
      expect(cuts).toBeGreaterThan(100);
    },
  );

  it.each(LEVELS)("%s: a clean stop and a roll leave nothing to lose", async (name) => {
    const options = { maxSegmentBytes: 300, durability: level(name, 0, 1e9) };
    const test = new TestLog(options);
    test.commit(numbered(20));
    // What lies in front of the active segment was covered by the roll.
    const rolled = test.log.segments.at(-1)?.baseOffset ?? 0;
    expect(rolled).toBeGreaterThan(10);
    expect(test.log.durableHead).toBeGreaterThanOrEqual(rolled);
    const cut = new TestLog(options, test.files.imageAfterPowerCut({ style: "lost" }));
    expect(cut.payloads().slice(0, rolled)).toEqual(numbered(rolled));
    await test.close();
    const stopped = new TestLog(options, test.files.cutPower({ style: "lost" }));
    expect(stopped.payloads()).toEqual(numbered(20));
  });
});
