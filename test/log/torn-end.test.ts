import { describe, expect, it } from "vitest";
import { skippedBytes } from "../../src/log/loss-report.ts";
import { recoverLog } from "../../src/log/recovery.ts";
import { lossCapProblem, planRecovery } from "../../src/log/recovery-plan.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { codec, frame, get, lcg, newFiles, put, putSegment, ROOT, segmentPath } from "./fixtures.ts";
import { newDisk, TestLog } from "./open-log.ts";

const MAX_SEGMENT_BYTES = 6000;

/** Bytes none of which is zero. */
function solid(seed: number, length: number): Uint8Array {
  return lcg(seed, length).map((byte) => byte | 1);
}

/** Why the log below `/data` would be read-only. */
function problem(files: FileSystem, maxSegmentBytes: number, recovery: "salvage" | "strict" = "salvage") {
  return lossCapProblem(planRecovery(files, codec, ROOT, { recovery }), maxSegmentBytes)?.message;
}

describe("a torn end and the loss caps", () => {
  it("README ruling 1: no power cut at a relaxed level opens a log read-only, however much of a segment it takes", () => {
    let aboveCap = 0;
    for (const directWrites of [false, true]) {
      for (let run = 1; run <= 10; run++) {
        const random = new SeededRandom(run);
        const files = newDisk(run);
        if (run % 2 === 0) files.shortenWrites({ mostBytes: 1 + random.below(3000), times: Number.POSITIVE_INFINITY });
        const log = new TestLog(
          {
            maxSegmentBytes: MAX_SEGMENT_BYTES,
            maxPendingBytes: 100_000,
            durability: { level: "async", flushIntervalMs: 0, flushMaxBytes: 0 },
            directWrites,
          },
          files,
        );
        // The segment's last record runs over the roll size; nothing of it is synced yet.
        for (let at = 0; log.log.segments.length === 1 && log.log.segments[0].end <= MAX_SEGMENT_BYTES; at++) {
          log.commit([solid(at, 1 + random.below(2500))]);
        }
        for (let seed = 0; seed < 100; seed++) {
          const image = files.imageAfterPowerCut({ seed, turns: "manual" });
          const { losses, torn } = planRecovery(image, codec, ROOT, {});
          for (const loss of losses) {
            const bytes = skippedBytes(loss);
            // A tail this small is below every cap.
            if (bytes > 36) expect(torn.has(loss), `run ${run}, cut ${seed}: ${JSON.stringify(loss)}`).toBe(true);
            if (bytes > MAX_SEGMENT_BYTES) aboveCap++;
          }
          expect(recoverLog(image, codec, ROOT, { maxSegmentBytes: MAX_SEGMENT_BYTES }).readOnly).toBeUndefined();
        }
      }
    }
    expect(aboveCap).toBeGreaterThan(20);
  });

  it("storage.md 26.42: bytes that no power cut leaves count in full", () => {
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail: solid(1, 5000) });
    expect(problem(files, 4096)).toContain("dropped 5000 bytes, over the per-event cap 4096");
    expect(problem(files, 5000)).toBeUndefined();
  });

  it("storage.md 26.42: one sector that was never written is what a power cut leaves, and so is a record that was not written to its end", () => {
    const files = newFiles();
    const torn = frame({ sequence: 1n, payload: solid(3, 5000) });
    const missing = torn.slice();
    // The segment has 110 bytes before the torn record: its second sector begins at 512 - 110.
    missing.fill(0, 402, 914);
    for (const tail of [missing, torn.slice(0, 5000)]) {
      putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail });
      expect(problem(files, 4096)).toBeUndefined();
      expect(problem(files, 4096, "strict")).toContain("over the per-event cap 4096");
    }
    // All of it is there, with a body that does not hold.
    const rotten = torn.slice();
    rotten[100] ^= 2;
    rotten.set(solid(1, 40), rotten.length - 40);
    putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail: rotten });
    expect(problem(files, 4096)).toContain("over the per-event cap 4096");
  });

  it("a torn end that is longer than a segment can be, or that other losses add to, counts", () => {
    const files = newFiles();
    const zeroed = solid(1, 9000);
    zeroed.fill(0, 1000, 2000);
    putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail: zeroed });
    expect(problem(files, 5000)).toBeUndefined();
    expect(problem(files, 4500)).toContain("dropped 9000 bytes, over the per-event cap 4500");

    const bytes = putSegment(files, { id: 0, base: 0, payloads: [solid(1, 400), solid(2, 400)], sealed: true });
    putSegment(files, { id: 1, base: 2, payloads: ["m2"], tail: zeroed });
    expect(problem(files, 5000)).toBeUndefined();
    bytes[100] ^= 1;
    put(files, segmentPath(0), bytes);
    const plan = planRecovery(files, codec, ROOT, { fullScan: true });
    expect(plan.losses.map(skippedBytes)).toEqual([444, 9000]);
    expect(lossCapProblem(plan, 5000)?.message).toContain("5444 bytes total, over the global cap 5000");
    expect(get(files, segmentPath(1)).length).toBe(110 + 9000);
  });

  it("what the medium does not give back is no torn end", () => {
    const files = newDisk();
    putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail: solid(1, 9000) });
    files.fail({ operation: "read", path: /seg-/, code: "EIO", skip: 3, times: 2 });
    const { losses, torn } = planRecovery(files, codec, ROOT, {});
    expect(losses.length).toBeGreaterThan(0);
    expect(torn.size).toBe(0);
  });
});
