import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { MATERIALIZED_FIELDS } from "../../src/config/materialized.ts";
import { COMMAND, cleanUp, Process, run, TestBroker, temporaryDirectory } from "./harness.ts";

afterEach(cleanUp);

const freshDirectory = () => join(temporaryDirectory(), "deep", "data");

/** Runs `serve` with a configuration that must be refused, and checks that it left nothing behind. */
async function refused(flags: readonly string[], environment: Record<string, string> = {}, code = 1): Promise<string> {
  const dataDir = freshDirectory();
  const result = await run(["serve", "--data-dir", dataDir, "--addr", "127.0.0.1:0", ...flags], { environment });
  expect(result.code, result.stderr).toBe(code);
  expect(result.stdout.length).toBe(0);
  expect(existsSync(dataDir)).toBe(false);
  return result.stderr;
}

function materialized(stderr: string): Record<string, string> {
  const lines = stderr.split("\n").filter((line) => line.startsWith("materialized-config "));
  expect(lines.length).toBe(1);
  return Object.fromEntries(
    lines[0]
      .split(" ")
      .slice(1)
      .map((field) => field.split("=") as [string, string]),
  );
}

describe("serve", () => {
  it("cli.md 13.26: the listening line comes first and the port accepts connections", async () => {
    const dataDir = freshDirectory();
    const broker = await TestBroker.start([], dataDir);
    expect(String(broker.process.stdout)).toMatch(/^ironbus listening on 127\.0\.0\.1:\d+, data dir /);
    expect(String(broker.process.stdout)).toBe(`ironbus listening on ${broker.address}, data dir ${dataDir}\n`);
    const [host, port] = broker.address.split(":");
    await new Promise<void>((resolve, reject) => {
      const socket = connect(Number(port), host, () => {
        socket.destroy();
        resolve();
      });
      socket.on("error", reject);
    });
  });

  it("cli.md 13.28: one materialized-config line with all keys in order", async () => {
    const broker = await TestBroker.start();
    await broker.process.until(({ stderr }) => stderr.includes("\n"));
    const fields = materialized(broker.process.stderr);
    expect(Object.keys(fields)).toEqual(MATERIALIZED_FIELDS);
    expect(fields).toMatchObject({
      consumer_credit: "2048",
      max_segment_bytes: "67108864",
      checkpoint_interval: "1",
      durability_level: "sync",
      power_loss_safe: "true",
      data_dir: broker.dataDir,
    });
  });

  it("cli.md 13.29: a closed stdout and stderr stop nothing", async () => {
    const broker = await TestBroker.start();
    broker.process.child.stdout?.destroy();
    broker.process.child.stderr?.destroy();
    broker.process.child.kill("SIGHUP");
    expect(await broker.text("pub", ["m"])).toBe("0\n");
    expect(await broker.text("sub", ["--ack"])).toContain("fetched 1 message(s)");
    expect((await broker.stop()).code).toBe(0);
  });

  it("cli.md 13.31: a flag beats a variable, a variable the profile", async () => {
    const environment = { IRONBUS_MAX_SEGMENT_BYTES: "33554432", IRONBUS_PROFILE: "edge-tiny" };
    const start = async (flags: string[], env: Record<string, string>) => {
      const broker = await TestBroker.start(flags, undefined, { environment: env });
      await broker.process.until(({ stderr }) => stderr.includes("\n"));
      return materialized(broker.process.stderr).max_segment_bytes;
    };
    expect(await start(["--max-segment-bytes", "16777216"], environment)).toBe("16777216");
    expect(await start([], environment)).toBe("33554432");
    expect(await start([], { IRONBUS_PROFILE: "edge-tiny" })).toBe("8388608");
    expect(await refused([], { IRONBUS_MAX_SEGMENT_BYTES: "1k" })).toContain(
      "`IRONBUS_MAX_SEGMENT_BYTES` needs a number",
    );
  });

  it("cli.md 13.33: each bad value is refused before anything is made", async () => {
    expect(await refused(["--max-connections", "0"])).toContain("`--max-connections` must be at least 1");
    expect(await refused(["--max-segment-bytes", "4095"])).toContain("`--max-segment-bytes` must be at least 4096");
    expect(await refused(["--visibility-timeout-ms", "0"])).toContain("must be at least 1");
    expect(await refused(["--profile", "edgy"])).toContain(
      "`--profile` must be `edge-tiny`, `balanced`, or `throughput`",
    );
    expect(await refused(["--config", "x"])).toContain("unknown flag `--config` for serve");
    expect(await refused(["x"])).toContain("serve takes no positional arguments, got `x`");
    expect(await refused(["--profile", "edge-tiny", "--max-connections", "5000"])).toContain("--ram-ceiling-bytes");
    expect((await run(["serve"])).stderr).toContain("serve requires `--data-dir <dir>`");
  });

  it("cli.md 13.34: relaxed durability needs consent and says so", async () => {
    expect(await refused(["--durability-level", "async"])).toContain(
      "refusing to start with `--durability-level async`",
    );
    expect(
      await refused(["--durability-level", "interval", "--flush-interval-ms", "0", "--flush-max-bytes", "0"]),
    ).toContain("needs at least one positive flush trigger");
    const broker = await TestBroker.start(["--durability-level", "async", "--async-loss-ack"]);
    const second =
      "WARN: --durability-level async: I2 (ack-implies-durable) is WAIVED; this broker is NOT power-loss safe";
    await broker.process.until(({ stdout }) => stdout.includes(second));
    expect(String(broker.process.stdout).split("\n")[1].startsWith(second)).toBe(true);
    expect(await broker.text("pub", ["m"])).toBe("0\n");
  });

  it("cli.md 13.36: an address beyond this machine is refused", async () => {
    for (const address of ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"]) {
      expect(await refused(["--addr", address])).toContain(`refusing to bind \`--addr\` ${address}`);
    }
  });

  it("cli.md 13.39: a locked directory, a file, a missing one", async () => {
    const broker = await TestBroker.start([], freshDirectory());
    expect(statSync(broker.dataDir).mode & 0o777).toBe(0o700);
    const second = await run(["serve", "--data-dir", broker.dataDir, "--addr", "127.0.0.1:0"]);
    expect(second.code).toBe(70);
    expect(second.stderr).toContain(
      `error: another ironbus broker is already running on ${broker.dataDir} (its data dir is locked)\n`,
    );
    const file = join(temporaryDirectory(), "file");
    writeFileSync(file, "");
    const onFile = await run(["serve", "--data-dir", file, "--addr", "127.0.0.1:0"]);
    expect(onFile.code).toBe(1);
    expect(onFile.stderr).toContain(`data dir ${file} exists but is not a directory`);
  });

  it("cli.md 13.39: a directory that cannot be written", async () => {
    // Permissions do not bind root, but nothing can be made below /proc.
    const result = await run(["serve", "--data-dir", "/proc/self", "--addr", "127.0.0.1:0"]);
    expect(result.code).toBe(70);
    expect(result.stderr).toContain("data dir /proc/self is not writable");
  });

  it("a port in use is 70 and releases the directory", async () => {
    const broker = await TestBroker.start();
    const dataDir = freshDirectory();
    const result = await run(["serve", "--data-dir", dataDir, "--addr", broker.address]);
    expect(result.code).toBe(70);
    expect(result.stderr).toContain(
      `error: cannot bind ${broker.address}: the address is in use by another program (choose another with --addr)\n`,
    );
    expect(result.stdout.length).toBe(0);
    await TestBroker.start([], dataDir);
  });

  it("cli.md 13.40: --check-only checks the same and starts nothing", async () => {
    const dataDir = freshDirectory();
    const ok = await run(["serve", "--check-only", "--data-dir", dataDir]);
    expect(ok.code).toBe(0);
    expect(String(ok.stdout)).toBe("ok: serve config is valid (--check-only; broker not started)\n");
    expect(existsSync(dataDir)).toBe(false);
    const flags = ["serve", "--data-dir", dataDir, "--max-in-flight", "0"];
    const [checked, started] = await Promise.all([run([...flags, "--check-only"]), run(flags)]);
    expect(checked.code).toBe(1);
    expect(checked.stderr).toBe(started.stderr);
  });

  it("cli.md 13.41: SIGTERM and SIGINT stop with 0, records and cursors survive", async () => {
    let broker = await TestBroker.start(["--checkpoint-interval", "1000"]);
    for (const [index, signal] of (["SIGTERM", "SIGINT"] as const).entries()) {
      expect(await broker.text("pub", ["m"])).toBe(`${index}\n`);
      expect(await broker.text("sub", ["--ack"])).toContain("fetched 1 message(s)");
      const result = await broker.stop(signal);
      expect(result.code).toBe(0);
      expect(result.stderr).not.toContain("WARN");
      broker = await broker.restart(["--checkpoint-interval", "1000"]);
      expect(await broker.text("sub", ["--ack"])).toBe("fetched 0 message(s)\n");
    }
  });

  it("a second signal, as wrappers send it, does not cut the drain short", async () => {
    const broker = await TestBroker.start();
    const consumer = new Process(["sub", "--addr", broker.address, "--follow", "--ack"]);
    await broker.text("pub", ["m"]);
    await consumer.until(({ stdout }) => stdout.includes("ack committed"));
    broker.process.child.kill("SIGINT");
    broker.process.child.kill("SIGINT");
    broker.process.child.kill("SIGTERM");
    expect((await broker.process.done).code).toBe(0);
    const again = await broker.restart();
    expect(await again.text("sub")).toBe("fetched 0 message(s)\n");
  });

  it("cli.md 13.42: SIGHUP changes nothing and says so", async () => {
    const broker = await TestBroker.start();
    broker.process.child.kill("SIGHUP");
    await broker.process.until(({ stderr }) => stderr.includes("SIGHUP"));
    expect(broker.process.stderr).toMatch(/^SIGHUP: no --config file is set; .*$/m);
    expect(await broker.text("pub", ["m"])).toBe("0\n");
  });

  // Bun itself reads .env files when it runs sources; what is built must not.
  it.skipIf(COMMAND.some((part) => part.endsWith(".ts")))(
    "config.md 19.11: a .env file in the working directory changes nothing",
    async () => {
      const cwd = temporaryDirectory();
      writeFileSync(join(cwd, ".env"), "IRONBUS_MAX_CONNECTIONS=nonsense\nIRONBUS_ADDR=nonsense\n");
      expect((await run(["serve", "--check-only", "--data-dir", "d"], { cwd })).code).toBe(0);
    },
  );

  it("a relative data directory with a blank in its name works", async () => {
    const cwd = temporaryDirectory();
    mkdirSync(join(cwd, "my data"));
    const broker = await TestBroker.start([], "my data/log", { cwd });
    expect(await broker.text("pub", ["m"])).toBe("0\n");
    await broker.stop();
    expect(existsSync(join(cwd, "my data", "log", "layout.meta"))).toBe(true);
  });

  it("cli.md 1.4: with --json before serve the start-up lines go to stderr and the envelope comes at the end", async () => {
    const process = new Process(["--json", "serve", "--data-dir", freshDirectory(), "--addr", "127.0.0.1:0"]);
    await process.until(({ stderr }) => stderr.includes("ironbus listening on "));
    expect(process.stdout.length).toBe(0);
    process.child.kill("SIGTERM");
    const result = await process.done;
    expect(result.code).toBe(0);
    expect(JSON.parse(String(result.stdout)).data.lines).toEqual([expect.stringMatching(/^ironbus listening on /)]);
  });

  it("a frozen log is said on stderr, refuses publishes, serves reads, and ends the broker with 70", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["m0"]);
    rmSync(broker.dataDir, { recursive: true });
    // Ruling 12: an ack may not rely on a file that is gone; it is noticed within a second.
    let refusal = await broker.run("pub", ["m1"]);
    while (refusal.code === 0) {
      refusal = await broker.run("pub", ["m1"]);
    }
    expect(refusal.code).toBe(70);
    expect(refusal.stderr).toMatch(/^error: publishing to broker at .*: fatal storage error\n$/);
    await broker.process.until(({ stderr }) => stderr.includes("ERROR: the log is frozen, publishing is refused"));
    expect(await broker.text("sub")).toContain(" payload=m0\n");
    const stopped = await broker.stop();
    expect(stopped.code).toBe(70);
    expect(stopped.stderr).toMatch(/error: the log was frozen: .*\n$/);
  });

  it("cli.md 4.7: a drain that takes too long is cut short, exit 0", async () => {
    const broker = await TestBroker.start(["--drain-timeout-ms", "1"]);
    const [host, port] = broker.address.split(":");
    // A peer that neither speaks nor closes is waited for, for a moment, at the end of a drain.
    const silent = connect({ host, port: Number(port), allowHalfOpen: true });
    silent.on("error", () => {});
    await new Promise((resolve) => silent.once("connect", resolve));
    await broker.text("pub", ["m"]);
    const result = await broker.stop();
    silent.destroy();
    expect(result.code).toBe(0);
    expect(result.stderr).toContain("WARN: graceful drain exceeded --drain-timeout-ms (1 ms); forcing exit. ");
    expect(await (await broker.restart()).text("sub")).toContain(" payload=m\n");
  });
});
