import { chownSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { CURSOR_CAPACITY, encodeCursor } from "../../src/log/checkpoint-payloads.ts";
import { encodeSlot, slotLength } from "../../src/log/checkpoint-slots.ts";
import { codec, join as joinBytes } from "../log/fixtures.ts";
import { cleanUp, run, TestBroker, temporaryDirectory } from "./harness.ts";
import { fingerprint, flip, lines, RECORD_BYTES, segments, stopped } from "./offline-directory.ts";

afterEach(cleanUp);

const INSPECTING = ["scrub", "verify", "repair"];

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
