import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { connect } from "../../src/client/index.ts";
import { findNode } from "../support/real-node.ts";
import { until } from "./fake-broker.ts";
import { RealBroker } from "./real-broker.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const bun = join(root, "node_modules/.bin/bun");
const compiled = mkdtempSync(join(tmpdir(), "ironbus-examples-"));

let broker: RealBroker;

beforeAll(async () => {
  // The examples import the package by its name, hence its built form.
  if (!existsSync(join(root, "dist/client/client/index.js"))) await run("npm", ["run", "build:client"], { cwd: root });
  for (const name of ["host-telemetry", "worker"]) {
    const outfile = join(compiled, `${name}.mjs`);
    await run(bun, ["build", `examples/${name}.ts`, "--target=node", `--outfile=${outfile}`], { cwd: root });
  }
});

afterAll(() => rmSync(compiled, { recursive: true, force: true }));

beforeEach(async () => {
  broker = await RealBroker.start();
});

afterEach(() => broker[Symbol.asyncDispose]());

describe.each(["bun", "node"])("the examples under %s", (runtime) => {
  function start(
    name: string,
    ...args: string[]
  ): { child: ChildProcess; output: () => string; exit: Promise<number> } {
    const [command, file] =
      runtime === "bun" ? [bun, join(root, "examples", `${name}.ts`)] : [findNode(), join(compiled, `${name}.mjs`)];
    const child = spawn(command, [file, "--addr", `127.0.0.1:${broker.port}`, ...args], { cwd: root });
    let text = "";
    child.stdout.on("data", (chunk) => {
      text += chunk;
    });
    child.stderr.on("data", (chunk) => {
      text += chunk;
    });
    const exit = new Promise<number>((resolve) => child.on("close", (code) => resolve(code ?? -1)));
    return { child, output: () => text, exit };
  }

  it("host-telemetry publishes this host's samples, worker finishes each of them once", async () => {
    const telemetry = start("host-telemetry", "--count", "5", "--every-ms", "1");
    expect(await telemetry.exit, telemetry.output()).toBe(0);
    expect(telemetry.output()).toContain("published 5 sample(s)\n");
    await using client = await connect({ port: broker.port });
    await client.subscribe("reader");
    const { messages } = await client.fetch();
    expect(messages.map((message) => message.offset)).toEqual([0, 1, 2, 3, 4]);
    for (const message of messages) {
      expect(Buffer.from(message.key).toString()).toBe(hostname());
      expect(Object.keys(JSON.parse(message.text()))).toEqual(["load1", "usedBytes", "totalBytes", "uptimeS"]);
    }
    const worker = start("worker", "--max", "5", "--fail-rate", "0");
    expect(await worker.exit, worker.output()).toBe(0);
    const done = [...worker.output().matchAll(/^#(\d+) done/gm)].map((match) => Number(match[1]));
    expect(done.toSorted()).toEqual([0, 1, 2, 3, 4]);
    await client.subscribe("workers");
    expect((await client.fetch()).messages).toEqual([]);
  });

  it("worker tries again and gives up after its attempts", async () => {
    await using client = await connect({ port: broker.port });
    await client.produceAll(["a", "b"]);
    const worker = start("worker", "--max", "2", "--fail-rate", "1", "--attempts", "3");
    expect(await worker.exit, worker.output()).toBe(0);
    expect(worker.output().match(/failed/g)?.length).toBe(4);
    expect(worker.output().match(/dropped after 3 attempts/g)?.length).toBe(2);
    expect(worker.output()).toContain("finished 2 message(s)\n");
  });

  it("worker stops on SIGINT, waits out a broker that is away", async () => {
    await using client = await connect({ port: broker.port });
    const worker = start("worker", "--fail-rate", "0");
    await client.produce("a");
    await until(() => worker.output().includes("done: a"), "the first message");
    await broker.stop();
    await until(() => worker.output().includes("waiting for the broker"), "the lost connection");
    await broker.resume();
    await client.reconnect();
    await client.produce("b");
    await until(() => worker.output().includes("done: b"), "the second message");
    worker.child.kill("SIGINT");
    expect(await worker.exit, worker.output()).toBe(0);
    expect(worker.output()).toContain("finished 2 message(s)\n");
  });

  it("host-telemetry stops on SIGINT, waits out a broker that is away", async () => {
    const telemetry = start("host-telemetry", "--every-ms", "20");
    await until(() => telemetry.output().includes("#1 "), "two samples");
    await broker.stop();
    await until(() => telemetry.output().includes("waiting for the broker"), "the lost connection");
    await broker.resume();
    const waitingAt = telemetry.output().lastIndexOf("waiting");
    await until(() => telemetry.output().indexOf("\n#", waitingAt) > 0, "a sample after it");
    telemetry.child.kill("SIGINT");
    expect(await telemetry.exit, telemetry.output()).toBe(0);
    expect(telemetry.output()).toMatch(/published \d+ sample\(s\)\n$/);
  });

  it.each(["host-telemetry", "worker"])("%s stops on SIGINT while the broker is away", async (name) => {
    const program = start(name);
    await using client = await connect({ port: broker.port });
    if (name === "worker") await client.produce("a");
    await until(() => program.output().includes("#0 "), "a sign of life");
    await broker.stop();
    await until(() => program.output().includes("waiting for the broker"), "the lost connection");
    program.child.kill("SIGINT");
    expect(await program.exit, program.output()).toBe(0);
    expect(program.output()).toMatch(/(published|finished) \d+ (sample|message)\(s\)\n$/);
    await broker.resume();
  });

  it.each(["host-telemetry", "worker"])("%s says in one line what is wrong, and fails", async (name) => {
    const most = name === "worker" ? "--max" : "--count";
    await broker.stop();
    for (const [args, message] of [
      [["--adr", "x"], "Unknown option '--adr'"],
      [["--addr", "a:b:c"], 'not a host:port address: "a:b:c"'],
      [[most, "abc"], `${most} needs a number from 1 to Infinity, got "abc"`],
      [[most, ""], `${most} needs a number from 1 to Infinity, got ""`],
      [[], `cannot connect to 127.0.0.1:${broker.port}: `],
    ] as const) {
      const program = start(name, ...args);
      expect(await program.exit, program.output()).toBe(1);
      expect(program.output().split("\n")).toEqual([expect.stringContaining(`${name}: ${message}`), ""]);
    }
    await broker.resume();
  });
});
