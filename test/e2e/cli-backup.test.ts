import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { ascii, frame, header, join as joinBytes } from "../log/fixtures.ts";
import { cleanUp, run, TestBroker, temporaryDirectory } from "./harness.ts";
import { fingerprint, flip, lines, segments, stopped } from "./offline-directory.ts";

afterEach(cleanUp);

describe("backup and restore", () => {
  it("cli.md 13.54: a restored directory is the same, verifies, and goes on at its cursors", async () => {
    const broker = await TestBroker.start(["--max-segment-bytes", "4096"]);
    const input = Array.from({ length: 100 }, (_, index) => `${String(index).padEnd(99, "x")}.\n`).join("");
    await broker.text("pub", ["--lines"], { input });
    await broker.text("sub", ["--group", "g", "--max", "7", "--ack"]);
    await broker.stop();
    const before = fingerprint(broker.dataDir);
    const out = join(temporaryDirectory(), "out", "today");
    const backup = await run(["backup", "--data-dir", broker.dataDir, "--out", out]);
    expect(backup.stderr).toBe("");
    expect(String(backup.stdout)).toMatch(
      new RegExp(
        `^backup: captured \\d+ file\\(s\\) \\(\\d+ byte\\(s\\)\\) from ${broker.dataDir} to ${out} ` +
          "\\(durable range \\[0, 100\\], 2 cursor\\(s\\), 0 DLQ record\\(s\\)\\)\n$",
      ),
    );
    expect(fingerprint(broker.dataDir)).toEqual(before);
    expect(statSync(out).mode & 0o777).toBe(0o700);
    expect(readFileSync(join(out, "MANIFEST"), "utf8")).toMatch(/^IBBKP 1\nrange 0 100 cursors 2 dlq 0\nfiles \d+\n/);

    const target = join(temporaryDirectory(), "data");
    const restore = await run(["restore", "--from", out, "--data-dir", target]);
    expect([restore.code, restore.stderr]).toEqual([0, ""]);
    expect(String(restore.stdout)).toMatch(
      new RegExp(`^restore: materialized \\d+ file\\(s\\) \\(\\d+ byte\\(s\\)\\) from ${out} into ${target} `),
    );
    expect(fingerprint(target, ["LOCK"])).toEqual(fingerprint(broker.dataDir, ["LOCK"]));
    const verify = await run(["verify", "--data-dir", target]);
    expect(verify.code).toBe(0);
    expect(String(verify.stdout)).toContain("2 cursor(s) in range");
    const resumed = await TestBroker.start([], target);
    expect(await resumed.text("sub", ["--group", "g", "--max", "1"])).toMatch(/^#7 /m);
    expect(await resumed.text("pub", ["next"])).toContain("100");
  });

  it("cli.md 13.54: a flipped byte is refused by name, a full target needs --force", async () => {
    const dataDir = await stopped(3);
    const out = join(temporaryDirectory(), "out");
    const json = await run(["backup", "--data-dir", dataDir, "--out", out, "--json"]);
    expect(String(json.stdout)).toMatch(
      new RegExp(
        `^{"schema":"ironbus.cli.backup.v1","data_dir":"${dataDir}","out":"${out}","files":\\d+,"bytes":\\d+,` +
          '"durable_head":3,"earliest_retained":0,"cursors":1,"dlq_records":0,"ok":true,"exit_code":0}\n$',
      ),
    );
    const bad = join(temporaryDirectory(), "bad");
    cpSync(out, bad, { recursive: true });
    const damaged = join(bad, "data", "seg-0000000000000000.log");
    flip(damaged, 80);
    const target = join(temporaryDirectory(), "data");
    const refused = await run(["restore", "--from", bad, "--data-dir", target]);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain("error: corrupt or incomplete backup: data/seg-0000000000000000.log: ");
    expect(() => statSync(target)).toThrow("ENOENT");

    mkdirSync(target);
    writeFileSync(join(target, "x"), "old");
    const full = await run(["restore", "--from", out, "--data-dir", target]);
    expect(full.code).toBe(1);
    expect(full.stderr).toContain(
      "error: target data directory is not empty (1 existing entry); pass --force to overwrite\n",
    );
    expect(readFileSync(join(target, "x"), "utf8")).toBe("old");
    const forced = await run(["restore", "--from", out, "--data-dir", target, "--force", "--json"]);
    expect(forced.code).toBe(0);
    expect(JSON.parse(String(forced.stdout))).toMatchObject({
      schema: "ironbus.cli.restore.v1",
      from: out,
      data_dir: target,
      durable_head: 3,
    });
    expect(fingerprint(target, ["LOCK"])).toEqual(fingerprint(dataDir, ["LOCK"]));
    expect((await run(["restore", "--from", "/nonexistent", "--data-dir", target])).code).toBe(2);
    expect((await run(["backup", "--data-dir", "/nonexistent", "--out", target])).code).toBe(2);
  });

  it("are not led into each other's directory by symbolic links or dots", async () => {
    const dataDir = await stopped(3);
    const elsewhere = temporaryDirectory();
    symlinkSync(dataDir, join(elsewhere, "link"));
    const before = fingerprint(dataDir);
    for (const out of [join(elsewhere, "link", "backup"), `${dataDir}/x/../y`, dataDir]) {
      const backup = await run(["backup", "--data-dir", dataDir, "--out", out]);
      expect(backup.code, out).toBe(1);
      expect(backup.stderr).toContain("must not lie inside the data directory");
    }
    expect(fingerprint(dataDir)).toEqual(before);
    const out = join(elsewhere, "out");
    expect((await run(["backup", "--data-dir", join(elsewhere, "link"), "--out", out])).code).toBe(0);
    symlinkSync(out, join(elsewhere, "backup"));
    const restore = await run(["restore", "--from", join(elsewhere, "backup"), "--data-dir", out, "--force"]);
    expect(restore.code).toBe(1);
    expect(restore.stderr).toContain("must not lie inside each other");
    expect(readFileSync(join(out, "MANIFEST"), "utf8")).toMatch(/^IBBKP 1\n/);
  });

  it("a symbolic link or a name that no manifest holds is refused, a pipe is left out and told of", async () => {
    const dataDir = await stopped(1);
    const out = join(temporaryDirectory(), "out");
    symlinkSync("/etc/hostname", join(dataDir, "link"));
    const link = await run(["backup", "--data-dir", dataDir, "--out", out]);
    expect(link.code).toBe(1);
    expect(link.stderr).toContain(`cannot back up "${join(dataDir, "link")}": it is a symbolic link`);
    rmSync(join(dataDir, "link"));
    const name = Buffer.concat([Buffer.from(join(dataDir, "latin-")), Buffer.from([0xe9])]);
    writeFileSync(name, "x");
    const latin = await run(["backup", "--data-dir", dataDir, "--out", out]);
    expect(latin.code).toBe(1);
    expect(latin.stderr).toContain("its name is not UTF-8");
    rmSync(name);
    expect(() => statSync(out)).toThrow("ENOENT");
    execFileSync("mkfifo", [join(dataDir, "pipe")]);
    const pipe = await run(["backup", "--data-dir", dataDir, "--out", out]);
    expect(pipe.code).toBe(0);
    expect(pipe.stderr).toBe(
      `note: left out ${JSON.stringify(join(dataDir, "pipe"))}: a socket, pipe or device has no content\n`,
    );
  });

  it.each([
    ["backup", ["--data-dir", "/x"], "backup requires `--out <dir>`"],
    ["backup", ["--out", "/x"], "backup requires `--data-dir <dir>`"],
    ["restore", ["--data-dir", "/x"], "restore requires `--from <dir>`"],
    ["restore", ["--from", "/x"], "restore requires `--data-dir <dir>`"],
    ["scrub", [], "scrub requires `--data-dir <dir>`"],
  ])("%s names the flag that is missing", async (verb, flags, message) => {
    const result = await run([verb, ...flags]);
    expect(result.code).toBe(1);
    expect(result.stderr).toContain(`error: ${message}\n`);
  });
});

describe("migrate", () => {
  it("cli.md 13.55: an empty, a current and a patched directory", async () => {
    const empty = temporaryDirectory();
    const migrate = (dataDir: string, ...flags: string[]) => run(["migrate", "--data-dir", dataDir, ...flags]);
    expect(String((await migrate(empty)).stdout)).toBe(
      `no migration needed: ${empty} holds no segments yet (a fresh data dir opens at format v1)\n`,
    );
    const dataDir = await stopped(1);
    expect(String((await migrate(dataDir)).stdout)).toBe(
      `no migration needed: ${dataDir} is on-disk format v1, the current major (opens with no migration)\n`,
    );
    const [segment] = segments(dataDir);
    const bytes = readFileSync(segment);
    bytes[8] = 2;
    writeFileSync(segment, bytes);
    const before = fingerprint(dataDir);
    const refused = await migrate(dataDir);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(/^error: REFUSING a silent format bump: .* format v2, .*--allow 1\n/);
    const allowed = await migrate(dataDir, "--allow", "1");
    expect(allowed.code).toBe(1);
    expect(allowed.stderr).toContain("no migrator");
    expect((await migrate(dataDir, "--allow", "256")).code).toBe(1);
    expect(fingerprint(dataDir)).toEqual(before);
    writeFileSync(segment, bytes.subarray(0, 63));
    expect((await migrate(dataDir)).code).toBe(4);
    expect((await migrate("/nonexistent")).code).toBe(2);
    expect((await migrate(dataDir, "--json")).code).toBe(1);
  });
});

describe("dump --dlq", () => {
  /** A sink with a letter of each kind of header and a record that is none. */
  function writeSink(directory: string): void {
    mkdirSync(directory);
    const letter = (sequence: bigint, headers: string, payload: string) =>
      frame({
        sequence,
        timestampMs: 1000n + sequence,
        key: ascii("k"),
        headers: Buffer.from(headers, "hex"),
        payload: ascii(payload),
      });
    writeFileSync(
      join(directory, "seg-0000000000000000.log"),
      joinBytes(
        header(0, 0),
        letter(0n, "444c51310900000000000000060000000100000067", "dead"),
        letter(1n, "", "foreign"),
        letter(2n, "444c513202ffffffffffffffff07000000030001002261220a", "rejected"),
      ),
    );
  }

  it("cli.md 13.56: prints the letters of the sink or of an exchange, foreign records skipped", async () => {
    const dataDir = await stopped(1);
    const none = await run(["dump", "--data-dir", dataDir, "--dlq"]);
    expect([none.code, none.stdout.length, none.stderr]).toEqual([0, 0, ""]);
    writeSink(join(dataDir, "dlq"));
    const letters = await run(["dump", "--data-dir", dataDir, "--dlq"]);
    expect(letters.code, letters.stderr).toBe(0);
    expect(lines(letters.stdout)).toEqual([
      'dlq_offset=0 source_offset=9 group="g" attempt=6 ts_ms=1000 bytes=4 key_bytes=1 reason=max-deliver-exceeded',
      'dlq_offset=2 source_offset=18446744073709551615 group="\\"a\\"" attempt=7 ts_ms=1002 bytes=8 key_bytes=1 reason=rejected',
    ]);
    const json = await run(["dump", "--data-dir", dataDir, "--dlq", "--json", "--limit", "1"]);
    expect(String(json.stdout)).toBe(
      '{"dlq_offset":0,"source_offset":9,"group":"g","attempt":6,"ts_ms":1000,"bytes":4,"key_bytes":1,"reason":"max-deliver-exceeded"}\n',
    );
    const verify = await run(["verify", "--data-dir", dataDir]);
    expect(String(verify.stdout)).toContain(", 2 DLQ record(s), ");
    writeSink(join(dataDir, "late"));
    const exchange = await run(["dump", "--data-dir", dataDir, "--dlq", "--exchange", "late"]);
    expect(exchange.stdout).toEqual(letters.stdout);
    expect((await run(["dump", "--data-dir", dataDir, "--dlq", "--exchange", "none"])).stdout.length).toBe(0);
    expect((await run(["dump", "--data-dir", "/nonexistent", "--dlq"])).code).toBe(2);
  });

  it.each([
    [["--exchange", "late"]],
    [["--dlq", "--exchange", "../x"]],
    [["--dlq", "--exchange", ".."]],
    [["--dlq", "--exchange", "streams"]],
    [["--dlq", "--raw"]],
    [["--dlq", "--require-dict"]],
  ])("cli.md 13.56: %j is a usage error", async (flags) => {
    expect((await run(["dump", "--data-dir", temporaryDirectory(), ...flags])).code).toBe(1);
  });
});
