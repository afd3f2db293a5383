import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { Output, OutputError } from "../../src/cli/output.ts";

/** A sink that takes a write only when it is told to, as a slow reader does. */
class SlowSink extends Writable {
  readonly taken: Buffer[] = [];
  #waiting: (() => void)[] = [];

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#waiting.push(() => {
      this.taken.push(chunk);
      done();
    });
  }

  take(): void {
    this.#waiting.shift()?.();
  }
}

function failing(code: string): Writable {
  return new Writable({ write: (_chunk, _encoding, done) => done(Object.assign(new Error(code), { code })) });
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("output", () => {
  it("flush resolves only when everything was taken", async () => {
    const sink = new SlowSink();
    const output = new Output(sink, new SlowSink(), false);
    output.line("one");
    output.write(Buffer.from("two"));
    let flushed = false;
    const flush = output.flush().then(() => {
      flushed = true;
    });
    await turn();
    expect(flushed).toBe(false);
    sink.take();
    await flush;
    expect(Buffer.concat(sink.taken).toString()).toBe("one\ntwo");
  });

  it("a reader that went away fails the flush, typed, and nothing else", async () => {
    const output = new Output(failing("EPIPE"), failing("EPIPE"), false);
    output.line("x");
    await expect(output.flush()).rejects.toThrow(new OutputError("EPIPE"));
    output.note("nobody hears this");
    await output.settleNotes();
    expect(output.full).toBe(false);
  });

  it("captures for the envelope, payload views copied", async () => {
    const sink = new SlowSink();
    const output = new Output(sink, new SlowSink(), true);
    const payload = Buffer.from("abc");
    output.write(payload);
    await output.flush();
    payload.fill(0);
    expect(Buffer.from(output.captured()).toString()).toBe("abc");
    expect(sink.taken).toEqual([]);
  });

  it("refuses to capture without bound", async () => {
    const output = new Output(new SlowSink(), new SlowSink(), true);
    const block = Buffer.alloc(16 * 1024 * 1024);
    const fill = async () => {
      for (let written = 0; written < 6; written++) {
        output.write(block);
        await output.flush();
      }
    };
    await expect(fill()).rejects.toThrow("io error: more than");
    expect(output.captured().length).toBe(0);
  });

  it("asks to be flushed from 64 KiB on", () => {
    const output = new Output(new SlowSink(), new SlowSink(), false);
    output.write("x".repeat(65_535));
    expect(output.full).toBe(false);
    output.write("x");
    expect(output.full).toBe(true);
  });

  it.each([
    ["a throw", "setTimeout(() => { throw new Error('oops'); }, 1)"],
    ["a rejection", "Promise.reject(new Error('oops'))"],
  ])("%s that nothing caught is internal: exit 70, and its stack on stderr", (_name, code) => {
    const module = fileURLToPath(new URL("../../src/cli/output.ts", import.meta.url));
    const script = `import { endOnUncaught } from ${JSON.stringify(module)}; endOnUncaught(70); setInterval(() => {}, 1000); ${code};`;
    const file = join(mkdtempSync(join(tmpdir(), "ironbus-uncaught-")), "script.ts");
    writeFileSync(file, script);
    const result = spawnSync(process.execPath, [file], { encoding: "utf8" });
    rmSync(dirname(file), { recursive: true });
    expect(result.status).toBe(70);
    expect(result.stderr).toMatch(/^error: internal: Error: oops\n +at /);
  });
});
