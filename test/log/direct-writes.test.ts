import { describe, expect, it, vi } from "vitest";
import type { Durability } from "../../src/log/durability.ts";
import { TailBlock } from "../../src/log/tail-block.ts";
import type { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { get, lcg, ROOT, segmentPath } from "./fixtures.ts";
import { newDisk, numbered, TestLog } from "./open-log.ts";

const LEVELS = ["sync", "interval", "async", "none"] as const;

function durability(level: Durability["level"]): Durability {
  return { level, flushIntervalMs: 0, flushMaxBytes: 3000 };
}

/** The payload of `offset`: mostly a part of a sector, sometimes several blocks. */
function payloadOf(offset: number): string {
  const length = offset % 17 === 0 ? 9000 : (offset * 7919) % 700;
  return `${offset}:${"x".repeat(length)}`;
}

function payloadsFrom(offset: number, count: number): string[] {
  return Array.from({ length: count }, (_, index) => payloadOf(offset + index));
}

function segmentFiles(files: SimulatedFileSystem): { name: string; bytes: Uint8Array }[] {
  const names = files.list(ROOT).map(({ name }) => name);
  return names
    .filter((name) => name.startsWith("seg-"))
    .map((name) => ({ name, bytes: get(files, `${ROOT}/${name}`) }));
}

describe("storage.md 16: files written directly", () => {
  it("storage.md 26.14: sealed files are byte-identical to buffered ones, whatever the sizes and through restarts", async () => {
    for (const maxSegmentBytes of [184, 400, 4096, 5000, 100_000, 1_500_000]) {
      const images = [];
      for (const directWrites of [false, true]) {
        let test = new TestLog({ maxSegmentBytes, directWrites });
        for (const from of [0, 150]) {
          const most = test.log.maxBodyBytes;
          for (let offset = from; offset < from + 150; ) {
            const count = 1 + (offset % 40);
            test.commit(payloadsFrom(offset, count).map((payload) => payload.slice(0, most)));
            offset += count;
          }
          await test.close();
          test = new TestLog({ maxSegmentBytes, directWrites }, test.files);
        }
        images.push(segmentFiles(test.files).slice(0, -1));
      }
      expect(images[1].map(({ name }) => name)).toEqual(images[0].map(({ name }) => name));
      for (const [index, { name, bytes }] of images[0].entries()) {
        expect(Buffer.compare(bytes, images[1][index].bytes), `${maxSegmentBytes}, ${name}`).toBe(0);
      }
      if (maxSegmentBytes < 100_000) expect(images[0].length).toBeGreaterThan(2);
    }
  });

  it("is formatted with zeros to its exact roll size, synced, before its header is written", () => {
    const files = newDisk();
    const steps: string[] = [];
    files.onOperation = (operation, path) => {
      if (path.includes("seg-") || operation === "sync-directory") steps.push(operation);
    };
    const test = new TestLog({ maxSegmentBytes: 5000, directWrites: true }, files);
    const creation = ["open", "allocate", "write", "truncate", "sync", "write", "sync", "sync-directory"];
    expect(steps.slice(steps.indexOf("open"))).toEqual(creation);
    expect(files.stat(segmentPath(0))?.size).toBe(5000);
    test.commit(numbered(200));
    steps.length = 0;
    while (test.log.nextOffset < 250) test.commit(numbered(1, test.log.nextOffset));
    // The same, when it is made while the log runs.
    const from = steps.indexOf("open");
    expect(from).toBeGreaterThan(0);
    expect(steps.slice(from, from + creation.length)).toEqual(creation);
    expect(test.payloads()).toEqual(numbered(250));
  });

  it("a record larger than a batch, alone and between others", () => {
    const test = new TestLog({ maxPendingBytes: 128 * 1024, directWrites: true });
    const large = lcg(7, 3_000_000);
    test.commit(["before", large, "between", lcg(8, 200_000), "after"]);
    expect(test.log.visibleHead).toBe(5);
    expect(Buffer.compare(test.payloadBytes(1), large)).toBe(0);
    expect(test.payload(2)).toBe("between");
    expect(Buffer.compare(test.payloadBytes(3), lcg(8, 200_000))).toBe(0);
    expect(test.payload(4)).toBe("after");
  });

  it("a batch carries over the block of one that is still in flight", () => {
    const test = new TestLog({ maxPendingBytes: 256 * 1024, directWrites: true });
    test.files.holdBarriers(/seg-/);
    const payloads = Array.from({ length: 240 }, (_, index) => `${index}:${"y".repeat(900)}`);
    expect(test.append(payloads)).toBeGreaterThan(130);
    test.log.pump();
    test.files.runAll();
    expect(test.log.visibleHead).toBe(0);
    test.files.releaseBarriers();
    test.files.runAll();
    test.commit(payloads.slice(test.log.nextOffset));
    expect(new TestLog({}, test.files.imageAfterPowerCut({ style: "lost" })).payloads()).toEqual(payloads);
  });

  it("at the relaxed levels records are visible at the write, and a barrier is one all the same", async () => {
    for (const level of LEVELS) {
      const test = new TestLog({ durability: durability(level), directWrites: true, maxSegmentBytes: 30_000 });
      test.commit(payloadsFrom(0, 120));
      expect(test.payloads(), level).toEqual(payloadsFrom(0, 120));
      const { durableHead } = test.log;
      expect(durableHead).toBeGreaterThan(0);
      const survived = new TestLog({}, test.files.imageAfterPowerCut({ style: "lost" })).payloads();
      expect(survived.length, level).toBeGreaterThanOrEqual(durableHead);
      await test.close();
      expect(new TestLog({}, test.files.cutPower({ style: "lost" })).payloads(), level).toEqual(payloadsFrom(0, 120));
    }
  });

  it("what a failed write or barrier left behind is not taken for written by the next start", async () => {
    for (const level of ["sync", "async", "interval"] as const) {
      for (let seed = 1; seed <= 20; seed++) {
        const options = { maxSegmentBytes: 30_000, durability: durability(level), directWrites: true };
        const test = new TestLog(options, newDisk(seed));
        test.commit(payloadsFrom(0, 20));
        const operation = seed % 2 === 0 ? "sync" : "write";
        test.files.fail({ operation, path: /seg-/, code: "EIO", skip: seed % 5 });
        while (test.log.frozen === undefined) test.commit(payloadsFrom(test.log.nextOffset, 7));
        const visible = test.payloads();
        await test.close();
        test.files.clearFaults();
        const restarted = new TestLog(options, test.files);
        restarted.commit(numbered(5));
        await restarted.close();
        const after = new TestLog(options, restarted.files.cutPower({ style: "lost" })).payloads();
        expect(after.slice(0, visible.length), `seed ${seed}, ${level}`).toEqual(visible);
        expect(after.slice(-5), `seed ${seed}, ${level}`).toEqual(numbered(5));
      }
    }
  });
});

describe("storage.md 16: what fails", () => {
  it("a device that wants another alignment freezes the log, at a batch and at a creation, and says what to do", () => {
    const atBatch = new TestLog({ directWrites: true });
    atBatch.files.fail({ operation: "write", path: /seg-/, code: "EINVAL" });
    atBatch.commit(["x"]);
    expect(atBatch.log.frozen?.message).toMatch(/EINVAL.*blocks of 4096 bytes; use --io-mode buffered/);
    const atCreation = new TestLog({ directWrites: true, maxSegmentBytes: 184 });
    atCreation.commit(numbered(3));
    atCreation.files.fail({ operation: "write", path: /seg-0*1\.log/, code: "EINVAL" });
    atCreation.commit(["x", "y"]);
    expect(atCreation.log.frozen?.message).toMatch(/EINVAL.*use --io-mode buffered/);
  });

  it("no room for the zeros refuses the creation, and the next publish tries again", () => {
    const test = new TestLog({ directWrites: true, maxSegmentBytes: 184 });
    test.commit(numbered(3));
    test.files.limitSpace(0);
    test.commit(["sealing and creating"]);
    expect(test.told).toContain("rejected 3 disk-full");
    expect(test.log.frozen).toBeUndefined();
    test.files.limitSpace(Number.POSITIVE_INFINITY);
    test.commit(["healing"]);
    test.clock.advance(10_000);
    test.log.tick();
    test.commit(["after"]);
    expect(test.payloads()).toEqual([...numbered(3), "after"]);
  });

  it("a full disk in the middle of a segment costs nothing: the log goes on in the block where it was", async () => {
    const options = { directWrites: true, maxSegmentBytes: 60_000 };
    const test = new TestLog(options);
    test.commit(payloadsFrom(0, 30));
    await test.close();
    // After a restart the rest of the segment is reserved at most: a disk may be full for it.
    const again = new TestLog(options, test.files);
    again.files.limitSpace(0);
    again.commit(payloadsFrom(30, 40));
    expect(again.told).toContain("rejected 30 disk-full");
    expect(again.payloads()).toEqual(payloadsFrom(0, 30));
    again.files.limitSpace(Number.POSITIVE_INFINITY);
    for (let offset = 30; offset < 70; offset = again.log.nextOffset) {
      again.commit(payloadsFrom(offset, 1));
      again.clock.advance(10_000);
      again.log.tick();
    }
    expect(again.log.frozen).toBeUndefined();
    const after = new TestLog(options, again.files.cutPower({ style: "lost" }));
    expect(after.payloads()).toEqual(payloadsFrom(0, 70));
  });

  it("a failed barrier over the zeros freezes", () => {
    const test = new TestLog({ directWrites: true, maxSegmentBytes: 184 });
    test.commit(numbered(3));
    test.files.fail({ operation: "sync", path: /seg-0*1\.log/, code: "EIO" });
    test.commit(["x", "y"]);
    expect(test.log.frozen?.message).toMatch(/EIO/);
    expect(test.payloads()).toEqual(numbered(3));
  });
});

describe("HOTPATH: the block that holds acknowledged records is written again with more behind them", () => {
  const SEEDS = Number(process.env.IRONBUS_POWER_CUT_SEEDS ?? 12);
  const OPTIONS = { maxSegmentBytes: 12_000, maxPendingBytes: 128 * 1024 };

  interface Life {
    /** What a barrier covered at the moment of the cut, or before it. */
    readonly durable: number;
    readonly image: SimulatedFileSystem | undefined;
    readonly operations: number;
  }

  /** Publishes, with the power cut after operation `cutAt` of this life (torn at 512 bytes as the seed says). */
  function live(seed: number, level: Durability["level"], files: SimulatedFileSystem, cutAt: number): Life {
    const random = new SeededRandom(seed);
    const before = files.operations;
    let image: SimulatedFileSystem | undefined;
    let durable = 0;
    let test: TestLog | undefined;
    files.onOperation = () => {
      if (files.operations - before !== cutAt) return;
      image = files.imageAfterPowerCut({ turns: "manual" });
      durable = test?.log.durableHead ?? 0;
    };
    test = new TestLog({ ...OPTIONS, durability: durability(level), directWrites: true }, files);
    for (let round = 0; round < 8; round++) {
      const count = 1 + random.below(12);
      for (let at = 0; at < count; ) {
        at += test.append(payloadsFrom(test.log.nextOffset, count - at));
        test.log.pump();
        if (at < count) files.runAll();
      }
      // Often the next batch is sealed while this one is under way.
      for (let steps = random.below(12); steps > 0; steps--) test.files.step();
      test.log.pump();
    }
    files.runAll();
    expect(test.log.frozen).toBeUndefined();
    expect(test.payloads()).toEqual(payloadsFrom(0, test.log.nextOffset));
    return { durable, image, operations: files.operations - before };
  }

  function check(image: SimulatedFileSystem, durable: number, where: string): number {
    const survived = new TestLog(
      { ...OPTIONS, directWrites: true },
      image.imageAfterPowerCut({ style: "kept" }),
    ).payloads();
    expect(survived.length, where).toBeGreaterThanOrEqual(durable);
    expect(survived, where).toEqual(payloadsFrom(0, survived.length));
    return survived.length;
  }

  it(`no power cut at any operation costs or changes what a barrier covered, over ${SEEDS} seeds`, () => {
    let cuts = 0;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const level = LEVELS[seed % 2 === 0 ? 0 : seed % 4];
      const { operations } = live(seed, level, newDisk(seed), -1);
      for (let cutAt = 1; cutAt <= operations; cutAt++) {
        const first = live(seed, level, newDisk(seed), cutAt);
        const where = `seed ${seed}, ${level}, cut after operation ${cutAt}`;
        const image = first.image as SimulatedFileSystem;
        check(image, first.durable, where);
        cuts++;
        // Now and then a second life goes on in the block that the cut left half-way, and is cut as well.
        if (cutAt % 5 !== 0) continue;
        const second = live(seed + 1000, "sync", image, 1 + (cutAt % 40));
        if (second.image === undefined) continue;
        check(second.image, Math.max(first.durable, second.durable), `${where}, and again`);
      }
    }
    expect(cuts).toBeGreaterThan(SEEDS * 10);
  });

  it("catches a writer that forgets what the block held", () => {
    const carryOver = TailBlock.prototype.carryOver;
    const broken = vi.spyOn(TailBlock.prototype, "carryOver").mockImplementation(function (this: TailBlock, buffer) {
      const length = carryOver.call(this, buffer);
      buffer.fill(0, 0, length);
      return length;
    });
    const files = newDisk();
    const test = new TestLog({ directWrites: true }, files);
    for (let offset = 0; offset < 5; offset++) test.commit(payloadsFrom(offset, 1));
    broken.mockRestore();
    const image = files.imageAfterPowerCut({ style: "lost" });
    let survived: string[] = [];
    try {
      survived = new TestLog({ directWrites: true }, image).payloads();
    } catch {
      // Refused: the header is gone with the records.
    }
    expect(survived).not.toEqual(payloadsFrom(0, 5));
  });
});
