import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { mountSmall } from "../runtime/native-fixtures.ts";
import { cleanUp, run, TestBroker } from "./harness.ts";

afterEach(cleanUp);

/** Frames of 1041 bytes at most, so five messages need more than one segment of 4096 bytes. */
const MESSAGE_BYTES = 1000;
const SMALL = ["--compression", "none"];

function messages(count: number): string {
  return Array.from({ length: count }, (_, index) => `${index}`.padEnd(MESSAGE_BYTES, ".")).join("\n");
}

async function publish(broker: TestBroker, count: number): Promise<void> {
  expect((await broker.run("pub", ["--lines"], { input: messages(count) })).code).toBe(0);
}

/** Overwrites a span of a segment with what no frame begins with. */
function overwrite(dataDir: string, segment: number, from: number, bytes: number): void {
  const file = openSync(join(dataDir, `seg-${segment.toString(16).padStart(16, "0")}.log`), "r+");
  writeSync(file, Buffer.alloc(bytes, 0x5a), 0, bytes, from);
  closeSync(file);
}

/** Names, sizes and contents of a directory. */
function snapshot(dataDir: string): Record<string, string> {
  return Object.fromEntries(
    readdirSync(dataDir).map((name) => {
      const path = join(dataDir, name);
      return [name, statSync(path).isDirectory() ? "directory" : readFileSync(path).toString("latin1")];
    }),
  );
}

describe("serve over a damaged log (README ruling 1)", () => {
  it("starts, says what is lost, and delivers the rest under its offsets", async () => {
    const first = await TestBroker.start([...SMALL, "--max-segment-bytes", "4096"]);
    await publish(first, 12);
    await first.stop();
    overwrite(first.dataDir, 1, 64 + 300, 100);
    const broker = await first.restart([...SMALL, "--max-segment-bytes", "4096", "--full-scan"]);
    await broker.process.until(({ stderr }) => stderr.includes("WARN: recovery of "));
    expect(broker.process.stderr).toContain("reason=corrupt_record_body");
    const lines = await broker.text("sub", ["--max", "20"]);
    const offsets = [...lines.matchAll(/^#(\d+) /gm)].map((match) => Number(match[1]));
    expect(offsets).toEqual([0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]);
    expect((await broker.stop()).code).toBe(0);
    expect(existsSync(join(broker.dataDir, "recovery-report.json"))).toBe(true);
  });

  it("beyond a cap it serves reads only, names the way out, changes nothing and ends with 70", async () => {
    const first = await TestBroker.start([...SMALL, "--max-segment-bytes", "8192"]);
    await publish(first, 20);
    await first.stop();
    overwrite(first.dataDir, 1, 64 + 300, 6000);
    const before = snapshot(first.dataDir);
    const broker = await first.restart([...SMALL, "--max-segment-bytes", "4096", "--full-scan"]);
    await broker.process.until(({ stderr }) => stderr.includes("READ-ONLY"));
    const line = broker.process.stderr.split("\n").find((text) => text.includes("READ-ONLY"));
    expect(line).toMatch(/^ERROR: .*over the per-event cap 4096/);
    expect(line).toContain(`\`ironbus repair --data-dir ${first.dataDir} --apply --force\``);
    expect(await broker.text("sub", ["--max", "2"])).toContain("\n#1 gen=");
    const refusal = await broker.run("pub", ["m"]);
    expect(refusal.code).toBe(70);
    expect(refusal.stderr).toContain("fatal storage error");
    const stopped = await broker.stop();
    expect(stopped.code).toBe(70);
    expect(stopped.stderr).toMatch(/error: the log was open read-only: recovery exceeded the bounded-loss cap: .*\n$/);
    expect(snapshot(first.dataDir)).toEqual(before);

    const strict = await run([
      "serve",
      "--data-dir",
      first.dataDir,
      "--addr",
      "127.0.0.1:0",
      "--recovery",
      "strict",
      "--full-scan",
    ]);
    expect(strict.code).toBe(4);
    expect(snapshot(first.dataDir)).toEqual(before);
  });
});

describe("serve at its byte cap", () => {
  it("config.md 13: the refusal reaches the client, the broker and its records stay", async () => {
    const broker = await TestBroker.start([...SMALL, "--max-total-bytes", "3000"]);
    const result = await broker.run("pub", ["--lines"], { input: messages(5) });
    expect(result.code).not.toBe(0);
    expect(result.stderr).toContain("at capacity");
    await broker.process.until(({ stderr }) =>
      stderr.includes("WARN: publishing is refused (durable log is at capacity"),
    );
    expect(await broker.text("sub", ["--max", "9"])).toContain("\n#2 gen=");
    expect((await broker.stop()).code).toBe(0);
  });
});

/** Mounting needs root; elsewhere the simulated disk stands for it (test/broker/opening.test.ts). */
function smallFileSystem(): { path: string; unmount(): void } | undefined {
  return mountSmall(join(mkdtempSync(join(tmpdir(), "ironbus-mount-")), "small"), 2 * 1024 * 1024);
}

const probe = smallFileSystem();
probe?.unmount();
if (probe !== undefined) rmSync(dirname(probe.path), { recursive: true });

describe.runIf(probe !== undefined)("serve on a small file system", () => {
  it("README ruling 11: with 0 bytes free it starts, serves and drains, and takes publishes again once there is room", async () => {
    const mount = smallFileSystem() as { path: string; unmount(): void };
    try {
      const dataDir = join(mount.path, "data");
      const flags = [...SMALL, "--max-segment-bytes", "65536"];
      const first = await TestBroker.start(flags, dataDir);
      await publish(first, 64);
      await first.stop();
      const ballast = join(mount.path, "ballast");
      const file = openSync(ballast, "w");
      const block = Buffer.alloc(4096);
      try {
        for (;;) writeSync(file, block);
      } catch (error) {
        expect((error as NodeJS.ErrnoException).code).toBe("ENOSPC");
      }
      closeSync(file);

      const broker = await TestBroker.start(flags, dataDir);
      await broker.process.until(({ stderr }) => stderr.includes("WARN: the disk is full "));
      const lines = await broker.text("sub", ["--ack", "--max", "10"]);
      expect(lines.match(/^#/gm)).toHaveLength(10);
      const refusal = await broker.run("pub", ["--lines"], { input: messages(100) });
      expect(refusal.stderr).toContain("at capacity");
      rmSync(ballast);
      let taken = await broker.run("pub", ["m"]);
      while (taken.code !== 0) taken = await broker.run("pub", ["m"]);
      expect(broker.process.stderr.match(/^WARN: (?!config)/gm)).toHaveLength(1);
      expect((await broker.stop()).code).toBe(0);
      const again = await TestBroker.start(flags, dataDir);
      expect(await again.text("sub", ["--max", "1"])).toMatch(/^#10 /);
      await again.stop();
    } finally {
      await cleanUp();
      mount.unmount();
      rmSync(dirname(mount.path), { recursive: true });
    }
  });
});
