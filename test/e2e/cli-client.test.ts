import { createServer } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { cleanUp, Process, run, TestBroker } from "./harness.ts";

afterEach(cleanUp);

async function closedPort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return `127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
}

const offsetsOf = (text: string) => [...text.matchAll(/^#(\d+) /gm)].map((match) => Number(match[1]));

describe("client verbs", () => {
  it("cli.md 13.11: pub prints the offset", async () => {
    const broker = await TestBroker.start();
    expect(await broker.text("pub", ["m0"])).toBe("0\n");
    expect(await broker.text("pub", ["m1"])).toBe("1\n");
  });

  it("cli.md 13.12: stdin is published as it is", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", [], { input: "a\nb" });
    await broker.text("pub", [], { input: "" });
    const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    await broker.text("pub", [], { input: bytes });
    const raw = await broker.run("sub", ["--output", "raw"]);
    expect(raw.stdout).toEqual(Buffer.concat([Buffer.from("a\nb\n\n"), bytes, Buffer.from("\n")]));
    expect(raw.stderr).toBe("fetched 3 message(s)\n");
  });

  it("cli.md 13.13 and 13.14: sub --ack settles, also beyond a kill -9", async () => {
    const broker = await TestBroker.start();
    for (const payload of ["m0", "m1", "m2"]) {
      await broker.text("pub", [payload]);
    }
    const lines = (await broker.text("sub", ["--max", "10", "--ack"])).split("\n");
    expect(lines).toEqual([
      expect.stringMatching(/^#0 gen=[1-9]\d* key= payload=m0$/),
      "  ack committed",
      expect.stringMatching(/^#1 gen=[1-9]\d* key= payload=m1$/),
      "  ack committed",
      expect.stringMatching(/^#2 gen=[1-9]\d* key= payload=m2$/),
      "  ack committed",
      "fetched 3 message(s)",
      "",
    ]);
    expect(await broker.text("sub", ["--ack"])).toBe("fetched 0 message(s)\n");
    await broker.kill();
    const again = await broker.restart();
    expect(await again.text("sub", ["--ack"])).toBe("fetched 0 message(s)\n");
    expect(await again.text("pub", ["m3"])).toBe("3\n");
  });

  it("cli.md 13.15: peek leases for the visibility timeout", async () => {
    const broker = await TestBroker.start(["--visibility-timeout-ms", "3000"]);
    await broker.text("pub", ["m"]);
    expect(await broker.text("sub")).toMatch(/^#0 gen=\d+ key= payload=m\nfetched 1 message\(s\)\n$/);
    const again = await broker.text("sub", ["--follow", "--max", "1", "--timeout-ms", "30000"]);
    expect(again).toMatch(/^#0 gen=\d+ key= payload=m\nfetched 1 message\(s\)\n$/);
  });

  it("cli.md 13.15: within the visibility timeout nothing comes", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["m"]);
    expect(offsetsOf(await broker.text("sub"))).toEqual([0]);
    expect(await broker.text("sub")).toBe("fetched 0 message(s)\n");
  });

  it("cli.md 13.16: nack and term, and what does not go together", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["m"]);
    expect(await broker.text("sub", ["--nack", "--delay-ms", "1"])).toContain(
      "\n  nack requeued\nfetched 1 message(s)\n",
    );
    const term = await broker.text("sub", ["--term", "--follow", "--max", "1", "--timeout-ms", "30000"]);
    expect(term).toContain("\n  term dropped\nfetched 1 message(s)\n");
    expect(await broker.text("sub")).toBe("fetched 0 message(s)\n");
    for (const args of [
      ["--ack", "--nack"],
      ["--nack", "--term"],
      ["--ack", "--term"],
    ]) {
      const result = await broker.run("sub", args);
      expect(result.code).toBe(1);
      expect(result.stderr).toContain("sub takes at most one of `--ack`, `--nack`, `--term`");
    }
    for (const args of [
      ["--delay-ms", "1"],
      ["--ack", "--delay-ms", "1"],
    ]) {
      const result = await broker.run("sub", args);
      expect(result.code).toBe(1);
      expect(result.stderr).toContain("`--delay-ms` is only valid with `--nack`");
    }
  });

  it("cli.md 13.17: --max 5000 --ack drains 5000 messages in one run", async () => {
    const broker = await TestBroker.start();
    const input = Array.from({ length: 5000 }, (_, index) => `m${index}\n`).join("");
    await broker.text("pub", ["--lines"], { input });
    const text = await broker.text("sub", ["--max", "5000", "--ack"]);
    expect(offsetsOf(text)).toEqual(Array.from({ length: 5000 }, (_, index) => index));
    expect(text.endsWith("fetched 5000 message(s)\n")).toBe(true);
  });

  it("cli.md 13.18: a key", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["--key", "k", "v"]);
    expect(await broker.text("sub")).toContain(" key=k payload=v\n");
  });

  it("cli.md 13.19: a closed port", async () => {
    const address = await closedPort();
    for (const [args, input] of [
      [["pub", "--addr", address, "x"], ""],
      [["pub", "--addr", address, "--lines"], "x\n"],
      [["sub", "--addr", address], ""],
    ] as const) {
      const result = await run(args, { input });
      expect(result.code).toBe(5);
      expect(result.stderr).toMatch(new RegExp(`^error: connecting to broker at ${address}: .+ECONNREFUSED`));
      expect(result.stdout.length).toBe(0);
    }
  });

  it("cli.md 13.24: client verbs read no environment", async () => {
    const broker = await TestBroker.start();
    expect(await broker.text("pub", ["x"], { environment: { IRONBUS_ADDR: "nonsense" } })).toBe("0\n");
  });

  it("groups consume independently; a bad group name is the user's error", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["m"]);
    expect(offsetsOf(await broker.text("sub", ["--group", "orders", "--ack"]))).toEqual([0]);
    expect(offsetsOf(await broker.text("sub", ["--group", "billing", "--ack"]))).toEqual([0]);
    expect(offsetsOf(await broker.text("sub", ["--ack"]))).toEqual([0]);
    expect((await broker.run("sub", ["--group", "x".repeat(129)])).code).toBe(1);
  });

  it("--max 0 takes nothing", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["m"]);
    expect(await broker.text("sub", ["--max", "0", "--ack"])).toBe("fetched 0 message(s)\n");
    expect(offsetsOf(await broker.text("sub"))).toEqual([0]);
  });

  it("shows invalid UTF-8 as U+FFFD and control bytes as they are", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", [], { input: Uint8Array.of(0x61, 0xff, 0x09, 0x62) });
    expect(await broker.text("sub")).toContain("payload=a\uFFFD\tb\n");
  });

  it("a payload that no frame holds is refused without being read whole", async () => {
    const broker = await TestBroker.start();
    const endless = new Process(["pub", "--addr", broker.address]);
    const block = Buffer.alloc(1024 * 1024);
    const feed = () => endless.child.stdin?.write(block, (error) => error ?? feed());
    feed();
    const result = await endless.done;
    expect(result.code).toBe(70);
    expect(result.stderr).toMatch(/^error: publishing to broker at .*: the payload is longer than \d+ bytes/);
    expect(await broker.text("sub")).toBe("fetched 0 message(s)\n");
  });

  it("cli.md 13.83: --follow prints what comes later, and a signal ends it with exit code 0", async () => {
    const broker = await TestBroker.start();
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      const follower = new Process(["sub", "--addr", broker.address, "--follow", "--ack"]);
      await new Promise((resolve) => setTimeout(resolve, 300));
      await broker.text("pub", [`later ${signal}`]);
      await follower.until(({ stdout }) => stdout.includes("ack committed\n") || stdout.includes("payload"));
      follower.child.kill(signal);
      const result = await follower.done;
      expect(result.code).toBe(0);
      expect(String(result.stdout)).toMatch(
        new RegExp(`^#\\d+ gen=\\d+ key= payload=later ${signal}\n {2}ack committed\nfetched 1 message\\(s\\)\n$`),
      );
    }
    expect(await broker.text("sub")).toBe("fetched 0 message(s)\n");
  });

  it("--follow ends after --timeout-ms without a message, and when the broker goes away", async () => {
    const broker = await TestBroker.start();
    expect(await broker.text("sub", ["--follow", "--timeout-ms", "50"])).toBe("fetched 0 message(s)\n");
    const follower = new Process(["sub", "--addr", broker.address, "--follow", "--ack"]);
    await broker.text("pub", ["m"]);
    await follower.until(({ stdout }) => stdout.includes("ack committed"));
    await broker.kill();
    const result = await follower.done;
    expect(result.code).toBe(5);
    expect(result.stderr).toMatch(/^error: fetching from broker at /);
  });

  it("ruling 14: when the reader goes away, what was written is settled and the rest comes again", async () => {
    const broker = await TestBroker.start(["--visibility-timeout-ms", "2000"]);
    const count = 200;
    const wide = "x".repeat(10_000);
    const input = Array.from({ length: count }, (_, index) => `${index} ${wide}\n`).join("");
    await broker.text("pub", ["--lines"], { input });
    const reader = new Process(["sub", "--addr", broker.address, "--ack", "--max", String(count)]);
    await reader.until(({ stdout }) => stdout.length > 0);
    reader.child.stdout?.destroy();
    const cut = await reader.done;
    expect(cut.code).toBe(0);
    expect(cut.stderr).toBe("");
    const printed = offsetsOf(String(cut.stdout));
    const rest = offsetsOf(
      await broker.text("sub", ["--ack", "--follow", "--max", String(count), "--timeout-ms", "6000"]),
    );
    // What was settled is a prefix of the log: at least what came out, at most what the broken pipe still held.
    const sorted = rest.sort((a, b) => a - b);
    const settled = count - rest.length;
    expect(rest.length).toBeGreaterThan(0);
    expect(settled).toBeGreaterThanOrEqual(printed.length - 1);
    expect(sorted).toEqual(Array.from({ length: rest.length }, (_, index) => settled + index));
  });

  it("a signal never loses a printed offset: what was printed is settled, the rest comes again", async () => {
    for (const [signal, code] of [
      ["SIGINT", 130],
      ["SIGTERM", 143],
    ] as const) {
      const broker = await TestBroker.start(["--visibility-timeout-ms", "1000"]);
      const count = 3000;
      await broker.text("pub", ["--lines"], { input: "m\n".repeat(count) });
      const consumer = new Process(["sub", "--addr", broker.address, "--ack", "--max", String(count)]);
      await consumer.until(({ stdout }) => stdout.includes("#20 "));
      consumer.child.kill(signal);
      const result = await consumer.done;
      const text = String(result.stdout);
      const printed = offsetsOf(text);
      expect(text.endsWith(`\n  ack committed\nfetched ${printed.length} message(s)\n`)).toBe(true);
      const finished = printed.length === count;
      expect(result.code).toBe(finished ? 0 : code);
      const rest = offsetsOf(
        await broker.text("sub", ["--ack", "--follow", "--max", String(count), "--timeout-ms", "3000"]),
      );
      expect([...printed, ...rest].sort((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, index) => index));
    }
  });
});
