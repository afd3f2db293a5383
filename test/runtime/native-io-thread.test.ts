import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { constants } from "node:os";
import { describe, expect, it } from "vitest";
import type { IoThread } from "../../src/runtime/native/addon.ts";
import { lcg } from "./codec-fixtures.ts";
import { addon, addonPath, aligned, mountSmall, runtimes, useDirectory } from "./native-fixtures.ts";

const errno = constants.errno;

interface Completion {
  id: number;
  errno: number;
  step: number;
}

/** A thread whose callbacks are kept and can be awaited; holds the event loop meanwhile, as a user of it must. */
function startThread(): { thread: IoThread; done: Completion[]; until(count: number): Promise<void> } {
  const done: Completion[] = [];
  const waiting: (() => boolean)[] = [];
  const thread = new addon!.IoThread((id, errno, step) => {
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

describe.skipIf(addon === undefined)("IoThread (skipped only where no addon was built)", () => {
  const { at, open } = useDirectory();

  it("runs jobs in order and calls back in order, never from within submit", async () => {
    const { thread, done, until } = startThread();
    const fd = open("order");
    for (let id = 0; id < 40; id++) {
      thread.submit(id, fd, lcg(id, 100), 10, 50, 25 * id, -1, -1, id % 4);
      expect(done.length).toBe(0);
    }
    await until(40);
    expect(done).toEqual(Array.from({ length: 40 }, (_, id) => ({ id, errno: 0, step: 0 })));
    const expected = Buffer.alloc(25 * 39 + 50);
    for (let id = 0; id < 40; id++) expected.set(lcg(id, 100).subarray(10, 60), 25 * id);
    expect(fs.readFileSync(at("order")).equals(expected)).toBe(true);
    thread.close();
    fs.closeSync(fd);
  });

  it("writes, then truncates, then extends, as one job", async () => {
    const { thread, done, until } = startThread();
    const fd = open("steps");
    thread.submit(1, fd, lcg(1, 1000), 0, 1000, 0, 300, 8192, 1);
    thread.submit(2, fd, null, 0, 0, 0, -1, 4096, 2);
    await until(2);
    expect(done.map(({ errno }) => errno)).toEqual([0, 0]);
    const content = fs.readFileSync(at("steps"));
    expect(content.length).toBe(8192);
    expect(content.subarray(0, 300).equals(lcg(1, 1000).subarray(0, 300))).toBe(true);
    expect(content.subarray(300).every((byte) => byte === 0)).toBe(true);
    thread.close();
    fs.closeSync(fd);
  });

  it("writes at positions above 4 GiB", async () => {
    const { thread, done, until } = startThread();
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
    const { thread, done, until } = startThread();
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
    const small = mountSmall(at("small-disk"), 65_536);
    if (small === undefined) return skip("mounting needs root");
    try {
      const { thread, done, until } = startThread();
      const fd = fs.openSync(`${small.path}/file`, "w+");
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
    const { thread, done, until } = startThread();
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
    const { thread, done, until } = startThread();
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
    const { thread, done, until } = startThread();
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
    const { thread, until } = startThread();
    const fd = open("small");
    const arrays = Array.from({ length: 60 }, (_, id) => lcg(id, 60));
    for (const [id, array] of arrays.entries()) thread.submit(id, fd, array, 0, 60, 60 * id, -1, -1, 1);
    for (const array of arrays) expect(array.buffer.byteLength).toBe(60);
    collectGarbage();
    await until(60);
    expect(fs.readFileSync(at("small")).equals(Buffer.concat(arrays))).toBe(true);
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
    ["unknown barrier", [0, 0, 0, 1, 0, -1, -1, 4]],
  ])("refuses a %s", (_name, [id, fd, offset, length, position, truncateTo, allocateTo, barrier]) => {
    const thread = new addon!.IoThread(() => {});
    const submit = () =>
      thread.submit(id, fd, new Uint8Array(10), offset, length, position, truncateTo, allocateTo, barrier);
    expect(submit).toThrow(/must be/);
    thread.close();
  });

  describe.each(runtimes)("in a process of its own, under $name", ({ name, runtime }) => {
    const child = (body: string) => {
      const file = at("child.cjs");
      fs.writeFileSync(
        file,
        `const fs = require("node:fs");
       const module_ = { exports: {} };
       process.dlopen(module_, ${JSON.stringify(addonPath)});
       const { IoThread } = module_.exports;
       const fd = fs.openSync(${JSON.stringify(at("child.out"))}, "w+");
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
      const written = fs.readFileSync(at("child.out"));
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

function collectGarbage(): void {
  if ("Bun" in globalThis) Bun.gc(true);
}
