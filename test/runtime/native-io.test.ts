import { execFileSync, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Addon, type IoThread, loadAddon } from "../../src/runtime/native/addon.ts";
import { lcg } from "./codec-fixtures.ts";
import { findNode } from "./real-node.ts";

const { addon: loaded } = loadAddon();
const errno = constants.errno;

interface Completion {
  id: number;
  errno: number;
  step: number;
}

/** Both runtimes that the broker ships on. */
const runtimes = [
  { name: "Bun", runtime: process.execPath },
  { name: "Node", runtime: findNode() },
];

/** A thread whose callbacks are kept and can be awaited; holds the event loop meanwhile, as a user of it must. */
function startThread(addon: Addon): { thread: IoThread; done: Completion[]; until(count: number): Promise<void> } {
  const done: Completion[] = [];
  const waiting: (() => boolean)[] = [];
  const thread = new addon.IoThread((id, errno, step) => {
    done.push({ id, errno, step });
    for (const check of waiting.splice(0)) if (!check()) waiting.push(check);
  });
  const until = (count: number) =>
    new Promise<void>((resolve) => {
      const hold = setInterval(() => {}, 1000);
      const check = () => {
        if (done.length < count) return false;
        clearInterval(hold);
        resolve();
        return true;
      };
      if (!check()) waiting.push(check);
    });
  return { thread, done, until };
}

describe.skipIf(loaded === undefined)("the addon's files (skipped only where no addon was built)", () => {
  const addon = loaded!;
  let directory: string;
  beforeAll(() => {
    directory = fs.mkdtempSync(join(tmpdir(), "ironbus-test-"));
  });
  afterAll(() => {
    fs.rmSync(directory, { recursive: true, force: true });
  });
  const open = (name: string) => fs.openSync(join(directory, name), "w+");

  /** Mounts a file system of `bytes` (root only); undefined where that is not allowed. */
  function mountSmall(bytes: number): { path: string; unmount(): void } | undefined {
    const path = fs.mkdtempSync(join(directory, "small-"));
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", path]).status === 0;
    return mounted ? { path, unmount: () => execFileSync("umount", [path]) } : undefined;
  }

  describe("IoThread", () => {
    it("runs jobs in order and calls back in order, never from within submit", async () => {
      const { thread, done, until } = startThread(addon);
      const fd = open("order");
      for (let id = 0; id < 40; id++) {
        thread.submit(id, fd, lcg(id, 100), 10, 50, 25 * id, -1, -1, id % 3);
        expect(done.length).toBe(0);
      }
      await until(40);
      expect(done).toEqual(Array.from({ length: 40 }, (_, id) => ({ id, errno: 0, step: 0 })));
      const expected = Buffer.alloc(25 * 39 + 50);
      for (let id = 0; id < 40; id++) expected.set(lcg(id, 100).subarray(10, 60), 25 * id);
      expect(fs.readFileSync(join(directory, "order")).equals(expected)).toBe(true);
      thread.close();
      fs.closeSync(fd);
    });

    it("writes, then truncates, then extends, as one job", async () => {
      const { thread, done, until } = startThread(addon);
      const fd = open("steps");
      thread.submit(1, fd, lcg(1, 1000), 0, 1000, 0, 300, 8192, 1);
      thread.submit(2, fd, null, 0, 0, 0, -1, 4096, 2);
      await until(2);
      expect(done.map(({ errno }) => errno)).toEqual([0, 0]);
      const content = fs.readFileSync(join(directory, "steps"));
      expect(content.length).toBe(8192);
      expect(content.subarray(0, 300).equals(lcg(1, 1000).subarray(0, 300))).toBe(true);
      expect(content.subarray(300).every((byte) => byte === 0)).toBe(true);
      thread.close();
      fs.closeSync(fd);
    });

    it("writes at positions above 4 GiB", async () => {
      const { thread, done, until } = startThread(addon);
      const fd = open("sparse");
      thread.submit(1, fd, lcg(1, 10), 0, 10, 2 ** 33 + 1, -1, -1, 1);
      await until(1);
      expect(done[0].errno).toBe(0);
      expect(fs.fstatSync(fd).size).toBe(2 ** 33 + 11);
      const back = Buffer.alloc(10);
      fs.readSync(fd, back, 0, 10, 2 ** 33 + 1);
      expect(back.equals(lcg(1, 10))).toBe(true);
      thread.close();
      fs.closeSync(fd);
    });

    it("names errno and step: a closed descriptor, a full device, a pipe, a truncation refused", async () => {
      const { thread, done, until } = startThread(addon);
      const readOnly = fs.openSync("/dev/null", "r");
      const full = fs.openSync("/dev/full", "w");
      thread.submit(1, 1_000_000, lcg(1, 10), 0, 10, 0, -1, -1, 1);
      thread.submit(2, full, lcg(1, 10), 0, 10, 0, -1, -1, 1);
      thread.submit(3, readOnly, null, 0, 0, 0, 5, -1, 1);
      thread.submit(4, 1_000_000, null, 0, 0, 0, -1, 4096, 0);
      thread.submit(5, 1_000_000, null, 0, 0, 0, -1, -1, 2);
      await until(5);
      expect(done).toEqual([
        { id: 1, errno: errno.EBADF, step: 1 },
        { id: 2, errno: errno.ENOSPC, step: 1 },
        { id: 3, errno: errno.EINVAL, step: 2 },
        { id: 4, errno: 0, step: 0 },
        { id: 5, errno: errno.EBADF, step: 4 },
      ]);
      thread.close();
      fs.closeSync(readOnly);
      fs.closeSync(full);
    });

    it("continues a short write on a disk that fills up, and reports ENOSPC", async ({ skip }) => {
      const small = mountSmall(65_536);
      if (small === undefined) return skip("mounting needs root");
      try {
        const { thread, done, until } = startThread(addon);
        const fd = fs.openSync(join(small.path, "file"), "w+");
        thread.submit(1, fd, lcg(1, 100_000), 0, 100_000, 0, -1, -1, 1);
        await until(1);
        // What fitted was written; only a write of the rest finds the disk full.
        expect(done[0]).toEqual({ id: 1, errno: errno.ENOSPC, step: 1 });
        expect(fs.fstatSync(fd).size).toBe(65_536);
        thread.submit(2, fd, lcg(1, 10), 0, 10, 0, 10, 1_000_000, 1);
        await until(2);
        expect(done[1]).toEqual({ id: 2, errno: 0, step: 0 });
        thread.close();
        fs.closeSync(fd);
      } finally {
        small.unmount();
      }
    });

    it("refuses a 65th waiting job, and runs the 64", async () => {
      const { thread, done, until } = startThread(addon);
      const blocker = open("blocker");
      let accepted = 0;
      let refusal: unknown;
      // The thread takes jobs meanwhile: fill faster than a barrier takes.
      for (let id = 1; id <= 100_000 && refusal === undefined; id++) {
        try {
          thread.submit(id, blocker, lcg(1, 8), 0, 8, 0, -1, -1, 2);
          accepted++;
        } catch (error) {
          refusal = error;
        }
      }
      expect(String(refusal)).toContain("64 jobs wait already");
      expect(accepted).toBeGreaterThanOrEqual(64);
      await until(accepted);
      expect(done.every(({ errno }) => errno === 0)).toBe(true);
      thread.submit(-1, blocker, null, 0, 0, 0, -1, -1, 0);
      await until(accepted + 1);
      thread.close();
      fs.closeSync(blocker);
    });

    it("close lets queued jobs run and call back, and refuses new ones", async () => {
      const { thread, done, until } = startThread(addon);
      const fd = open("closing");
      for (let id = 0; id < 20; id++) thread.submit(id, fd, lcg(id, 4096), 0, 4096, 4096 * id, -1, -1, 1);
      thread.close();
      thread.close();
      expect(() => thread.submit(20, fd, null, 0, 0, 0, -1, -1, 0)).toThrow("the I/O thread is closed");
      await until(20);
      expect(done.map(({ id }) => id)).toEqual(Array.from({ length: 20 }, (_, id) => id));
      expect(fs.fstatSync(fd).size).toBe(20 * 4096);
      fs.closeSync(fd);
    });

    it("keeps a buffer that nobody else refers to until its job is done", async () => {
      const { thread, done, until } = startThread(addon);
      const fd = open("garbage");
      for (let id = 0; id < 32; id++) {
        thread.submit(
          id,
          fd,
          id % 2 === 0 ? lcg(id, 50_000) : aligned(lcg(id, 50_000)),
          0,
          50_000,
          50_000 * id,
          -1,
          -1,
          1,
        );
      }
      for (let round = 0; done.length < 32; round++) {
        collectGarbage();
        // Memory that was freed too early would be taken, and overwritten, by these.
        for (let i = 0; i < 20; i++) aligned(new Uint8Array(50_000).fill(round));
        await until(Math.min(32, done.length + 1));
      }
      for (let id = 0; id < 32; id++) {
        const back = Buffer.alloc(50_000);
        fs.readSync(fd, back, 0, 50_000, 50_000 * id);
        expect(back.equals(lcg(id, 50_000))).toBe(true);
      }
      thread.close();
      fs.closeSync(fd);
    });

    it("a small buffer survives that its memory is asked for while the job waits", async () => {
      // Engines keep the bytes of small arrays elsewhere until somebody asks for their ArrayBuffer.
      const { thread, until } = startThread(addon);
      const fd = open("small");
      const arrays = Array.from({ length: 60 }, (_, id) => lcg(id, 60));
      for (const [id, array] of arrays.entries()) thread.submit(id, fd, array, 0, 60, 60 * id, -1, -1, 1);
      for (const array of arrays) expect(array.buffer.byteLength).toBe(60);
      collectGarbage();
      await until(60);
      expect(fs.readFileSync(join(directory, "small")).equals(Buffer.concat(arrays))).toBe(true);
      thread.close();
      fs.closeSync(fd);
    });

    it.each([
      ["negative offset", [0, 0, -1, 1, 0, -1, -1, 0]],
      ["length past the buffer", [0, 0, 1, 10, 0, -1, -1, 0]],
      ["fractional length", [0, 0, 0, 1.5, 0, -1, -1, 0]],
      ["negative position", [0, 0, 0, 1, -1, -1, -1, 0]],
      ["position above 2^53", [0, 0, 0, 1, 2 ** 53, -1, -1, 0]],
      ["negative descriptor", [0, -1, 0, 1, 0, -1, -1, 0]],
      ["descriptor above 2^31", [0, 2 ** 32, 0, 1, 0, -1, -1, 0]],
      ["truncation to NaN", [0, 0, 0, 1, 0, Number.NaN, -1, 0]],
      ["allocation to -2", [0, 0, 0, 1, 0, -1, -2, 0]],
      ["unknown barrier", [0, 0, 0, 1, 0, -1, -1, 3]],
    ])("refuses a %s", (_name, [id, fd, offset, length, position, truncateTo, allocateTo, barrier]) => {
      const thread = new addon.IoThread(() => {});
      const submit = () =>
        thread.submit(id, fd, new Uint8Array(10), offset, length, position, truncateTo, allocateTo, barrier);
      expect(submit).toThrow(/must be/);
      thread.close();
    });

    describe.each(runtimes)("in a process of its own, under $name", ({ name, runtime }) => {
      const child = (body: string) => {
        const file = join(directory, "child.cjs");
        fs.writeFileSync(
          file,
          `const fs = require("node:fs");
         const module_ = { exports: {} };
         process.dlopen(module_, ${JSON.stringify(addonPath())});
         const { IoThread } = module_.exports;
         const fd = fs.openSync(${JSON.stringify(join(directory, "child.out"))}, "w+");
         ${body}`,
        );
        const ended = spawnSync(runtime, [...(name === "Node" ? ["--expose-gc"] : []), file], {
          encoding: "utf8",
          timeout: 30_000,
        });
        return { status: ended.status, stdout: ended.stdout, stderr: ended.stderr };
      };

      it("an idle thread keeps no process alive, closed or not", () => {
        expect(child(`globalThis.thread = new IoThread(() => {}); console.log("end");`)).toMatchObject({
          status: 0,
          stdout: "end\n",
        });
        expect(child(`new IoThread(() => {}).close(); console.log("end");`)).toMatchObject({
          status: 0,
          stdout: "end\n",
        });
      });

      it("an exit with jobs under way ends cleanly", () => {
        const body = `
        const thread = new IoThread(() => {});
        for (let id = 0; id < 60; id++) {
          thread.submit(id, fd, Buffer.alloc(1 << 20, 7), 0, 1 << 20, id << 20, -1, -1, 1);
        }
        console.log("end");
        process.exit(3);`;
        expect(child(body)).toEqual({ status: 3, stdout: "end\n", stderr: "" });
        const written = fs.readFileSync(join(directory, "child.out"));
        expect(written.every((byte) => byte === 7)).toBe(true);
      });

      it("a callback that throws is an uncaught exception, and later callbacks still come", () => {
        const body = `
        const seen = [];
        process.on("uncaughtException", (error) => seen.push(error.message));
        const hold = setInterval(() => {}, 1000);
        const thread = new IoThread((id) => {
          if (id === 1) throw new Error("thrown");
          clearInterval(hold);
          setImmediate(() => console.log(JSON.stringify(seen)));
        });
        thread.submit(1, fd, null, 0, 0, 0, -1, -1, 0);
        thread.submit(2, fd, null, 0, 0, 0, -1, -1, 0);`;
        expect(child(body)).toMatchObject({ status: 0, stdout: '["thrown"]\n' });
      });

      it("threads that were dropped without close do no harm, nor do many", () => {
        const body = `
        let last = 0;
        const hold = setInterval(() => {}, 1000);
        const collect = globalThis.Bun ? () => Bun.gc(true) : globalThis.gc;
        for (let round = 0; round < 20; round++) {
          for (let i = 0; i < 5; i++) {
            const thread = new IoThread(() => { if (++last === 100) { clearInterval(hold); console.log("all"); } });
            thread.submit(i, fd, Buffer.alloc(5000, 7), 0, 5000, 0, -1, -1, 1);
            if (i % 2 === 0) thread.close();
          }
          collect();
        }`;
        expect(child(body)).toMatchObject({ status: 0, stdout: "all\n", stderr: "" });
      });
    });
  });

  describe("alignedBuffer", () => {
    it("is zeroed, 4096-aligned and fit for O_DIRECT", ({ skip }) => {
      for (const length of [1, 4095, 4096, 1 << 20]) {
        const buffer = addon.alignedBuffer(length);
        expect(buffer.length).toBe(length);
        expect(Buffer.alloc(length).equals(buffer)).toBe(true);
      }
      const buffer = aligned(lcg(5, 8192));
      let fd: number;
      try {
        fd = fs.openSync(join(directory, "direct"), fs.constants.O_RDWR | fs.constants.O_CREAT | fs.constants.O_DIRECT);
      } catch {
        return skip("this file system has no O_DIRECT");
      }
      // The kernel refuses a direct write from an address that is not aligned.
      expect(fs.writeSync(fd, buffer, 0, 8192, 0)).toBe(8192);
      fs.closeSync(fd);
      expect(fs.readFileSync(join(directory, "direct")).equals(buffer)).toBe(true);
    });

    it("counts towards the garbage, and is freed with its buffer", async () => {
      const before = process.memoryUsage().rss;
      let most = 0;
      for (let i = 0; i < 2000; i++) {
        addon.alignedBuffer(1 << 20).fill(1);
        // Finalizers run between turns.
        await new Promise((resolve) => setImmediate(resolve));
        most = Math.max(most, process.memoryUsage().rss - before);
      }
      // 2000 MiB were touched, and nobody asked for a collection.
      expect(most).toBeLessThan(500 << 20);
    });

    it.each([0, -1, 1.5, Number.NaN, 2 ** 30, 2 ** 33])("refuses a length of %s", (length) => {
      expect(() => addon.alignedBuffer(length)).toThrow(/length must be/);
    });
  });

  describe("flock", () => {
    it("excludes a second descriptor until the first is closed, and goes with its process", () => {
      const path = join(directory, "LOCK");
      const first = fs.openSync(path, "w");
      const second = fs.openSync(path, "w");
      expect(addon.flock(first)).toBe(true);
      expect(addon.flock(second)).toBe(false);
      expect(spawnSync("flock", ["-n", path, "true"]).status).toBe(1);
      fs.closeSync(first);
      expect(addon.flock(second)).toBe(true);
      fs.closeSync(second);
      expect(spawnSync("flock", ["-n", path, "true"]).status).toBe(0);
    });

    it("throws another errno by its name", () => {
      expect(() => addon.flock(1_000_000)).toThrow(expect.objectContaining({ code: "EBADF" }));
      expect(() => addon.flock(-1)).toThrow(/fd must be/);
    });
  });

  describe("fallocate", () => {
    it("reserves blocks, extends, and never shrinks (storage.md 14.4)", () => {
      const fd = open("allocated");
      fs.writeSync(fd, lcg(1, 100), 0, 100, 0);
      addon.fallocate(fd, 1 << 20);
      const { size, blocks } = fs.fstatSync(fd);
      expect(size).toBe(1 << 20);
      expect(blocks * 512).toBeGreaterThanOrEqual(1 << 20);
      addon.fallocate(fd, 4096);
      addon.fallocate(fd, 0);
      expect(fs.fstatSync(fd).size).toBe(1 << 20);
      const content = fs.readFileSync(join(directory, "allocated"));
      expect(content.subarray(0, 100).equals(lcg(1, 100))).toBe(true);
      fs.closeSync(fd);
    });

    it("throws ENOSPC and EBADF by name, and leaves a full disk's file as it is", ({ skip }) => {
      expect(() => addon.fallocate(1_000_000, 1)).toThrow(expect.objectContaining({ code: "EBADF" }));
      expect(() => addon.fallocate(0, -1)).toThrow(/length must be/);
      const small = mountSmall(65_536);
      if (small === undefined) return skip("mounting needs root");
      try {
        const fd = fs.openSync(join(small.path, "file"), "w+");
        expect(() => addon.fallocate(fd, 1 << 20)).toThrow(expect.objectContaining({ code: "ENOSPC" }));
        expect(fs.fstatSync(fd).size).toBe(0);
        fs.closeSync(fd);
      } finally {
        small.unmount();
      }
    });
  });

  describe("raw exports", () => {
    const raw = { exports: {} as Record<string, (...args: unknown[]) => unknown> };
    beforeAll(() => process.dlopen(raw, addonPath()));

    it("refuse arguments of another type instead of reading memory that is not theirs", () => {
      const { crc32c, seal, scan } = raw.exports;
      const bytes = new Uint8Array(8);
      for (const wrong of [undefined, null, 5, "text", {}, [], new Float64Array(2), new DataView(new ArrayBuffer(8))]) {
        expect(() => crc32c(wrong, 0, 0)).toThrow();
      }
      expect(() => seal(bytes, new Uint32Array(8), 0, 1, bytes, 0, 0, 0, 0, new Float64Array(1))).toThrow("Int32Array");
      expect(() => scan(bytes, 0, 0, new Int32Array(8), 1, -1, new Float32Array(4))).toThrow("Float64Array");
      expect(() => crc32c(bytes, "0", 0)).toThrow();
    });

    it("check every range themselves, without the codec in front", () => {
      const { crc32c, xxh3, seal, scan, lz4Decompress } = raw.exports;
      const bytes = new Uint8Array(100);
      const table = new Int32Array(8);
      const result = new Float64Array(4);
      const other = new Uint8Array(100);
      for (const call of [
        () => crc32c(bytes, 0, 101),
        () => crc32c(bytes, 5, 4),
        () => xxh3(bytes, -1, 4),
        () => seal(bytes, table, 0, 2, other, 0, 100, 100, 0, result),
        () => seal(bytes, table, 1, 0, other, 0, 100, 100, 0, result),
        () => seal(bytes, table, 0, 1, other, 0, 101, 100, 0, result),
        () => seal(bytes, table, 0, 1, other, 9, 8, 100, 0, result),
        () => seal(bytes, table, 0, 1, other, 0, 100, 100, 2 ** 53, result),
        () => seal(bytes, table, 0, 1, other, 0, 100, 100, 0, new Float64Array(0)),
        () => seal(bytes, table, 0, 1, bytes, 0, 100, 100, 0, result),
        () => scan(bytes, 0, 101, table, 1, 0, result),
        () => scan(bytes, 0, 100, table, 2, 0, result),
        () => scan(bytes, 0, 100, table, 1, -2, result),
        () => scan(bytes, 0, 100, table, 1, 0, new Float64Array(3)),
        () => scan(bytes, 0, 100, new Int32Array(bytes.buffer, 0, 8), 1, 0, result),
        () => lz4Decompress(bytes, 0, 100, other, 50, 51),
        () => lz4Decompress(bytes, 0, 100, bytes, 0, 10),
      ]) {
        expect(call).toThrow(/must/);
      }
      expect(seal(bytes, Int32Array.of(0, 93, 0, 0, 0, 0, 0, 0), 0, 1, other, 0, 100, 100, 0, result)).toBe(-1);
    });

    it("take a transferred array for an empty one", () => {
      const gone = new Uint8Array(100);
      structuredClone(gone.buffer, { transfer: [gone.buffer] });
      expect(raw.exports.crc32c(gone, 0, 0)).toBe(0);
      expect(() => raw.exports.crc32c(gone, 0, 1)).toThrow(/must/);
    });
  });

  function aligned(bytes: Uint8Array): Buffer {
    const buffer = addon.alignedBuffer(bytes.length);
    buffer.set(bytes);
    return buffer;
  }
});

function addonPath(): string {
  const name = `ironbus-${process.platform}-${process.arch}.node`;
  return join(import.meta.dirname, "../../dist/native", name);
}

function collectGarbage(): void {
  if ("Bun" in globalThis) Bun.gc(true);
}
