import { afterEach, describe, expect, it } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { cleanUp, run, TestBroker, temporaryDirectory } from "./harness.ts";

afterEach(cleanUp);

const version = `ironbus ${manifest.version}`;

describe("general rules", () => {
  it("cli.md 13.1: no verb is a usage error with the usage text", async () => {
    const result = await run([]);
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(/^error: no subcommand given\n\nusage: ironbus /);
    expect(result.stdout.length).toBe(0);
  });

  it("cli.md 13.2: an unknown verb", async () => {
    const result = await run(["nope"]);
    expect(result.code).toBe(1);
    expect(result.stderr).toContain("error: unknown subcommand `nope`\n");
  });

  it("cli.md 13.3: help and version in each spelling", async () => {
    for (const spelling of ["help", "--help", "-h"]) {
      const result = await run([spelling]);
      expect(result.code, spelling).toBe(0);
      expect(String(result.stdout)).toMatch(/^usage: ironbus /);
      expect(result.stderr).toBe("");
    }
    for (const spelling of ["version", "--version", "-V"]) {
      const result = await run([spelling]);
      expect(result.code, spelling).toBe(0);
      expect(String(result.stdout)).toBe(`${version}\n`);
      expect(version).toMatch(/^ironbus \S+$/);
    }
  });

  it.each([
    [["sub", "--bogus"], "unknown flag `--bogus` for sub"],
    [["sub", "x"], "sub takes no positional arguments, got `x`"],
    [["pub", "a", "b"], "pub takes at most one payload argument"],
    [["sub", "--max"], "`--max` needs a value"],
    [["sub", "--max", "x"], "`--max` needs a number, got `x`"],
    [["sub", "--group", "a b"], "`--group` needs 1 to 128 graphic ASCII characters, got `a b`"],
    [["sub", "--addr", "nowhere"], "`--addr` needs an address of the form <host>:<port>, got `nowhere`"],
    [["pub", "--lines", "x"], "`--lines` reads stdin"],
    [["peek"], "peek requires `--data-dir <dir>`"],
    [["dump", "--data-dir", "d", "--limit", "-1"], "`--limit` needs a number, got `-1`"],
    [["pub", "x", "--json"], "unknown flag `--json` for pub"],
    [["help", "nope"], "unknown subcommand `nope`"],
  ])("cli.md 13.4: %j is a usage error", async (args, message) => {
    const result = await run(args);
    expect(result.code).toBe(1);
    expect(result.stderr.startsWith(`error: ${message}`), result.stderr).toBe(true);
    expect(result.stderr).toContain("\n\nusage: ironbus ");
    expect(result.stdout.length).toBe(0);
  });

  it("cli.md 13.5: the envelope of a success, exactly", async () => {
    const envelope = `{"schema":"ironbus.cli.v1","ok":true,"exit_code":0,"data":{"stdout":"${version}\\n","lines":["${version}"]}}\n`;
    expect(String((await run(["--json", "version"])).stdout)).toBe(envelope);
    expect(String((await run(["--json", "--json", "version"])).stdout)).toBe(envelope);
  });

  it("cli.md 13.6: the envelope of a missing directory, with nothing on stderr", async () => {
    const result = await run(["--json", "peek", "--data-dir", "/nonexistent"]);
    expect(result.code).toBe(2);
    expect(result.stderr).toBe("");
    expect(JSON.parse(String(result.stdout))).toEqual({
      schema: "ironbus.cli.v1",
      ok: false,
      exit_code: 2,
      error: { kind: "not_found", message: "no data directory at /nonexistent" },
    });
  });

  it("cli.md 13.7: the envelope of a usage error, without usage text", async () => {
    for (const args of [["--json", "sub", "--bogus"], ["--json"]]) {
      const result = await run(args);
      expect(result.code).toBe(1);
      expect(result.stderr).toBe("");
      expect(JSON.parse(String(result.stdout)).error.kind).toBe("usage");
      expect(String(result.stdout)).not.toContain("usage: ironbus");
      expect(String(result.stdout)).toMatch(/^[^\n]*\n$/);
    }
  });

  it("cli.md 13.8: --json before the verb wraps the lines, after it belongs to the verb", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["m0"]);
    await broker.stop();
    const raw = String((await run(["dump", "--data-dir", broker.dataDir, "--json"])).stdout);
    expect(Object.keys(JSON.parse(raw))).toEqual(["offset", "ts_ms", "bytes", "key_bytes", "crc", "codec"]);
    const wrapped = JSON.parse(String((await run(["--json", "dump", "--data-dir", broker.dataDir])).stdout));
    expect(wrapped.data.lines).toEqual([
      expect.stringMatching(/^offset=0 ts_ms=\d+ bytes=2 key_bytes=0 crc=ok codec=none$/),
    ]);
  });

  it("cli.md 13.9: control bytes, quotes and backslashes survive the envelope", async () => {
    const broker = await TestBroker.start();
    const payload = '"\\\u0001\u001f\té\u2028';
    await broker.text("pub", [], { input: payload });
    const result = await run(["--json", "sub", "--addr", broker.address]);
    expect(JSON.parse(String(result.stdout)).data.lines).toEqual([
      `#0 gen=1 key= payload=${payload}`,
      "fetched 1 message(s)",
    ]);
  });

  it("cli.md 13.10: everything after -- is payload", async () => {
    const broker = await TestBroker.start();
    await broker.text("pub", ["--", "--json"]);
    expect(await broker.text("sub")).toContain("payload=--json\n");
  });

  it("cli.md 13.81: help of a verb, and -h stays a payload", async () => {
    for (const args of [
      ["sub", "--help"],
      ["help", "sub"],
      ["sub", "--max", "3", "--help", "--bogus"],
    ]) {
      const result = await run(args);
      expect(result.code).toBe(0);
      expect(String(result.stdout)).toMatch(/^usage: ironbus sub \[--addr <host:port>\] /);
    }
    for (const [verb, exitCodes] of [
      ["help", /\n {2}130 and 143: /],
      ["pub", /exit code is 130 or 143/],
      ["sub", /the broker goes away the exit code is 5\./],
    ] as const) {
      expect(String((await run(verb === "help" ? ["help"] : ["help", verb])).stdout)).toMatch(exitCodes);
    }
    const broker = await TestBroker.start();
    await broker.text("pub", ["-h"]);
    expect(await broker.text("sub")).toContain("payload=-h\n");
  });

  it("cli.md 13.82: a typo of a verb or a flag gets a suggestion", async () => {
    expect((await run(["serv"])).stderr).toContain("unknown subcommand `serv` (did you mean `serve`?)");
    expect((await run(["dump", "--jsno"])).stderr).toContain("unknown flag `--jsno` for dump (did you mean `--json`?)");
  });

  it("cli.md 13.84: no escape bytes when piped", async () => {
    for (const args of [["help"], ["nope"], ["serve", "--help"], ["peek", "--data-dir", temporaryDirectory()]]) {
      const result = await run(args);
      expect(result.stdout.includes(0x1b)).toBe(false);
      expect(result.stderr).not.toContain("\u001b");
    }
  });
});
