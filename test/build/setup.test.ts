import { chmodSync, cpSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { cleanUp, ROOT, run, temporaryDirectory } from "./program.ts";

afterEach(cleanUp);

/** Lets the scripts build the addon in a checkout of their own, with `cargo` as the tool chain. */
function ensureAddon(cargo: string, environment: Record<string, string> = {}) {
  const checkout = temporaryDirectory();
  cpSync(path.join(ROOT, "scripts"), path.join(checkout, "scripts"), { recursive: true });
  const stale = path.join(checkout, "dist", "native", `ironbus-${process.platform}-${process.arch}.node`);
  for (const directory of ["native", "bin", "dist/native"]) {
    mkdirSync(path.join(checkout, directory), { recursive: true });
  }
  writeFileSync(stale, "built from other sources");
  const program = path.join(checkout, "bin", "cargo");
  writeFileSync(program, `#!/bin/sh\n${cargo}\n`);
  chmodSync(program, 0o755);
  const main = `
    import { ensureAddon } from "./scripts/setup.mjs";
    import { runMain } from "./scripts/steps.mjs";
    await runMain(ensureAddon);`;
  const PATH = `${path.dirname(program)}:${process.env.PATH}`;
  const result = run(["node", "--input-type=module", "--eval", main], {
    cwd: checkout,
    environment: { ...environment, PATH, HOME: checkout },
  });
  return { ...result, addonIsThere: existsSync(stale) };
}

const ABSENT = "exit 127";
const OFFLINE = '[ "$1" = --version ] && exit; seq 30 >&2; echo "error: no network" >&2; exit 101';

describe("setup", () => {
  it("goes on without the addon where there is no working cargo, and says so once", () => {
    const { code, stderr, addonIsThere } = ensureAddon(ABSENT);
    expect(stderr).toBe(
      "ironbus: no working cargo found: building without the native addon (slower, same data); " +
        "install Rust 1.85 or later and run this again for it\n",
    );
    expect(code).toBe(0);
    expect(addonIsThere).toBe(false);
  });

  it("goes on without the addon when its build fails, with the end of what cargo said", () => {
    const { code, stderr, addonIsThere } = ensureAddon(OFFLINE);
    expect(stderr).toMatch(
      /addon\n12\n(\d+\n)+error: no network\nironbus: WARNING: the native addon could not be built/,
    );
    expect(code).toBe(0);
    expect(addonIsThere).toBe(false);
  });

  it.each([
    [ABSENT, "ironbus: addon: no working cargo found\n"],
    [OFFLINE, "error: no network\nironbus: addon: bash scripts/build-native.sh ended with 101\n"],
  ])("IRONBUS_REQUIRE_ADDON=1 makes either an error", (cargo, message) => {
    const { code, stderr } = ensureAddon(cargo, { IRONBUS_REQUIRE_ADDON: "1" });
    expect(stderr.endsWith(message), stderr).toBe(true);
    expect(code).toBe(1);
  });

  it("names the Node that it needs to one that is too old", () => {
    const main = `
      import { runMain } from "./scripts/steps.mjs";
      Object.defineProperty(process.versions, "node", { value: "18.19.0" });
      await runMain(() => console.log("started"));`;
    const { code, stdout, stderr } = run(["node", "--input-type=module", "--eval", main], { cwd: ROOT });
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: "",
      stderr: "ironbus: Node 20 or later is needed, this is 18.19.0\n",
    });
  });
});
