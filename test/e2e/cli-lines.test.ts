import { createReadStream, createWriteStream, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { afterEach, describe, expect, it } from "vitest";
import { cleanUp, FULL, Process, TestBroker, temporaryDirectory } from "./harness.ts";

afterEach(cleanUp);

/** Bytes of the round trip: enough for several segments, or the whole 100 MB when IRONBUS_FULL=1. */
const ROUND_TRIP_BYTES = FULL ? 100_000_000 : 12_000_000;

/** Lines of all lengths and bytes, empty ones, \r, NUL and invalid UTF-8 among them; the same on every call. */
function* lineBlocks(totalBytes: number): Generator<Buffer> {
  let state = 12_345;
  const next = () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return state >>> 8;
  };
  const lengths = [0, 1, 20, 80, 100, 200, 500, 3000];
  let left = totalBytes;
  while (left > 0) {
    const block = Buffer.alloc(Math.min(left, 1_000_000));
    for (let at = 0; at < block.length; at++) {
      const end = Math.min(block.length - 1, at + lengths[next() % lengths.length]);
      for (; at < end; at++) {
        const byte = next() & 0xff;
        block[at] = byte === 10 ? 13 : byte;
      }
      block[at] = 10;
    }
    left -= block.length;
    yield block;
  }
}

describe("pub --lines", () => {
  it("publishes each line as a record and says how many and where", async () => {
    const broker = await TestBroker.start();
    expect(await broker.text("pub", ["--lines"], { input: "a\n\nb\r\n" })).toBe(
      "published 3 record(s), last durable offset 2\n",
    );
    expect(await broker.text("pub", ["--lines"], { input: "c\nd" })).toBe(
      "published 2 record(s), last durable offset 4, no newline at end of input\n",
    );
    expect(await broker.text("pub", ["--lines"], { input: "" })).toBe("published 0 record(s)\n");
    expect((await broker.run("sub", ["--output", "raw"])).stdout).toEqual(Buffer.from("a\n\nb\r\nc\nd\n"));
  });

  it("stores the key with each line", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["--lines", "--key", "k"], { input: "a\nb\n" });
    const lines = (await broker.text("sub")).split("\n");
    expect(lines[0]).toContain(" key=k payload=a");
    expect(lines[1]).toContain(" key=k payload=b");
  });

  it("a file comes back byte for byte, with bounded memory", async () => {
    const broker = await TestBroker.start();
    const original = join(temporaryDirectory(), "original");
    await pipeline(lineBlocks(ROUND_TRIP_BYTES), createWriteStream(original));
    const publisher = new Process(["pub", "--addr", broker.address, "--lines"]);
    let peakBytes = 0;
    const watch = setInterval(() => {
      peakBytes = Math.max(peakBytes, publisher.peakResidentBytes());
    }, 20);
    await pipeline(createReadStream(original), publisher.child.stdin!);
    clearInterval(watch);
    const published = await publisher.done;
    const summary = /^published (\d+) record\(s\), last durable offset (\d+)\n$/.exec(String(published.stdout));
    expect(published.code).toBe(0);
    expect(Number(summary?.[2])).toBe(Number(summary?.[1]) - 1);
    const back = await broker.run("sub", ["--output", "raw", "--ack", "--max", "4294967295"]);
    expect(back.stderr).toBe(`fetched ${summary?.[1]} message(s)\n`);
    expect(back.stdout.length).toBe(statSync(original).size);
    let at = 0;
    for (const block of lineBlocks(ROUND_TRIP_BYTES)) {
      expect(back.stdout.subarray(at, at + block.length).equals(block)).toBe(true);
      at += block.length;
    }
    // A runtime's own memory and a window of records: far below the file in the full run.
    expect(peakBytes).toBeGreaterThan(0);
    expect(peakBytes).toBeLessThan(160 * 1024 * 1024);
  });

  it("publishes a line of a live stream before the next one comes", async () => {
    const broker = await TestBroker.start();
    const publisher = new Process(["pub", "--addr", broker.address, "--lines"]);
    for (const line of ["one", "two"]) {
      publisher.child.stdin?.write(`${line}\n`);
      const seen = await broker.text("sub", ["--ack", "--follow", "--max", "1", "--timeout-ms", "40000"]);
      expect(seen).toContain(` payload=${line}\n`);
    }
    publisher.child.stdin?.end();
    expect(String((await publisher.done).stdout)).toBe("published 2 record(s), last durable offset 1\n");
  });

  it.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("%s: what was read is published and counted, an unfinished line is named", async (signal, code) => {
    const broker = await TestBroker.start();
    const publisher = new Process(["pub", "--addr", broker.address, "--lines"]);
    publisher.child.stdin?.write("one\ntwo\nhal");
    await broker.text("sub", ["--follow", "--max", "2", "--timeout-ms", "40000"]);
    publisher.child.kill(signal);
    const result = await publisher.done;
    expect(String(result.stdout)).toBe("published 2 record(s), last durable offset 1\n");
    expect(result.stderr).toBe(
      "interrupted: the input was read up to line 2, 3 byte(s) of an unfinished line were dropped; the rest was not read\n",
    );
    expect(result.code).toBe(code);
  });

  it("a signal while the pipe is full: what it still holds is published too", async () => {
    const broker = await TestBroker.start();
    const publisher = new Process(["pub", "--addr", broker.address, "--lines"]);
    publisher.child.stdin?.write("first\n");
    await broker.text("sub", ["--follow", "--max", "1", "--timeout-ms", "40000"]);
    // The writer is interrupted together with the command, as Ctrl-C does it: it closes the pipe.
    publisher.child.stdin?.write("held\n".repeat(5000));
    publisher.child.kill("SIGINT");
    publisher.child.stdin?.end("last");
    const result = await publisher.done;
    expect(String(result.stdout)).toBe(
      "published 5002 record(s), last durable offset 5001, no newline at end of input\n",
    );
    expect(result.stderr).toBe("");
    expect(result.code).toBe(0);
  });

  it("a second signal ends it at once", async () => {
    const broker = await TestBroker.start();
    const publisher = new Process(["pub", "--addr", broker.address, "--lines"]);
    publisher.child.stdin?.write("one\n");
    await broker.text("sub", ["--follow", "--max", "1", "--timeout-ms", "40000"]);
    publisher.child.kill("SIGINT");
    await new Promise((resolve) => setTimeout(resolve, 50));
    publisher.child.kill("SIGINT");
    const result = await publisher.done;
    expect(result.signal === "SIGINT" || result.code === 130, `${result.signal} ${result.code}`).toBe(true);
  });

  it("a line that no record holds is named; those before it are published", async () => {
    const broker = await TestBroker.start();
    const long = Buffer.concat([Buffer.from("one\ntwo\n"), Buffer.alloc(17_000_000, "x"), Buffer.from("\nnever\n")]);
    const result = await broker.run("pub", ["--lines"], { input: long });
    expect(result.code).toBe(70);
    expect(String(result.stdout)).toBe("published 2 record(s), last durable offset 1\n");
    expect(result.stderr).toMatch(/^error: line 3 is longer than \d+ bytes, the most that one record holds\n$/);
  });

  it("a broker that goes away in mid-stream: exit 5, and what is durable is said", async () => {
    const broker = await TestBroker.start();
    const publisher = new Process(["pub", "--addr", broker.address, "--lines"]);
    publisher.child.stdin?.write("one\ntwo\n");
    await broker.text("sub", ["--follow", "--max", "2", "--timeout-ms", "40000"]);
    await broker.kill();
    publisher.child.stdin?.write("three\n");
    const result = await publisher.done;
    expect(result.code).toBe(5);
    expect(String(result.stdout)).toBe("published 2 record(s), last durable offset 1\n");
    expect(result.stderr).toMatch(
      /^error: publishing to broker at .*; of \d line\(s\) read 2 are durable \(last offset 1\)(, 1 were not acknowledged)?\n$/,
    );
  });

  it("a log that froze refuses with 70 and says which line", async () => {
    const broker = await TestBroker.start();
    const publisher = new Process(["pub", "--addr", broker.address, "--lines"]);
    publisher.child.stdin?.write("one\n");
    await broker.text("sub", ["--follow", "--max", "1", "--timeout-ms", "40000"]);
    rmSync(broker.dataDir, { recursive: true });
    // The broker looks at least once a second whether its files are still there.
    const feed = setInterval(() => publisher.child.stdin?.write("more\n"), 50);
    const result = await publisher.done;
    clearInterval(feed);
    const count = Number(/^published (\d+) record/.exec(String(result.stdout))?.[1]);
    expect(result.code).toBe(70);
    expect(result.stderr).toContain(`: fatal storage error; of `);
    expect(result.stderr).toContain(
      ` read ${count} are durable (last offset ${count - 1}), line ${count + 1} was refused`,
    );
  });

  it("cli.md 1.4: with --json before the verb an interruption is a failure that says how far it came", async () => {
    const broker = await TestBroker.start();
    const publisher = new Process(["--json", "pub", "--addr", broker.address, "--lines"]);
    publisher.child.stdin?.write("one\n");
    await broker.text("sub", ["--follow", "--max", "1", "--timeout-ms", "40000"]);
    publisher.child.kill("SIGINT");
    const result = await publisher.done;
    expect(result.code).toBe(130);
    expect(JSON.parse(String(result.stdout))).toEqual({
      schema: "ironbus.cli.v1",
      ok: false,
      exit_code: 130,
      error: { kind: "interrupted", message: "interrupted: published 1 record(s), last durable offset 0" },
    });
  });
});
