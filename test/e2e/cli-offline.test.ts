import { createHash } from "node:crypto";
import {
  chownSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { CURSOR_CAPACITY, encodeCursor } from "../../src/log/checkpoint-payloads.ts";
import { encodeSlot, slotLength } from "../../src/log/checkpoint-slots.ts";
import { ascii, codec, frame, header, join as joinBytes } from "../log/fixtures.ts";
import { cleanUp, run, TestBroker, temporaryDirectory } from "./harness.ts";

afterEach(cleanUp);

const INSPECTING = ["scrub", "verify", "repair"];
const RECORD_BYTES = 36 + 100 + 8;

/** A stopped directory with `count` records of 100 bytes in it, not compressed. */
async function stopped(count: number, flags: readonly string[] = []): Promise<string> {
  const broker = await TestBroker.start(["--compression", "none", ...flags]);
  const lines = Array.from({ length: count }, (_, index) => `${String(index).padEnd(99, "x")}.\n`);
  await broker.text("pub", ["--lines"], { input: lines.join("") });
  await broker.stop();
  return broker.dataDir;
}

function segments(dataDir: string): string[] {
  return readdirSync(dataDir)
    .filter((name) => /^seg-[0-9a-f]{16}\.log$/.test(name))
    .sort()
    .map((name) => join(dataDir, name));
}

/** Changes one byte of a file. */
function flip(path: string, position: number): void {
  const bytes = readFileSync(path);
  bytes[position] ^= 0x10;
  writeFileSync(path, bytes);
}

/** Name, size, mode and content of everything in the directory. */
function fingerprint(directory: string, without: readonly string[] = []): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .sort()
    .filter((name) => !without.includes(name))
    .map((name) => {
      const path = join(directory, name);
      const status = statSync(path);
      const hash = status.isFile() ? createHash("sha256").update(readFileSync(path)).digest("hex") : "-";
      return `${name} ${status.isFile() ? status.size : "-"} ${status.mode} ${hash}`;
    });
}

const lines = (stdout: Buffer) => String(stdout).split("\n").slice(0, -1);

describe("scrub, verify and repair", () => {
  it("storage.md 26.50: find nothing wrong with a stopped broker's directory, preallocated as it is", async () => {
    const dataDir = await stopped(3);
    const outputs = await Promise.all(INSPECTING.map((verb) => run([verb, "--data-dir", dataDir])));
    expect(outputs.map(({ code, stderr }) => [code, stderr])).toEqual([
      [0, ""],
      [0, ""],
      [0, ""],
    ]);
    expect(outputs.map(({ stdout }) => String(stdout))).toEqual([
      `scrub: ${dataDir} is clean (1 segment(s) scanned, no corruption or torn tail)\n`,
      `verify: ${dataDir} is clean (1 segment(s) CRC-valid, 1 cursor(s) in range, 0 DLQ record(s), layout v1)\n`,
      `repair: ${dataDir} is clean (1 segment(s) scanned, no corruption or torn tail)\n` +
        "  nothing to repair (read-only plan; pass --apply to act)\n",
    ]);
    const found =
      `"data_dir":"${dataDir}","segments":1,"skipped_spans":0,"data_loss_spans":0,"data_loss_bytes":0,` +
      '"torn_tail_bytes":0';
    const objects = await Promise.all(INSPECTING.map((verb) => run([verb, "--data-dir", dataDir, "--json"])));
    expect(objects.map(({ stdout }) => String(stdout))).toEqual([
      `{"schema":"ironbus.cli.scrub.v1",${found},"events":[],"ok":true,"exit_code":0}\n`,
      `{"schema":"ironbus.cli.verify.v1",${found},"events":[],"cursors":[{"group":"","committed":0,"in_range":true}],` +
        '"cursor_mismatches":0,"dlq_records":0,"quarantine_bytes":0,"layout_version":1,"ok":true,"exit_code":0}\n',
      `{"schema":"ironbus.cli.repair.v1",${found},"applied":false,"events":[],"ok":true,"exit_code":0}\n`,
    ]);
  });

  it("cli.md 13.48: a torn tail alone is no loss", async () => {
    const dataDir = await stopped(2);
    const [segment] = segments(dataDir);
    const end = 64 + 2 * RECORD_BYTES;
    writeFileSync(segment, Buffer.concat([readFileSync(segment).subarray(0, end), Buffer.alloc(20, 0x5a)]));
    const scrub = await run(["scrub", "--data-dir", dataDir]);
    expect([scrub.code, scrub.stderr]).toEqual([0, ""]);
    expect(lines(scrub.stdout)).toEqual([
      "scrub: 1 segment(s) scanned, 1 skip span(s): 0 byte(s) of data loss, 20 torn-tail byte(s) (not data loss)",
      `  segment 0 bytes [${end}, ${end + 20}) reason=torn_tail torn-tail (no data loss)`,
    ]);
    const verify = await run(["verify", "--data-dir", dataDir]);
    expect(verify.code).toBe(0);
    expect(lines(verify.stdout)[1]).toMatch(/^ {2}note: 20 torn-tail byte\(s\) present/);
    const json = JSON.parse(String((await run(["scrub", "--data-dir", dataDir, "--json"])).stdout));
    expect(json.events).toEqual([{ segment: 0, start: end, end: end + 20, reason: "torn_tail", data_loss: false }]);
  });

  it("cli.md 13.49: a flipped bit in record 10 of 20 is data loss: exit 3, and what comes before it is there", async () => {
    const dataDir = await stopped(20);
    const [segment] = segments(dataDir);
    const start = 64 + 10 * RECORD_BYTES;
    // The last record's length ends in zeros, which cannot be told from what was never written.
    const end = 64 + 20 * RECORD_BYTES - 3;
    flip(segment, start + 50);
    const span = `segment 0 bytes [${start}, ${end}) reason=corrupt_record_body`;
    const lost = end - start;
    const scrub = await run(["scrub", "--data-dir", dataDir]);
    expect(scrub.code).toBe(3);
    expect(lines(scrub.stdout).slice(0, 2)).toEqual([
      `scrub: 1 segment(s) scanned, 1 skip span(s): ${lost} byte(s) of data loss, 0 torn-tail byte(s) (not data loss)`,
      `  ${span} data-loss`,
    ]);
    expect(scrub.stderr).toBe(
      `error: scrub would quarantine 1 corrupt span(s), ${lost} byte(s) of data loss (0 torn-tail byte(s) excluded)\n`,
    );
    const verify = await run(["verify", "--data-dir", dataDir]);
    expect(verify.code).toBe(3);
    expect(lines(verify.stdout)[0]).toBe(
      `verify: ${dataDir} has issues: 1 segment(s) scanned, ${lost} byte(s) of data loss, 0 torn-tail byte(s) ` +
        "(not data loss), 0 cursor mismatch(es)",
    );
    expect(verify.stderr).toBe(
      `error: verify found 1 data-loss corruption span(s) (${lost} byte(s)) and 0 cursor mismatch(es)\n`,
    );
    for (const verb of INSPECTING) {
      const json = await run([verb, "--data-dir", dataDir, "--json"]);
      expect(json.code).toBe(3);
      const object = JSON.parse(String(json.stdout));
      expect(object).toMatchObject({ ok: false, exit_code: 3, data_loss_bytes: lost });
      expect(object.events).toEqual([{ segment: 0, start, end, reason: "corrupt_record_body", data_loss: true }]);
    }
    const dump = lines((await run(["dump", "--data-dir", dataDir])).stdout);
    expect(dump.filter((line) => line.startsWith("offset=")).length).toBe(10);
    expect(dump.at(-1)).toBe(`  ${span}`);
    const envelope = await run(["--json", "scrub", "--data-dir", dataDir]);
    expect([envelope.code, envelope.stderr]).toEqual([3, ""]);
    expect(JSON.parse(String(envelope.stdout))).toMatchObject({
      exit_code: 3,
      error: { kind: "handled_corruption", message: expect.stringMatching(/^scrub would quarantine 1 /) },
    });
  });

  it("storage.md 26.39: a flipped bit in a sealed segment costs its record, and is 4 with --recovery strict", async () => {
    const dataDir = await stopped(100, ["--max-segment-bytes", "4096"]);
    const [, second] = segments(dataDir);
    const start = 64 + 4 * RECORD_BYTES;
    flip(second, start + 60);
    const before = fingerprint(dataDir);
    for (const verb of INSPECTING) {
      const strict = await run([verb, "--data-dir", dataDir, "--recovery", "strict"]);
      expect(strict.code, strict.stderr).toBe(4);
      expect(strict.stderr).toBe(`error: corrupt data directory at ${dataDir}: predecessor segment 1 is not sealed\n`);
      const salvage = await run([verb, "--data-dir", dataDir, "--json"]);
      expect(salvage.code, salvage.stderr).toBe(3);
      const object = JSON.parse(String(salvage.stdout));
      expect(object.events).toEqual([
        { segment: 1, start, end: start + RECORD_BYTES, reason: "corrupt_record_body", data_loss: true },
      ]);
      expect(object.lost_offsets.length).toBe(1);
    }
    const bad = await run(["scrub", "--data-dir", dataDir, "--recovery", "hope"]);
    expect(bad.code).toBe(1);
    expect(bad.stderr).toContain("error: `--recovery` must be `salvage` or `strict`, got `hope`\n");
    expect(fingerprint(dataDir)).toEqual(before);
  });

  it("cli.md 13.50: a broken chain is 4 in strict mode, a loss otherwise; no directory is 2, a file 1", async () => {
    const dataDir = await stopped(100, ["--max-segment-bytes", "4096"]);
    rmSync(segments(dataDir)[1]);
    const file = join(temporaryDirectory(), "file");
    writeFileSync(file, "");
    const other = temporaryDirectory();
    writeFileSync(join(other, "letter.txt"), "x");
    for (const verb of INSPECTING) {
      const strict = await run([verb, "--data-dir", dataDir, "--recovery", "strict"]);
      expect(strict.code).toBe(4);
      expect(strict.stderr).toContain("does not continue from");
      expect((await run([verb, "--data-dir", dataDir])).code).toBe(3);
      const missing = await run([verb, "--data-dir", "/nonexistent"]);
      expect([missing.code, missing.stderr]).toEqual([2, "error: no data directory at /nonexistent\n"]);
      expect((await run([verb, "--data-dir", file])).code).toBe(1);
      const foreign = await run([verb, "--data-dir", other]);
      expect(foreign.code).toBe(2);
      expect(foreign.stderr).toContain(`no data directory at ${other}: it holds other files`);
    }
  });

  it("a layout from the future is 4, and stays as it is", async () => {
    const dataDir = await stopped(1);
    const slot = new Uint8Array(slotLength(64));
    encodeSlot(slot, 9, new Uint8Array(Buffer.from("4942444402000000", "hex")), codec);
    writeFileSync(join(dataDir, "layout.meta"), joinBytes(slot, new Uint8Array(slot.length)));
    const before = fingerprint(dataDir);
    for (const args of [["scrub"], ["verify"], ["repair"], ["repair", "--apply", "--force"], ["peek"], ["dump"]]) {
      const result = await run([args[0], "--data-dir", dataDir, ...args.slice(1)]);
      expect(result.code, args.join(" ")).toBe(4);
      expect(result.stderr).toContain("has directory layout 2, newer than this build supports (1)");
    }
    expect(fingerprint(dataDir)).toEqual(before);
  });

  it("cli.md 13.51: leave the directory byte-identical, a damaged one too", async () => {
    const dataDir = await stopped(100, ["--max-segment-bytes", "4096"]);
    flip(segments(dataDir)[0], 100);
    flip(segments(dataDir).at(-1) as string, 100);
    const before = fingerprint(dataDir);
    for (const args of [["scrub"], ["verify"], ["verify", "--json"], ["repair"], ["dump", "--dlq"], ["migrate"]]) {
      await run([args[0], "--data-dir", dataDir, ...args.slice(1)]);
    }
    expect(fingerprint(dataDir)).toEqual(before);
  });

  it("cli.md 13.52: repair plans, refuses half a consent, and acts under the lock", async () => {
    const dataDir = await stopped(20);
    const [segment] = segments(dataDir);
    const start = 64 + 10 * RECORD_BYTES;
    flip(segment, start + 50);
    const mode = statSync(segment).mode;
    const before = fingerprint(dataDir);
    const plan = await run(["repair", "--data-dir", dataDir]);
    expect(plan.code).toBe(3);
    expect(lines(plan.stdout).at(-1)).toMatch(/^ {2}read-only plan: --apply would quarantine .*\(nothing changed\)$/);
    expect(plan.stderr).toMatch(/^error: repair would quarantine 1 corrupt span/);
    for (const flag of ["--apply", "--force"]) {
      expect((await run(["repair", "--data-dir", dataDir, flag])).code).toBe(1);
    }
    expect(fingerprint(dataDir)).toEqual(before);

    const applied = await run(["repair", "--data-dir", dataDir, "--apply", "--force", "--json"]);
    expect(applied.code).toBe(3);
    expect(applied.stderr).toMatch(/^error: repair quarantined 1 corrupt span/);
    expect(JSON.parse(String(applied.stdout))).toMatchObject({ applied: true, exit_code: 3, data_loss_spans: 1 });
    const blobs = readdirSync(join(dataDir, "quarantine"));
    expect(blobs).toEqual([`q-0000000000000000-corrupt_record_body-${start}-${start + 1437}.bin`]);
    expect(statSync(segment)).toMatchObject({ size: start, mode });
    const again = await run(["repair", "--data-dir", dataDir, "--apply", "--force"]);
    expect([again.code, lines(again.stdout)]).toEqual([
      0,
      [`repair: ${dataDir} is clean (1 segment(s) scanned, no corruption or torn tail)`],
    ]);
    const verify = await run(["verify", "--data-dir", dataDir]);
    expect(verify.code).toBe(0);
    expect(lines(verify.stdout)[1]).toMatch(/^ {2}note: 1437 quarantined byte\(s\) present in quarantine\//);
  });

  it("README ruling 1: a log that is read-only for its losses takes records again after a repair", async () => {
    const dataDir = await stopped(200, ["--max-segment-bytes", "4096"]);
    // Every record between the first and the last one of three segments: more than the cap of one segment.
    for (const path of segments(dataDir).slice(1, 4)) {
      const bytes = readFileSync(path);
      bytes.fill(0x55, 64 + RECORD_BYTES, bytes.length - 32 - RECORD_BYTES);
      writeFileSync(path, bytes);
    }
    const flags = ["--max-segment-bytes", "4096", "--full-scan"];
    const before = fingerprint(dataDir);
    const readOnly = await TestBroker.start(flags, dataDir);
    expect((await readOnly.run("pub", ["refused"])).code).not.toBe(0);
    await readOnly.stop();
    expect(fingerprint(dataDir)).toEqual(before);

    expect((await run(["repair", "--data-dir", dataDir, "--apply", "--force"])).code).toBe(3);
    const writable = await TestBroker.start(flags, dataDir);
    expect(await writable.text("pub", ["taken"])).toContain("200");
    await writable.stop();
    const dump = lines((await run(["dump", "--data-dir", dataDir])).stdout).filter((line) =>
      line.startsWith("offset="),
    );
    expect(dump[0]).toMatch(/^offset=0 /);
    expect(dump.at(-1)).toMatch(/^offset=200 /);
    const json = JSON.parse(String((await run(["verify", "--data-dir", dataDir, "--json"])).stdout));
    const lost = json.lost_offsets.reduce(
      (sum: number, gap: { start: number; end: number }) => sum + gap.end - gap.start,
      0,
    );
    expect(dump.length + lost).toBe(201);
  });

  it.skipIf(process.geteuid?.() !== 0)("leave what root made to the directory's owner (a test for root)", async () => {
    const dataDir = await stopped(20);
    flip(segments(dataDir)[0], 64 + 10 * RECORD_BYTES + 50);
    for (const name of readdirSync(dataDir)) chownSync(join(dataDir, name), 4242, 4343);
    chownSync(dataDir, 4242, 4343);
    expect((await run(["repair", "--data-dir", dataDir, "--apply", "--force"])).code).toBe(3);
    const out = join(temporaryDirectory(), "out");
    expect((await run(["backup", "--data-dir", dataDir, "--out", out])).code).toBe(0);
    const names = readdirSync(dataDir, { recursive: true, encoding: "utf8" });
    expect(names).toContain("quarantine");
    expect(new Set(names.map((name) => statSync(join(dataDir, name)).uid))).toEqual(new Set([4242]));
    expect((await run(["restore", "--from", out, "--data-dir", dataDir, "--force"])).code).toBe(0);
    const restored = readdirSync(dataDir, { recursive: true, encoding: "utf8" });
    expect(new Set(restored.map((name) => statSync(join(dataDir, name)).gid))).toEqual(new Set([4343]));
    expect(statSync(out).uid).toBe(0);
  });

  it("storage.md 26.51: repair and backup of a running broker's directory are 5 and change nothing", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["m0"]);
    const before = fingerprint(broker.dataDir);
    const out = join(temporaryDirectory(), "out");
    const repair = await run(["repair", "--data-dir", broker.dataDir, "--apply", "--force"]);
    const backup = await run(["backup", "--data-dir", broker.dataDir, "--out", out]);
    const restore = await run(["restore", "--from", temporaryDirectory(), "--data-dir", broker.dataDir, "--force"]);
    const refusal = (doing: string) =>
      `error: cannot ${doing} ${broker.dataDir}: a broker holds its exclusive lock (stop the broker first)\n`;
    expect([repair, backup, restore].map(({ code, stderr }) => [code, stderr])).toEqual([
      [5, refusal("repair")],
      [5, refusal("back up")],
      [5, refusal("restore into")],
    ]);
    expect(fingerprint(broker.dataDir)).toEqual(before);
    expect(() => statSync(out)).toThrow("ENOENT");
    expect((await run(["verify", "--data-dir", broker.dataDir])).code).toBe(0);
    await broker.kill();
    expect((await run(["repair", "--data-dir", broker.dataDir, "--apply", "--force"])).code).toBe(0);
  });

  it("cli.md 13.53: verify names a cursor above the head", async () => {
    const dataDir = await stopped(3);
    const slot = new Uint8Array(slotLength(CURSOR_CAPACITY));
    encodeSlot(slot, 1, encodeCursor({ committed: 9, runs: [] }, codec), codec);
    const group = Buffer.from("workers").toString("hex");
    writeFileSync(join(dataDir, `cursor-${group}.ckpt`), joinBytes(new Uint8Array(slot.length), slot));
    const verify = await run(["verify", "--data-dir", dataDir]);
    expect(verify.code).toBe(3);
    expect(lines(verify.stdout)).toContain("  cursor group=workers committed=9 out-of-range (cursor-vs-log mismatch)");
    expect(verify.stderr).toBe(
      "error: verify found 0 data-loss corruption span(s) (0 byte(s)) and 1 cursor mismatch(es)\n",
    );
    const object = JSON.parse(String((await run(["verify", "--data-dir", dataDir, "--json"])).stdout));
    expect(object.cursors).toContainEqual({ group: "workers", committed: 9, in_range: false });
    expect(object).toMatchObject({ cursor_mismatches: 1, ok: false, exit_code: 3 });
    expect((await run(["scrub", "--data-dir", dataDir])).code).toBe(0);
  });
});

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
    const { execFileSync } = await import("node:child_process");
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
