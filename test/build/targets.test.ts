import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { targets, toolchain } from "../../scripts/build/targets.ts";
import { BUN, ROOT, run } from "./program.ts";

const manifest = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8"));

/** The newest glibc whose symbols an ELF file asks for. */
function glibcFloor(file: string): number[] {
  const text = readFileSync(file, "latin1");
  const versions = [...text.matchAll(/\0GLIBC_(\d+)\.(\d+)/g)].map((match) => [Number(match[1]), Number(match[2])]);
  return versions.reduce((a, b) => (b[0] > a[0] || (b[0] === a[0] && b[1] > a[1]) ? b : a), [0, 0]);
}

describe("targets/", () => {
  it("names one file for each of the three machines", () => {
    expect(targets.map(({ file }) => file)).toEqual([
      "ironbus-linux-amd64",
      "ironbus-linux-arm64",
      "ironbus-linux-armv7",
    ]);
  });

  it("ships the very Bun that the tests run under", () => {
    const version = run([BUN, "--version"]).stdout.trim();
    expect(manifest.devDependencies.bun).toBe(version);
    for (const { runtime } of targets.filter((each) => each.runtime.kind === "bun")) {
      expect(runtime.version).toBe(version);
    }
  });

  it("pins everything that is fetched by a hash", () => {
    for (const { runtime } of targets) {
      expect(runtime.integrity).toMatch(/^sha512-[A-Za-z0-9+/]{86}==$/);
    }
    for (const { sha256 } of [...toolchain.rust.packages, ...toolchain.linker.packages]) {
      expect(sha256).toMatch(/^[0-9a-f]{64}$/);
    }
  });

  it("says of compiler and linker what the tool chain has", () => {
    const [compiler] = toolchain.rust.version.split("+");
    for (const { addon } of targets) {
      expect(addon.compiler).toBe(`rustc ${compiler}`);
      expect(addon.linker).toBe(`zig ${toolchain.linker.packages[0].version}`);
    }
  });

  // They are there after `npm run build:all`.
  const built = targets.map((target) => ({
    ...target,
    library: path.join(ROOT, "dist", "build", target.name, `ironbus-${target.addon.node_name}.node`),
    executable: path.join(ROOT, "dist", target.file),
  }));
  const complete = built.every(({ library, executable }) => existsSync(library) && existsSync(executable));

  it.skipIf(!complete)("the addons load with glibc 2.17", () => {
    for (const { library } of built) {
      const [major, minor] = glibcFloor(library);
      expect(major).toBe(2);
      expect(minor).toBeGreaterThan(0);
      expect(minor).toBeLessThanOrEqual(17);
    }
  });

  it.skipIf(!complete)("each executable carries the addon that was built for it", () => {
    for (const { runtime, library, executable } of built) {
      const addon = readFileSync(library);
      const wanted = runtime.kind === "bun" ? addon : Buffer.from(addon.toString("base64"), "latin1");
      expect(readFileSync(executable).includes(wanted)).toBe(true);
    }
  });

  it.skipIf(!complete)("SHA256SUMS agrees with the files", () => {
    const check = spawnSync("sha256sum", ["--check", "--strict", "SHA256SUMS"], {
      cwd: path.join(ROOT, "dist"),
      encoding: "utf8",
    });
    expect(check.stdout).toBe(built.map(({ file }) => `${file}: OK\n`).join(""));
  });
});
