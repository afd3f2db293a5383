import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { File, FileSystem, FileSystemError, IoJob } from "../../src/runtime/file-system.ts";
import { createDiskFileSystem } from "../../src/runtime/file-system-disk.ts";
import { loadAddon } from "../../src/runtime/native/addon.ts";
import { mountExt4, newImage, turnReadOnly, unmountAll, whyNoMounts } from "./mounts.ts";

afterEach(unmountAll);

const { addon } = loadAddon();
const ENGINES = [
  ["the addon", addon],
  ["no addon", undefined],
] as const;
const MIB = 1024 * 1024;
const missing = whyNoMounts();

function submit(files: FileSystem, job: Omit<IoJob, "done">): Promise<FileSystemError | undefined> {
  const queue = files.createQueue();
  return new Promise((resolve) => {
    queue.submit({ ...job, done: (error) => queue.close(() => resolve(error)) });
  });
}

describe.skipIf(missing !== undefined)(
  `the machine's file systems${missing === undefined ? "" : ` (${missing})`}`,
  () => {
    it.each(ENGINES)(
      "README ruling 12: with %s, a sync on a disk that has become read-only is a failed one",
      async (_, engine) => {
        const mounted = mountExt4(newImage(16 * MIB));
        const files = createDiskFileSystem(engine);
        const file: File = files.open(join(mounted, "file"), "create");
        const block = files.alignedBuffer(4096).fill(7);
        file.write(block, 0, block.length, 0);
        file.sync("data");
        file.write(block, 0, block.length, 4096);
        turnReadOnly(mounted);
        expect(() => file.sync("data")).toThrow(/EROFS|EIO/);
        expect(() => files.syncDirectory(mounted)).toThrow(/EROFS|EIO/);
        expect((await submit(files, { file, barrier: "data" }))?.code).toMatch(/^(EROFS|EIO)$/);
        expect((await submit(files, { file, barrier: "full" }))?.code).toMatch(/^(EROFS|EIO)$/);
        file.close();
      },
    );

    it.each(ENGINES)("README ruling 12: with %s, nor does a barrier of the queue succeed there", async (_, engine) => {
      const mounted = mountExt4(newImage(16 * MIB));
      const files = createDiskFileSystem(engine);
      const file = files.openDirectory(mounted);
      expect(await submit(files, { file, barrier: "full" })).toBeUndefined();
      execFileSync("mount", ["-o", "remount,ro", mounted]);
      expect((await submit(files, { file, barrier: "full" }))?.code).toBe("EROFS");
      expect((await submit(files, { file, barrier: "data" }))?.code).toBe("EROFS");
      file.close();
    });

    it.skipIf(addon === undefined)("storage.md 14.4: a reservation that fails gives back what it got", async () => {
      const mounted = mountExt4(newImage(16 * MIB));
      const files = createDiskFileSystem(addon);
      const before = files.freeSpace(mounted)?.freeBytes ?? Number.NaN;
      const file = files.open(join(mounted, "file"), "create");
      expect(() => file.allocate(64 * MIB)).toThrow(/ENOSPC/);
      expect(before - (files.freeSpace(mounted)?.freeBytes ?? 0)).toBeLessThan(MIB);
      expect(await submit(files, { file, allocateTo: 64 * MIB, barrier: "none" })).toBeUndefined();
      expect(before - (files.freeSpace(mounted)?.freeBytes ?? 0)).toBeLessThan(MIB);
      expect(file.status().size).toBe(0);
      file.close();
    });
  },
);
