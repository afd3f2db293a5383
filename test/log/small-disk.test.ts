import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { Log } from "../../src/log/log.ts";
import { systemClock } from "../../src/runtime/clock-system.ts";
import { createDiskFileSystem } from "../../src/runtime/file-system-disk.ts";
import { loadAddon } from "../../src/runtime/native/addon.ts";
import { codec } from "./fixtures.ts";
import { publishes } from "./open-log.ts";

const MEGABYTE = 1024 * 1024;
const files = createDiskFileSystem(loadAddon([]).addon);

/** A tmpfs or ext4 of a few MB at a path of its own. */
class SmallDisk {
  readonly #scratch = mkdtempSync(join(tmpdir(), "ironbus-small-"));
  readonly root = join(this.#scratch, "mounted");

  constructor(kind: "tmpfs" | "ext4") {
    execFileSync("mkdir", [this.root]);
    try {
      if (kind === "tmpfs") {
        execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", this.root], { stdio: "pipe" });
        return;
      }
      const image = join(this.#scratch, "image");
      execFileSync("truncate", ["-s", "24M", image]);
      execFileSync("mkfs.ext4", ["-q", "-F", image], { stdio: "pipe" });
      execFileSync("mount", ["-o", "loop", image, this.root], { stdio: "pipe" });
    } catch (error) {
      rmSync(this.#scratch, { recursive: true });
      throw error;
    }
  }

  gone(): void {
    execFileSync("umount", [this.root]);
    rmSync(this.#scratch, { recursive: true });
  }
}

/** Mounting needs a right that an ordinary user does not have. */
function mayMount(): boolean {
  try {
    new SmallDisk("tmpfs").gone();
    new SmallDisk("ext4").gone();
    return true;
  } catch {
    return false;
  }
}

const CASES = (["sync", "interval", "none"] as const).flatMap((level) => [
  { level, kind: "tmpfs" as const, directWrites: false },
  { level, kind: "ext4" as const, directWrites: false },
  { level, kind: "ext4" as const, directWrites: true },
]);

describe.skipIf(!mayMount())("a small real disk that fills up (needs the right to mount)", () => {
  let disk: SmallDisk | undefined;
  afterEach(() => {
    disk?.gone();
    disk = undefined;
  });

  it.each(CASES)("$kind, $level, direct $directWrites: refuses, restarts full, and heals", async (options) => {
    disk = new SmallDisk(options.kind);
    const root = `${disk.root}/data`;
    files.makeDirectory(root);
    const open = (): Log =>
      Log.open(
        {
          root,
          maxSegmentBytes: MEGABYTE,
          maxPendingBytes: MEGABYTE,
          durability: { level: options.level, flushIntervalMs: 100, flushMaxBytes: MEGABYTE },
          directWrites: options.directWrites,
        },
        { files, codec, clock: systemClock },
        { advanced: () => {}, rejected: () => {}, froze: () => {} },
      );
    let log = open();
    const refused = async (): Promise<void> => {
      const deadlineMs = Date.now() + 30_000;
      while (log.refusal === undefined) {
        expect(log.frozen).toBeUndefined();
        expect(Date.now()).toBeLessThan(deadlineMs);
        const from = log.nextOffset;
        const payloads = Array.from({ length: 50 }, (_, index) => `${from + index}:`.padEnd(1000, "."));
        const { chunk, table } = publishes(payloads);
        log.append(chunk, table, 0, payloads.length);
        log.pump();
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    };
    const check = (): void => {
      expect(log.frozen).toBeUndefined();
      expect(log.written.recordBytes).toBe(log.segments.reduce((sum, segment) => sum + segment.end - 64, 0));
      for (let offset = log.earliestOffset; offset < log.visibleHead; offset += 97) {
        const window = log.read(offset, log.visibleHead);
        const row = 8 * (offset - (window?.firstOffset ?? 0));
        const start = window?.rows[row + 6] ?? 0;
        const text = new TextDecoder().decode(window?.buffer.subarray(start, start + 8));
        expect(text.startsWith(`${offset}:`), `offset ${offset}: ${text}`).toBe(true);
      }
    };

    await refused();
    expect(log.refusal?.kind).toBe("disk-full");
    const full = log.visibleHead;
    expect(full).toBeGreaterThan(3000);
    check();
    await log.close();

    log = open();
    expect(log.losses).toEqual([]);
    expect(log.nextOffset).toBe(full);
    await refused();
    check();

    const removed = await new Promise<number>((resolve, reject) => {
      const begun = log.removeOldest(2, (count, error) => (error === undefined ? resolve(count) : reject(error)));
      if (!begun) reject(new Error("not begun"));
    });
    expect(removed).toBe(2);
    const deadlineMs = Date.now() + 30_000;
    for (const before = log.visibleHead; log.visibleHead < before + 500; ) {
      expect(Date.now()).toBeLessThan(deadlineMs);
      log.tick();
      if (log.refusal === undefined) await refused();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    check();
    await log.close();
  });
});
