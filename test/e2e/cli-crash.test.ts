import { afterEach, describe, expect, it } from "vitest";
import { cleanUp, FULL, Process, run, TestBroker } from "./harness.ts";

afterEach(cleanUp);

const ROUNDS = FULL ? 20 : 4;
const pause = (delayMs: number) => new Promise((resolve) => setTimeout(resolve, delayMs));

/** Everything in the log as a group of its own sees it. */
async function records(broker: TestBroker, group: string): Promise<{ offsets: number[]; payloads: string[] }> {
  const text = await broker.text("sub", ["--group", group, "--ack", "--max", "4294967295"]);
  const found = [...text.matchAll(/^#(\d+) gen=\d+ key= payload=(.*)$/gm)];
  return { offsets: found.map((match) => Number(match[1])), payloads: found.map((match) => match[2]) };
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);

describe("kill -9 at any moment", () => {
  it("every offset printed by pub is there after the restart, in order, once", async () => {
    let broker = await TestBroker.start(["--max-segment-bytes", "4096"]);
    const printed = new Map<number, string>();
    for (let round = 0; round < ROUNDS; round++) {
      const current = broker;
      let running = true;
      const writer = async (name: string) => {
        for (let index = 0; running; index++) {
          const payload = `${round}/${name}/${index} ${"x".repeat(500)}`;
          const result = await current.run("pub", [payload]);
          if (result.code === 0) {
            const offset = Number(String(result.stdout));
            expect(printed.has(offset), `offset ${offset} twice`).toBe(false);
            printed.set(offset, payload);
          } else {
            expect(result.code).toBe(5);
            expect(result.stdout.length).toBe(0);
          }
        }
      };
      const writers = [writer("a"), writer("b")];
      // At any moment, but never before there is something to lose.
      for (const enough = printed.size + 3 + round; printed.size < enough; ) {
        await pause(10);
      }
      await pause((37 * round) % 100);
      await current.kill();
      running = false;
      await Promise.all(writers);
      broker = await current.restart(["--max-segment-bytes", "4096"]);
      const { offsets, payloads } = await records(broker, `check-${round}`);
      expect(offsets).toEqual(upTo(offsets.length));
      for (const [offset, payload] of printed) {
        expect(payloads[offset]).toBe(payload);
      }
    }
  });

  it("every record counted by pub --lines is there after the restart, in order, once", async () => {
    let broker = await TestBroker.start(["--max-segment-bytes", "1000000"]);
    let expected: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const publisher = new Process(["pub", "--addr", broker.address, "--lines"]);
      let line = 0;
      let feeding = true;
      const feed = () => {
        if (feeding) {
          const block = Array.from({ length: 200 }, () => `${round}:${line++}\n`).join("");
          publisher.child.stdin?.write(block, (error) => error ?? setTimeout(feed, 2));
        }
      };
      feed();
      await pause(600 + 91 * round);
      await broker.kill();
      const result = await publisher.done;
      feeding = false;
      expect(result.code, result.stderr).toBe(5);
      // Nothing is counted when the broker was gone before the connection was made.
      const count = Number(/^published (\d+) record/.exec(String(result.stdout))?.[1] ?? 0);
      broker = await broker.restart(["--max-segment-bytes", "1000000"]);
      const raw = await broker.text("sub", [
        "--group",
        `check-${round}`,
        "--ack",
        "--output",
        "raw",
        "--max",
        "4294967295",
      ]);
      const payloads = raw.split("\n").slice(0, -1);
      expect(expected.every((payload, offset) => payloads[offset] === payload)).toBe(true);
      const fresh = payloads.slice(expected.length);
      expect(fresh.length).toBeGreaterThanOrEqual(count);
      // What was not acknowledged may have been stored, but nothing twice and nothing out of order.
      expect(fresh.every((payload, index) => payload === `${round}:${index}`)).toBe(true);
      expect(fresh.length).toBeLessThanOrEqual(line);
      expected = payloads;
    }
    expect(expected.length).toBeGreaterThan(ROUNDS);
    await broker.stop();
    const dump = String((await run(["dump", "--data-dir", broker.dataDir])).stdout);
    const offsets = [...dump.matchAll(/^offset=(\d+) /gm)].map((match) => Number(match[1]));
    expect(offsets.length).toBe(expected.length);
    expect(offsets.every((offset, index) => offset === index)).toBe(true);
  });

  it("consumers resume: a crash may deliver again, it never skips", async () => {
    let broker = await TestBroker.start();
    const count = 2000;
    await broker.text("pub", ["--lines"], {
      input: upTo(count)
        .map((index) => `m${index}\n`)
        .join(""),
    });
    const committed = new Set<number>();
    for (let round = 0; round < ROUNDS; round++) {
      const consumer = new Process(["sub", "--addr", broker.address, "--ack", "--max", "300"]);
      await consumer.until(({ stdout }) => String(stdout).split("ack committed\n").length > 40 + round * 30);
      await broker.kill();
      const text = String((await consumer.done).stdout);
      const first = Number(/^#(\d+) /.exec(text)?.[1]);
      expect(upTo(first).every((offset) => committed.has(offset))).toBe(true);
      for (const match of text.matchAll(/^#(\d+) .*\n {2}ack committed\n/gm)) {
        committed.add(Number(match[1]));
      }
      broker = await broker.restart();
    }
    const rest = await records(broker, "");
    expect(rest.offsets).toEqual(upTo(count).slice(-rest.offsets.length));
    expect(upTo(rest.offsets[0]).every((offset) => committed.has(offset))).toBe(true);
    expect(rest.payloads).toEqual(rest.offsets.map((offset) => `m${offset}`));
    expect(await broker.text("sub", ["--ack"])).toBe("fetched 0 message(s)\n");
  });

  it("a directory that was killed can be dumped as it lies", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["--lines"], { input: "m\n".repeat(100) });
    await broker.kill();
    const dump = await run(["dump", "--data-dir", broker.dataDir]);
    expect(dump.code).toBe(0);
    expect(String(dump.stdout).match(/^offset=/gm)?.length).toBe(100);
  });
});
