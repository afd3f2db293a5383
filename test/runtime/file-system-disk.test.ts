import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import { createDiskFileSystem } from "../../src/runtime/file-system-disk.ts";
import { loadAddon } from "../../src/runtime/native/addon.ts";
import { addonFile } from "../../src/runtime/native/embedded.ts";
import { findNode } from "../support/real-node.ts";
import { fileScenarios } from "./file-system-scenarios.ts";

const { addon } = loadAddon();
/** Absent only where there is no Rust toolchain; everything then runs on the fallback alone. */
const kinds = addon === undefined ? (["without addon"] as const) : (["with addon", "without addon"] as const);
const addonOf = (kind: string) => (kind === "with addon" ? addon : undefined);

const children: ChildProcess[] = [];
let root: string;
let bundles: string;

beforeAll(() => {
  bundles = mkdtempSync(join(tmpdir(), "ironbus-bundles-"));
  for (const name of ["file-system-under-node", "file-system-helper"]) {
    const source = join(import.meta.dirname, `${name}.ts`);
    execFileSync(process.execPath, ["build", "--target=node", `--outfile=${join(bundles, `${name}.mjs`)}`, source]);
  }
});
afterAll(() => rmSync(bundles, { recursive: true }));
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "ironbus-files-"));
});
afterEach(() => {
  // Also where a test failed half-way.
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(root, { recursive: true });
});

describe.each(kinds)("disk in Bun, %s", (kind) => {
  for (const { title, run } of fileScenarios) {
    it(title, async () => {
      await expect(run(createDiskFileSystem(addonOf(kind)), root)).resolves.toBeUndefined();
    });
  }

  it("creates directories with mode 0700 and leaves existing ones alone", () => {
    mkdirSync(join(root, "open"), { mode: 0o755 });
    chmodSync(join(root, "open"), 0o755);
    createDiskFileSystem(addonOf(kind)).makeDirectory(join(root, "open", "a", "b"));
    const modes = ["open", "open/a", "open/a/b"].map((path) => statSync(join(root, path)).mode & 0o777);
    expect(modes).toEqual([0o755, 0o700, 0o700]);
  });

  it("lists symlinks and other kinds as what they are, and follows a symlink in stat", () => {
    symlinkSync("nowhere", join(root, "dangling"));
    writeFileSync(join(root, "file"), "x");
    symlinkSync("file", join(root, "link"));
    execFileSync("mkfifo", [join(root, "pipe")]);
    const files = createDiskFileSystem(addonOf(kind));
    expect(files.list(root)).toEqual([
      { name: "dangling", kind: "symlink" },
      { name: "file", kind: "file" },
      { name: "link", kind: "symlink" },
      { name: "pipe", kind: "other" },
    ]);
    expect(files.stat(join(root, "dangling"))).toBeUndefined();
    expect(files.stat(join(root, "link"))?.kind).toBe("file");
  });

  it("reports ENOSPC with the bytes that fit written, blocking and queued", async () => {
    // A device that is always full: not even one byte fits.
    const files = createDiskFileSystem(addonOf(kind));
    const full = files.open("/dev/full", "write");
    expect(() => full.write(new Uint8Array(10), 0, 10, 0)).toThrow(expect.objectContaining({ code: "ENOSPC" }));
    const queue = files.createQueue();
    const write = { buffer: new Uint8Array(10), offset: 0, length: 10, position: 0 };
    const error = await new Promise((done) => queue.submit({ file: full, write, barrier: "none", done }));
    expect(error).toMatchObject({ name: "FileSystemError", code: "ENOSPC", operation: "write", path: "/dev/full" });
    full.close();
    await new Promise<void>((done) => queue.close(done));
  });

  it("leaves no descriptor open", async () => {
    const files = createDiskFileSystem(addonOf(kind));
    const round = async (index: number) => {
      const path = join(root, `f${index}`);
      const file = files.open(path, "create");
      const lock = files.lock(`${path}.lock`);
      expect(files.lock(`${path}.lock`)).toBeUndefined();
      lock?.release();
      files.syncDirectory(root);
      expect(() => files.open(path, "create-new")).toThrow();
      const queue = files.createQueue();
      await new Promise((done) => queue.submit({ file, barrier: "data", done }));
      await new Promise<void>((done) => queue.close(done));
      file.close();
    };
    await round(0);
    const before = readdirSync("/proc/self/fd").length;
    for (let index = 1; index <= 20; index++) await round(index);
    expect(readdirSync("/proc/self/fd").length).toBeLessThan(before + 10);
  });
});

describe.each(kinds)("disk in Node, %s", (kind) => {
  let results: { title: string; failure?: string; bun?: string }[];

  beforeAll(() => {
    const script = join(bundles, "file-system-under-node.mjs");
    const output = execFileSync(findNode(), addonOf(kind) ? [script, addonFile!] : [script], { encoding: "utf8" });
    results = output
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  });

  for (const { title } of fileScenarios) {
    it(title, () => {
      const result = results.find((each) => each.title === title);
      expect(result).toMatchObject({ title });
      expect(result?.failure).toBeUndefined();
      expect(result?.bun).toBeUndefined();
    });
  }
});

describe.skipIf(addon === undefined)("a queue on the addon's thread", () => {
  it("refuses a job that no write can be, and goes on", async () => {
    const files = createDiskFileSystem(addon);
    const file = files.open(join(root, "a"), "create");
    const queue = files.createQueue();
    const write = { buffer: new Uint8Array(1), offset: 0, length: 2, position: 0 };
    expect(() => queue.submit({ file, write, barrier: "none", done() {} })).toThrow();
    expect(queue.pending).toBe(0);
    expect(await new Promise((done) => queue.submit({ file, barrier: "full", done }))).toBeUndefined();
    await new Promise<void>((done) => queue.close(done));
    file.close();
  });
});

const runtimes = { Bun: () => process.execPath, Node: findNode } as const;
const places = (["Bun", "Node"] as const).flatMap((runtime) => kinds.map((kind) => [runtime, kind] as const));

function start(runtime: "Bun" | "Node", kind: string, verb: string, path: string): ChildProcess {
  const args = [join(bundles, "file-system-helper.mjs"), verb, path, ...(addonOf(kind) ? [addonFile!] : [])];
  const child = spawn(runtimes[runtime](), args, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  return child;
}

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => child.stdout!.once("data", (chunk) => resolve(String(chunk).trim())));
}

function end(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.once("close", resolve));
}

describe.each(places)("a process of its own in %s, %s", (runtime, kind) => {
  it("excludes a second one from the lock; kill -9 frees it", async () => {
    const path = join(root, "LOCK");
    const holder = start(runtime, kind, "lock", path);
    expect(await firstLine(holder)).toBe("held");
    const second = start(runtime, kind, "lock", path);
    expect(await firstLine(second)).toBe("busy");
    expect(await end(second)).toBe(0);
    const gone = end(holder);
    holder.kill("SIGKILL");
    await gone;
    const third = start(runtime, kind, "lock", path);
    expect(await firstLine(third)).toBe("held");
    const thirdGone = end(third);
    third.kill("SIGKILL");
    await thirdGone;
  });

  it("stays for a queued job and not for an idle queue", async () => {
    const job = start(runtime, kind, "job", join(root, "a"));
    expect(await firstLine(job)).toBe("done");
    expect(await end(job)).toBe(0);
    expect(statSync(join(root, "a")).size).toBe(1 << 20);
    const idle = start(runtime, kind, "idle", join(root, "a"));
    expect(await firstLine(idle)).toBe("idle");
    expect(await end(idle)).toBe(0);
  });
});

describe("locks of different kinds", () => {
  const pairs = kinds.flatMap((kind) => (["Bun", "Node"] as const).map((runtime) => [runtime, kind] as const));

  it.each(pairs.filter(([runtime, kind]) => runtime === "Bun" || kind === "with addon"))(
    "flock of %s %s excludes this process's flock",
    async (runtime, kind) => {
      const path = join(root, "LOCK");
      const holder = start(runtime, kind, "lock", path);
      expect(await firstLine(holder)).toBe("held");
      for (const each of kinds) expect(createDiskFileSystem(addonOf(each)).lock(path)).toBeUndefined();
      const gone = end(holder);
      holder.kill("SIGKILL");
      await gone;
      const files: FileSystem = createDiskFileSystem(undefined);
      const lock = files.lock(path);
      expect(lock).toBeDefined();
      lock?.release();
    },
  );

  it("the socket that stands in for flock in Node sees a holder of the real one", async () => {
    const path = join(root, "LOCK");
    const lock = createDiskFileSystem(undefined).lock(path);
    const busy = start("Node", "without addon", "lock", path);
    expect(await firstLine(busy)).toBe("busy");
    await end(busy);
    lock?.release();
    const held = start("Node", "without addon", "lock", path);
    expect(await firstLine(held)).toBe("held");
    const gone = end(held);
    held.kill("SIGKILL");
    await gone;
  });
});
