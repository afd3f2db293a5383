// `bun scripts/smoke.ts <target> [--native]`: the built binary of a target does its work, under the target's emulator:
// serve, publish 100 records, kill -9, restart, take the 100 with acknowledgement; health endpoints answer.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { targetNamed } from "./build/targets.ts";
import { root, runMain, StepError, say } from "./steps.mjs";

const RECORDS = 100;
// Safety nets only: an emulated start takes seconds.
const START_MS = 120_000;
const VERB_MS = 120_000;

type Command = readonly [string, ...string[]];

/** Runs a verb to its end and gives its stdout. */
function verb([program, ...before]: Command, args: readonly string[], input = ""): string {
  const result = spawnSync(program, [...before, ...args], { input, encoding: "utf8", timeout: VERB_MS });
  if (result.status !== 0) {
    throw new StepError(`smoke: ${args.join(" ")} ended with ${result.status ?? result.signal}: ${result.stderr}`);
  }
  return result.stdout;
}

interface Started {
  readonly broker: ChildProcess;
  readonly addr: string;
  readonly healthAddr: string;
}

/** Starts a broker and gives its addresses once it listens on both. */
function serve([program, ...before]: Command, dataDir: string): Promise<Started> {
  return new Promise((resolve, reject) => {
    const args = ["serve", "--data-dir", dataDir, "--addr", "127.0.0.1:0", "--health-addr", "127.0.0.1:0"];
    const broker = spawn(program, [...before, ...args], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let errors = "";
    const deadline = setTimeout(() => broker.kill("SIGKILL"), START_MS);
    broker.stderr.on("data", (chunk) => {
      errors += chunk;
    });
    broker.stdout.on("data", (chunk) => {
      output += chunk;
      const addr = /listening on (\S+),/.exec(output)?.[1];
      const healthAddr = /health endpoints on (\S+) /.exec(output)?.[1];
      if (addr !== undefined && healthAddr !== undefined) {
        clearTimeout(deadline);
        resolve({ broker, addr, healthAddr });
      }
    });
    broker.on("error", reject);
    broker.on("exit", () => reject(new StepError(`smoke: serve ended before it listened: ${errors}`)));
  });
}

function ended(broker: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => broker.on("exit", resolve));
}

function equal(found: string, wanted: string, what: string): void {
  if (found !== wanted) {
    throw new StepError(`smoke: ${what}: expected ${JSON.stringify(wanted)}, found ${JSON.stringify(found)}`);
  }
}

async function smoke(command: Command, dataDir: string): Promise<void> {
  const version = verb(command, ["--version"]);
  if (!version.startsWith("ironbus ")) {
    throw new StepError(`smoke: --version says ${JSON.stringify(version)}`);
  }
  const payloads = Array.from({ length: RECORDS }, (_, index) => `record ${index}`);
  const first = await serve(command, dataDir);
  const published = verb(command, ["pub", "--addr", first.addr, "--lines"], `${payloads.join("\n")}\n`);
  equal(published.trim(), `published ${RECORDS} record(s), last durable offset ${RECORDS - 1}`, "pub");
  const killed = ended(first.broker);
  first.broker.kill("SIGKILL");
  await killed;

  const second = await serve(command, dataDir);
  const take = ["sub", "--addr", second.addr, "--group", "smoke", "--max", String(RECORDS), "--ack"];
  const taken = verb(command, [...take, "--output", "raw"]);
  equal(taken, `${payloads.join("\n")}\n`, "sub after kill -9");
  equal(verb(command, take).trim(), "fetched 0 message(s)", "sub when all is settled");
  const answer = async (path: string) => await (await fetch(`http://${second.healthAddr}${path}`)).text();
  equal(await answer("/readyz"), "ready", "readiness");
  const produced = /^ironbus_produced_total \d+$/m.test(await answer("/metrics"));
  equal(String(produced), "true", "the count of published records in /metrics");
  const stopped = ended(second.broker);
  second.broker.kill("SIGTERM");
  equal(String(await stopped), "0", "exit code after SIGTERM");
}

await runMain(async () => {
  const [name, how] = process.argv.slice(2);
  const target = targetNamed(name);
  const file = path.join(root, "dist", target.file);
  const [emulator, ...flags] = target.emulator.command;
  const command: Command = how === "--native" ? [file] : [emulator, ...flags, file];
  const dataDir = mkdtempSync(path.join(tmpdir(), "ironbus-smoke-"));
  try {
    await smoke(command, dataDir);
    say(`ironbus: ${target.file} works (${command.slice(0, -1).join(" ") || "this machine"})`);
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});
