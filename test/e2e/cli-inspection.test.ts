import { createHash } from "node:crypto";
import {
  appendFileSync,
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { cleanUp, Process, run, TestBroker, temporaryDirectory } from "./harness.ts";

afterEach(cleanUp);

/** A stopped directory with these payloads in it. */
async function stopped(payloads: readonly string[], flags: readonly string[] = []): Promise<string> {
  const broker = await TestBroker.start(flags);
  await broker.text("pub", ["--lines"], { input: payloads.map((payload) => `${payload}\n`).join("") });
  await broker.stop();
  return broker.dataDir;
}

function segments(dataDir: string): string[] {
  return readdirSync(dataDir)
    .filter((name) => /^seg-[0-9a-f]{16}\.log$/.test(name))
    .sort()
    .map((name) => join(dataDir, name));
}

/** Name, size, time and content of everything in the directory. */
function fingerprint(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .sort()
    .map((name) => {
      const path = join(directory, name);
      const status = statSync(path);
      const hash = status.isFile() ? createHash("sha256").update(readFileSync(path)).digest("hex") : "-";
      return `${name} ${status.size} ${status.mtimeMs} ${status.mode} ${hash}`;
    });
}

const lines = (stdout: Buffer) => String(stdout).split("\n").slice(0, -1);

describe("peek and dump", () => {
  it("cli.md 13.46: dump prints every record in the frozen form, peek a window", async () => {
    const broker = await TestBroker.start();
    const before = Date.now();
    for (const payload of ["a", "bb", "ccc"]) {
      await broker.text("pub", [payload]);
    }
    await broker.text("pub", ["--key", "key", "dddd"]);
    await broker.stop();
    const dump = await run(["dump", "--data-dir", broker.dataDir]);
    expect(dump.code).toBe(0);
    expect(dump.stderr).toBe("");
    const expected = ["bytes=1 key_bytes=0", "bytes=2 key_bytes=0", "bytes=3 key_bytes=0", "bytes=4 key_bytes=3"];
    expect(lines(dump.stdout)).toEqual(
      expected.map((sizes, offset) =>
        expect.stringMatching(`^offset=${offset} ts_ms=\\d+ ${sizes} crc=ok codec=none$`),
      ),
    );
    const stamps = [...String(dump.stdout).matchAll(/ts_ms=(\d+)/g)].map((match) => Number(match[1]));
    expect(stamps.every((stamp) => stamp >= before && stamp <= Date.now())).toBe(true);
    const window = await run(["peek", "--data-dir", broker.dataDir, "--limit", "2", "--from-offset", "1"]);
    expect(lines(window.stdout)).toEqual(lines(dump.stdout).slice(1, 3));
    const alias = await run(["peek", "--data-dir", broker.dataDir, "--offset=3"]);
    expect(lines(alias.stdout)).toEqual(lines(dump.stdout).slice(3));
    const json = await run(["dump", "--data-dir", broker.dataDir, "--json"]);
    expect(lines(json.stdout)[3]).toBe(
      `{"offset":3,"ts_ms":${stamps[3]},"bytes":4,"key_bytes":3,"crc":"ok","codec":"none"}`,
    );
  });

  it("peek shows ten records by default, dump all or --limit, across segments", async () => {
    const dataDir = await stopped(
      Array.from({ length: 200 }, (_, index) => `${index} ${"x".repeat(100)}`),
      ["--max-segment-bytes", "4096"],
    );
    expect(segments(dataDir).length).toBeGreaterThan(3);
    expect(lines((await run(["peek", "--data-dir", dataDir])).stdout).length).toBe(10);
    const all = lines((await run(["dump", "--data-dir", dataDir])).stdout);
    expect(all.map((line) => line.split(" ")[0])).toEqual(
      Array.from({ length: 200 }, (_, offset) => `offset=${offset}`),
    );
    expect(lines((await run(["dump", "--data-dir", dataDir, "--limit", "3"])).stdout)).toEqual(all.slice(0, 3));
    expect(lines((await run(["dump", "--data-dir", dataDir, "--limit", "0"])).stdout)).toEqual([]);
    const far = await run(["peek", "--data-dir", dataDir, "--from-offset", "18446744073709551615"]);
    expect([far.code, far.stdout.length]).toEqual([0, 0]);
  });

  it("cli.md 13.48: junk behind the records is listed after them", async () => {
    const dataDir = await stopped(["m0", "m1"]);
    const [segment] = segments(dataDir);
    const before = lines((await run(["dump", "--data-dir", dataDir])).stdout);
    expect(before.length).toBe(2);
    // The preallocated tail goes, so that the junk follows the last record as a torn write would.
    const recordBytes = 36 + 2 + 8;
    const end = 64 + 2 * recordBytes;
    const descriptor = openSync(segment, "r+");
    ftruncateSync(descriptor, end);
    writeSync(descriptor, Buffer.alloc(20, 0x5a), 0, 20, end);
    closeSync(descriptor);
    const dump = await run(["dump", "--data-dir", dataDir]);
    expect(dump.code).toBe(0);
    expect(lines(dump.stdout)).toEqual([
      ...before,
      "note: 20 byte(s) past the durable head are torn or corrupt and were not shown (1 event(s))",
      `  segment 0 bytes [${end}, ${end + 20}) reason=torn_tail`,
    ]);
    const json = await run(["dump", "--data-dir", dataDir, "--json", "--limit", "1"]);
    expect(lines(json.stdout).at(-1)).toBe(
      `{"loss":{"bytes":20,"events":[{"segment":0,"start":${end},"end":${end + 20},"reason":"torn_tail"}]}}`,
    );
  });

  it("cli.md 13.50: a broken chain is 4 in strict mode, otherwise a gap; a missing directory is 2, a file 1", async () => {
    const dataDir = await stopped(
      Array.from({ length: 200 }, (_, index) => `${index} `.padEnd(100, "x")),
      ["--max-segment-bytes", "4096", "--compression", "none"],
    );
    const all = lines((await run(["dump", "--data-dir", dataDir])).stdout);
    expect(all.length).toBe(200);
    // Without its header, and with a bad record: what the neighbours and the intact records tell is enough for the rest.
    const [, second, third] = segments(dataDir);
    const bytes = readFileSync(second);
    bytes.fill(0, 0, 64);
    writeFileSync(second, bytes);
    const record = 36 + 100 + 8;
    const other = readFileSync(third);
    other[64 + 2 * record + 50] ^= 1;
    writeFileSync(third, other);
    const file = join(temporaryDirectory(), "file");
    writeFileSync(file, "");
    const foreign = temporaryDirectory();
    writeFileSync(join(foreign, "letter.txt"), "x");
    for (const verb of ["peek", "dump"]) {
      const broken = await run([verb, "--data-dir", dataDir, "--limit", "1000", "--recovery", "strict"]);
      expect(broken.code, broken.stderr).toBe(4);
      expect(broken.stderr).toContain(`error: corrupt data directory at ${dataDir}: `);
      const read = await run([verb, "--data-dir", dataDir, "--limit", "1000"]);
      expect([read.code, read.stderr]).toEqual([0, ""]);
      const shown = lines(read.stdout).filter((line) => line.startsWith("offset="));
      expect(shown.length).toBe(199);
      expect(shown.every((line) => all.includes(line))).toBe(true);
      expect(lines(read.stdout)).toContain(
        `  segment 2 bytes [${64 + 2 * record}, ${64 + 3 * record}) reason=corrupt_record_body`,
      );
      const missing = await run([verb, "--data-dir", "/nonexistent"]);
      expect(missing.code).toBe(2);
      expect(missing.stderr).toBe("error: no data directory at /nonexistent\n");
      expect((await run([verb, "--data-dir", file])).code).toBe(1);
      const none = await run([verb, "--data-dir", foreign]);
      expect(none.code).toBe(2);
      expect(none.stderr).toContain(`error: no data directory at ${foreign}: it holds other files`);
    }
  });

  it("cli.md 13.51: the directory stays byte-identical, also a damaged one", async () => {
    const dataDir = await stopped(["m0", "m1", "m2"]);
    appendFileSync(segments(dataDir)[0], Buffer.alloc(100, 1));
    mkdirSync(join(dataDir, "foreign"));
    const before = fingerprint(dataDir);
    for (const args of [["peek"], ["dump"], ["dump", "--json"], ["dump", "--raw"]]) {
      const [verb, ...flags] = args;
      expect((await run([verb, "--data-dir", dataDir, ...flags])).code).toBe(0);
    }
    expect(fingerprint(dataDir)).toEqual(before);
  });

  it("an empty directory has no records", async () => {
    const result = await run(["dump", "--data-dir", temporaryDirectory()]);
    expect([result.code, result.stdout.length]).toEqual([0, 0]);
  });

  it("reads beside a running broker, without its lock", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["m0"]);
    const dump = await run(["dump", "--data-dir", broker.dataDir]);
    expect(lines(dump.stdout)).toEqual([expect.stringMatching(/^offset=0 /)]);
  });

  it("cli.md 1.2: a reader that goes away is an io error", async () => {
    const dataDir = await stopped(Array.from({ length: 50_000 }, () => "m"));
    const process = new Process(["dump", "--data-dir", dataDir]);
    await process.until(({ stdout }) => stdout.length > 0);
    process.child.stdout?.destroy();
    const result = await process.done;
    expect(result.code).toBe(70);
    expect(result.stderr).toBe("error: io error: stdout: EPIPE\n");
  });
});
