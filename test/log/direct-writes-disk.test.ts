import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { resolveIoMode } from "../../src/log/io-mode.ts";
import { Log } from "../../src/log/log.ts";
import { UNKNOWN_DEVICE } from "../../src/runtime/block-device.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { createDiskFileSystem } from "../../src/runtime/file-system-disk.ts";
import { loadAddon } from "../../src/runtime/native/addon.ts";
import { codec } from "./fixtures.ts";
import { publishes } from "./open-log.ts";

const files = createDiskFileSystem(loadAddon().addon);
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "ironbus-direct-"));
});
afterEach(() => rmSync(root, { recursive: true }));

const modeOf = (directory: string) => resolveIoMode("direct", files, directory, () => UNKNOWN_DEVICE);

/** Whether this process may mount: as root outside of a container. */
function mounts(kind: string, directory: string): boolean {
  try {
    execFileSync("mount", ["-t", kind, "none", directory], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Publishes everything and closes the log, in two lives. */
async function write(directory: string, directWrites: boolean, payloads: readonly string[]): Promise<void> {
  mkdirSync(directory);
  const half = payloads.length >> 1;
  for (const part of [payloads.slice(0, half), payloads.slice(half)]) {
    let wake = (): void => {};
    let frozen: Error | undefined;
    const log = Log.open(
      {
        root: directory,
        maxSegmentBytes: 3_000_000,
        maxPendingBytes: 512 * 1024,
        durability: { level: "sync", flushIntervalMs: 0, flushMaxBytes: 0 },
        directWrites,
      },
      { files, codec, clock: new SimulatedClock() },
      {
        advanced: () => wake(),
        rejected: () => wake(),
        froze: (error) => {
          frozen = error;
          wake();
        },
      },
    );
    const { chunk, table } = publishes(part);
    const start = log.nextOffset;
    for (let at = 0; at < part.length || log.visibleHead < start + part.length; ) {
      at += log.append(chunk, table, at, Math.min(part.length, at + 1 + ((at * 31) % 300)));
      const advanced = new Promise<void>((resolve) => {
        wake = resolve;
      });
      log.pump();
      await advanced;
      expect(frozen).toBeUndefined();
    }
    await log.close();
  }
}

describe("direct writes on this machine's disk", () => {
  it("storage.md 26.14: the files are byte-identical to buffered ones", async (context) => {
    const { mode, note } = modeOf(root);
    // Without the addon, or where the temporary directory takes no direct writes.
    if (mode === "buffered") context.skip(note?.message);
    const payloads = Array.from({ length: 12_000 }, (_, index) => `${index}:${"x".repeat((index * 7919) % 2000)}`);
    await write(join(root, "buffered"), false, payloads);
    await write(join(root, "direct"), true, payloads);
    const names = readdirSync(join(root, "buffered")).filter((name) => name.startsWith("seg-"));
    expect(names.length).toBeGreaterThan(4);
    expect(readdirSync(join(root, "direct")).filter((name) => name.startsWith("seg-"))).toEqual(names);
    const last = names.pop() as string;
    for (const name of names) {
      const [buffered, direct] = ["buffered", "direct"].map((mode) => readFileSync(join(root, mode, name)));
      expect(Buffer.compare(buffered, direct), name).toBe(0);
    }
    // The last one is not sealed: behind the records are zeros, as many as it happens to be.
    const [buffered, direct] = ["buffered", "direct"].map((mode) => readFileSync(join(root, mode, last)));
    const shared = Math.min(buffered.length, direct.length);
    expect(Buffer.compare(buffered.subarray(0, shared), direct.subarray(0, shared))).toBe(0);
    expect(direct.subarray(shared).every((byte) => byte === 0)).toBe(true);
  }, 60_000);

  it("storage.md 16: ramfs opens nothing for direct writes, and is written buffered with a warning", (context) => {
    const directory = join(root, "ramfs");
    mkdirSync(directory);
    if (!mounts("ramfs", directory)) context.skip("this process may not mount");
    try {
      const { mode, note } = modeOf(directory);
      expect(mode).toBe("buffered");
      expect(note?.level).toBe("WARN");
      expect(files.list(directory)).toEqual([]);
    } finally {
      execFileSync("umount", [directory]);
    }
  });
});
