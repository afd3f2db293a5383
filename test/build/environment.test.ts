import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { silenceEnvironment } from "../../scripts/build/environment-names.ts";
import { BINARY, BUN, cleanUp, ROOT, run, serve, temporaryDirectory } from "./program.ts";

afterEach(cleanUp);

const PRELOADED = "a file of the surroundings ran";

/** A working directory with a script that the surroundings would have run. */
function hostileDirectory(): string {
  const directory = temporaryDirectory();
  writeFileSync(path.join(directory, "preload.js"), `console.log(${JSON.stringify(PRELOADED)});\n`);
  writeFileSync(path.join(directory, "main.js"), 'console.log("main");\n');
  return directory;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

describe("the executable stays itself whatever surrounds it", () => {
  const version = run([BINARY, "version"]).stdout;

  it("says its own version", () => {
    expect(version).toMatch(/^ironbus \d+\.\d+\.\d+\n$/);
  });

  const harmless: [string, string][] = [
    ["BUN_BE_BUN", "1"],
    ["BUN_OPTIONS", "--preload ./preload.js"],
    ["BUN_OPTIONS", "--no-addons"],
    ["BUN_OPTIONS", "--version"],
    ["BUN_INSPECT_PRELOAD", "./preload.js"],
    ["BUN_INSPECT_CONNECT_TO", "unix:///nowhere"],
    ["BUN_INSPECT_NOTIFY", "unix:///nowhere"],
    ["BUN_CONFIG_PRELOAD", "./preload.js"],
    ["NODE_OPTIONS", "--require ./preload.js"],
    ["NODE_PATH", "."],
  ];
  it.each(harmless)("%s=%s has no effect", async (name, value) => {
    const cwd = hostileDirectory();
    const environment = { [name]: value };
    expect(run([BINARY, "version"], { cwd, environment })).toEqual({ code: 0, stdout: version, stderr: "" });
    const quiet = await serve([BINARY], { cwd });
    const started = await serve([BINARY], { cwd, environment });
    expect(started.address).toBeDefined();
    // The second line repeats the configuration, with another data directory.
    const lines = (text: string) => text.split("\n").filter((line) => !line.startsWith("materialized-config"));
    expect(lines(started.stderr)).toEqual(lines(quiet.stderr));
  });

  it("the same variables do have an effect on a Bun as it comes", () => {
    const cwd = hostileDirectory();
    const environment = { BUN_OPTIONS: "--preload ./preload.js" };
    expect(run([BUN, "main.js"], { cwd, environment }).stdout).toBe(`${PRELOADED}\nmain\n`);
  });

  it("BUN_BE_BUN does not make it run a script", () => {
    const cwd = hostileDirectory();
    const result = run([BINARY, "run", "main.js"], { cwd, environment: { BUN_BE_BUN: "1" } });
    expect(result.code).not.toBe(0);
    expect(result.stdout).not.toContain("main");
  });

  it("BUN_INSPECT opens no debugger", async () => {
    const port = 20_000 + (process.pid % 10_000);
    const environment = { BUN_INSPECT: `127.0.0.1:${port}` };
    const { address } = await serve([BINARY], { environment });
    expect(address).toBeDefined();
    expect(await accepts(Number(address?.split(":")[1]))).toBe(true);
    expect(await accepts(port)).toBe(false);
  });

  it("BUN_BYTECODE_ORDER_OUT writes no file", () => {
    const cwd = hostileDirectory();
    run([BINARY, "version"], { cwd, environment: { BUN_BYTECODE_ORDER_OUT: path.join(cwd, "order") } });
    expect(existsSync(path.join(cwd, "order"))).toBe(false);
  });

  it("an unknown BUN_JSC_ option is refused", () => {
    const result = run([BINARY, "version"], { environment: { BUN_JSC_noSuchOption: "1" } });
    expect(result.code).toBe(1);
    expect(result.stdout).toBe("");
  });

  it("bunfig.toml in the working directory is not read", () => {
    const cwd = hostileDirectory();
    writeFileSync(path.join(cwd, "bunfig.toml"), 'preload = ["./preload.js"]\n');
    expect(run([BUN, "main.js"], { cwd }).stdout).toContain(PRELOADED);
    expect(run([BINARY, "version"], { cwd })).toEqual({ code: 0, stdout: version, stderr: "" });
  });

  it(".env in the working directory is not read", async () => {
    const cwd = hostileDirectory();
    writeFileSync(path.join(cwd, ".env"), "IRONBUS_MAX_CONNECTIONS=7\n");
    const unread = await serve([BINARY], { cwd });
    expect(unread.stderr).toContain(" max_connections=256 ");
    const set = await serve([BINARY], { cwd, environment: { IRONBUS_MAX_CONNECTIONS: "7" } });
    expect(set.stderr).toContain(" max_connections=7 ");
  });

  it("a stripped copy is a plain Bun, which the text of --version tells", () => {
    const copy = path.join(temporaryDirectory(), "ironbus");
    copyFileSync(BINARY, copy);
    expect(run([copy, "--version"]).stdout).toBe(version);
    if (spawnSync("strip", [copy]).status === 0) {
      expect(run([copy, "--version"]).stdout).not.toMatch(/^ironbus /);
    }
  });
});

describe("names in a runtime", () => {
  it("overwrites every occurrence with as many bytes and nothing else", () => {
    const text = "a\0BUN_BE_BUN\0BUN_OPTIONS BUN_INSPECT_PRELOAD\0BUN_INSPECT\0BUN_BYTECODE_ORDER_OUT\0BUN_TMPDIR";
    const bytes = Buffer.from(text, "latin1");
    silenceEnvironment(bytes, "bun");
    expect(bytes.toString("latin1")).toBe(
      "a\0=UN_BE_BUN\0=UN_OPTIONS =UN_INSPECT_PRELOAD\0=UN_INSPECT\0=UN_BYTECODE_ORDER_OUT\0BUN_TMPDIR",
    );
  });

  it("leaves the word alone where it is part of a text of Node", () => {
    const bytes = Buffer.from("\0NODE_OPTIONS\0not allowed in NODE_OPTIONS\0", "latin1");
    silenceEnvironment(bytes, "node");
    expect(bytes.toString("latin1")).toBe("\0=ODE_OPTIONS\0not allowed in NODE_OPTIONS\0");
  });

  it("fails when a runtime keeps a name elsewhere", () => {
    expect(() => silenceEnvironment(Buffer.from("BUN_BE_BUN BUN_INSPECT"), "bun")).toThrow("BUN_OPTIONS");
  });
});

const ARMV7 = path.join(ROOT, "dist", "ironbus-linux-armv7");
const EMULATOR = ["qemu-arm-static", "-L", "/usr/arm-linux-gnueabihf"];
const runsArmv7 = existsSync(ARMV7) && spawnSync(EMULATOR[0], ["-version"]).status === 0;

// It is there after `npm run build:all`, and needs the emulator.
describe.skipIf(!runsArmv7)("the 32-bit ARM executable", () => {
  it("NODE_OPTIONS has no effect", { timeout: 120_000 }, () => {
    const cwd = hostileDirectory();
    const command = [...EMULATOR, ARMV7, "version"];
    for (const value of ["--require ./preload.js", "--no-such-option"]) {
      expect(run(command, { cwd, environment: { NODE_OPTIONS: value } })).toEqual({
        code: 0,
        stdout: run([BINARY, "version"]).stdout,
        stderr: "",
      });
    }
  });
});
