import { readdirSync, readFileSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { connect } from "../../src/client/index.ts";
import { cleanUp, Process, run, temporaryDirectory } from "./harness.ts";

afterEach(cleanUp);

const CONSENT = ["--storage", "memory", "--ephemeral-loss-ack"];
const LISTENING = /^ironbus listening on ([^,]+), storage memory \(ephemeral\)$/m;

async function start(flags: readonly string[] = [], cwd?: string): Promise<{ process: Process; address: string }> {
  const all = ["serve", "--addr", "127.0.0.1:0", ...CONSENT, "--max-total-bytes", "1000000", ...flags];
  const process = new Process(all, { cwd });
  await process.until(({ stdout }) => LISTENING.test(String(stdout)));
  return { process, address: String(LISTENING.exec(String(process.stdout))?.[1]) };
}

async function text(address: string, verb: string, args: readonly string[]): Promise<string> {
  const result = await run([verb, "--addr", address, ...args]);
  expect(result.code, result.stderr).toBe(0);
  return String(result.stdout);
}

async function stop(process: Process): Promise<void> {
  process.child.kill("SIGTERM");
  expect((await process.done).code).toBe(0);
}

describe("serve --storage memory", () => {
  it("cli.md 13.35, config.md 19.60: consent, a bound and no directory, from whatever layer", async () => {
    const refused = async (flags: readonly string[], environment: Record<string, string> = {}) => {
      const result = await run(["serve", "--addr", "127.0.0.1:0", ...flags], { environment });
      expect(result.code, result.stderr).toBe(1);
      expect(result.stdout.length).toBe(0);
      return result.stderr;
    };
    const unconsented = await refused(["--storage", "memory", "--max-total-bytes", "1000", "--async-loss-ack"]);
    expect(unconsented).toContain("refusing to start with `--storage memory`");
    expect(unconsented).toContain("EVERY acknowledged message");
    expect(unconsented).toContain("`--async-loss-ack` does NOT cover this");
    expect(await refused(CONSENT)).toContain("`--storage memory` requires an explicit `--max-total-bytes` above 0");
    const environment = { IRONBUS_DATA_DIR: "/some/dir" };
    for (const directory of [
      await refused([...CONSENT, "--max-total-bytes", "1000", "--data-dir", "/some/dir"]),
      await refused([...CONSENT, "--max-total-bytes", "1000"], environment),
    ]) {
      expect(directory).toContain("`--storage memory` keeps NO on-disk state");
      expect(directory).toContain("`--data-dir`");
      expect(directory).toContain("/some/dir");
      expect(directory).toContain("`IRONBUS_DATA_DIR`");
    }
    expect(await refused([], { IRONBUS_STORAGE: "memory" })).toContain("refusing to start with `--storage memory`");
  });

  it("cli.md 13.35, config.md 19.61: says what it is, leaves no file, is empty after a restart", async () => {
    const cwd = temporaryDirectory();
    const first = await start([], cwd);
    await first.process.until(({ stderr }) => stderr.includes("materialized-config"));
    expect(String(first.process.stdout).split("\n")[1]).toMatch(/^WARN: --storage memory: this broker is EPHEMERAL\. /);
    expect(first.process.stderr).toMatch(/ data_dir=none .* storage=memory /);
    expect(await text(first.address, "pub", ["a"])).toBe("0\n");
    expect(await text(first.address, "pub", ["b"])).toBe("1\n");
    expect(await text(first.address, "sub", ["--ack"])).toContain(" payload=a\n");
    await stop(first.process);
    const second = await start([], cwd);
    expect(await text(second.address, "pub", ["c"])).toBe("0\n");
    await stop(second.process);
    expect(readdirSync(cwd)).toEqual([]);
  });

  it("config.md 12: the cap bounds it, oldest first if so wanted", async () => {
    const { process, address } = await start(["--max-total-bytes", "300", "--compression", "none"]);
    expect(await text(address, "pub", ["x".repeat(300)])).toBe("0\n");
    const refused = await run(["pub", "--addr", address, "y"]);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain("at capacity");
    await stop(process);
    const options = ["--max-total-bytes", "20000", "--max-segment-bytes", "4096", "--disk-full-policy", "drop-oldest"];
    const dropping = await start([...options, "--compression", "none"]);
    for (let index = 0; index < 30; index++) {
      expect(await text(dropping.address, "pub", ["x".repeat(2000)])).toBe(`${index}\n`);
    }
    await stop(dropping.process);
  });

  it("config.md 12: a removed segment gives its memory back, and none is taken ahead", async () => {
    const MIB = 1024 * 1024;
    const options = ["--max-total-bytes", String(16 * MIB), "--max-segment-bytes", String(4 * MIB)];
    const { process, address } = await start([
      ...options,
      "--disk-full-policy",
      "drop-oldest",
      "--compression",
      "none",
    ]);
    const anonymousBytes = () => {
      const status = readFileSync(`/proc/${process.child.pid}/status`, "utf8");
      return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
    };
    const idleBytes = anonymousBytes();
    const client = await connect(address);
    const records = Array.from({ length: 256 }, () => ({ payload: new Uint8Array(4096).fill(1) }));
    let most = 0;
    await client.produceAll(
      (async function* () {
        for (let mebibytes = 0; mebibytes < 256; mebibytes++) {
          yield records;
          most = Math.max(most, anonymousBytes());
        }
      })(),
    );
    await client.close();
    // 256 MiB went through. The cap, and what a broker under load takes besides.
    expect(most - idleBytes).toBeLessThan((16 + 96) * MIB);
    await stop(process);
    // A segment of 1 GiB is reserved in name only.
    const huge = await start(["--max-total-bytes", String(2048 * MIB), "--max-segment-bytes", String(1024 * MIB)]);
    expect(await text(huge.address, "pub", ["m"])).toBe("0\n");
    expect(huge.process.peakResidentBytes()).toBeLessThan(512 * MIB);
    await stop(huge.process);
  });

  it("level and triggers are checked as on a disk", async () => {
    const flags = ["serve", "--addr", "127.0.0.1:0", ...CONSENT, "--max-total-bytes", "1000"];
    const result = await run([...flags, "--durability-level", "async"]);
    expect(result.code).toBe(1);
    expect(result.stderr).toContain("refusing to start with `--durability-level async`");
  });
});
