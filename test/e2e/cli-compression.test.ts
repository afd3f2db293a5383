import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { cleanUp, run, TestBroker, temporaryDirectory } from "./harness.ts";

afterEach(cleanUp);

/** Node 20 has no zstd: there everything that needs it is refused, and says so. */
let hasZstd = false;

beforeAll(async () => {
  const { code, stderr } = await run(["dict", "ls", "--data-dir", temporaryDirectory()]);
  hasZstd = code === 0;
  if (!hasZstd) expect([code, stderr]).toEqual([1, expect.stringContaining("needs a build with zstd")]);
});

/** Bytes of all segments, without the zeros of what is reserved. */
function storedBytes(dataDir: string): number {
  const segments = readdirSync(dataDir).filter((name) => /^seg-.*\.log$/.test(name));
  return segments.reduce((sum, name) => sum + readFileSync(join(dataDir, name)).filter((byte) => byte !== 0).length, 0);
}

describe("serve --compression", () => {
  const payload = "temperature=21.5;humidity=40;".repeat(100);

  async function stored(compression: readonly string[]): Promise<number> {
    const broker = await TestBroker.start(compression);
    await broker.text("pub", [payload]);
    expect(await broker.text("sub", ["--max", "1"])).toContain(payload);
    await broker.stop();
    const { stdout } = await run(["dump", "--data-dir", broker.dataDir]);
    expect(String(stdout)).toContain(` bytes=${payload.length} `);
    return storedBytes(broker.dataDir);
  }

  it("cli.md 13.47: lz4 is the default, none stores payloads as they are", async () => {
    const none = await stored(["--compression", "none"]);
    expect(none).toBeGreaterThan(payload.length);
    expect(await stored([])).toBeLessThan(none / 10);
  });

  it("config.md 19.36: zstd works where there is one, and is refused at start where there is none", async () => {
    if (hasZstd) {
      expect(await stored(["--compression", "zstd"])).toBeLessThan(payload.length / 10);
      return;
    }
    const dataDir = join(temporaryDirectory(), "data");
    const { code, stderr } = await run(["serve", "--data-dir", dataDir, "--compression", "zstd"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("needs a runtime with zstd")]);
    expect(() => statSync(dataDir)).toThrow("ENOENT");
  });
});

describe("dict", () => {
  it("cli.md 9: train is not there, and says what does it", async () => {
    const { code, stderr } = await run(["dict", "train"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("zstd --train")]);
  });

  it.each([[[]], [["frobnicate"]], [["install", "more"]], [["ls"]], [["install", "--data-dir", "."]]])(
    "dict %j is a usage error",
    async (args) => {
      expect((await run(["dict", ...args])).code).toBe(1);
    },
  );

  it("cli.md 9: install and ls", async (context) => {
    if (!hasZstd) return context.skip("this build has no zstd");
    const directory = temporaryDirectory();
    const dataDir = join(directory, "data");
    const file = join(directory, "dictionary");
    writeFileSync(file, "temperature=21.5;humidity=40;");
    const install = (...more: string[]) => run(["dict", "install", "--data-dir", dataDir, "--dict", ...more]);
    const list = async (...more: string[]) =>
      String((await run(["dict", "ls", "--data-dir", dataDir, ...more])).stdout);
    expect((await install(file)).code).toBe(2);
    mkdirSync(dataDir);
    expect((await install(join(directory, "absent"))).code).toBe(2);
    expect((await install(directory)).code).toBe(1);
    const pipe = join(directory, "pipe");
    execFileSync("mkfifo", [pipe]);
    expect((await install(pipe)).code).toBe(1);
    expect(await list()).toBe(`dict ls: 0 dictionaries in ${dataDir}\n`);

    const installed = await install(file, "--json");
    const { dict_id: id, ...rest } = JSON.parse(String(installed.stdout));
    expect(rest).toEqual({ schema: "ironbus.cli.dict-install.v1", data_dir: dataDir, dict_bytes: 29, ok: true });
    expect(readFileSync(join(dataDir, "dicts", `${id}.zstd`), "utf8")).toBe("temperature=21.5;humidity=40;");
    expect(String((await install(file)).stdout)).toBe(`dict install: dictionary ${id} (29 byte(s)) is in ${dataDir}\n`);
    expect(await list()).toBe(`dict_id=${id}\ndict ls: 1 dictionary in ${dataDir}\n`);
    expect(JSON.parse(await list("--json"))).toEqual({
      schema: "ironbus.cli.dict-ls.v1",
      dict_ids: [id],
      count: 1,
      ok: true,
    });

    const large = join(directory, "large");
    writeFileSync(large, "");
    expect((await install(large)).code).toBe(1);
    truncateSync(large, 16 * 1024 * 1024 + 1);
    expect((await install(large)).code).toBe(1);
  });
});
