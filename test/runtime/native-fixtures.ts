import { execFileSync, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { loadAddon } from "../../src/runtime/native/addon.ts";
import { findNode } from "../support/real-node.ts";

/** The addon; missing only where no Rust tool chain built it. */
export const { addon } = loadAddon();
export const addonPath = join(
  import.meta.dirname,
  `../../dist/native/ironbus-${process.platform}-${process.arch}.node`,
);

/** Both runtimes that the broker ships on. */
export const runtimes = [
  { name: "Bun", runtime: process.execPath },
  { name: "Node", runtime: findNode() },
];

/** A directory for the tests of one file; `at` names a path in it, `open` opens one, created and truncated. */
export function useDirectory(): { at(name: string): string; open(name: string): number } {
  let directory: string;
  beforeAll(() => {
    directory = fs.mkdtempSync(join(tmpdir(), "ironbus-test-"));
  });
  afterAll(() => fs.rmSync(directory, { recursive: true, force: true }));
  const at = (name: string) => join(directory, name);
  return { at, open: (name) => fs.openSync(at(name), "w+") };
}

/** Mounts a file system of `bytes` on a new directory; undefined where that is not allowed (it needs root). */
export function mountSmall(path: string, bytes: number): { path: string; unmount(): void } | undefined {
  fs.mkdirSync(path);
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", path]).status === 0;
  return mounted ? { path, unmount: () => execFileSync("umount", [path]) } : undefined;
}

/** The bytes, in memory of the addon's. */
export function aligned(bytes: Uint8Array): Buffer {
  const buffer = addon!.alignedBuffer(bytes.length);
  buffer.set(bytes);
  return buffer;
}
