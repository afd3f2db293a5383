import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, realpathSync, symlinkSync } from "node:fs";
import path from "node:path";
import { afterEach, expect, it } from "vitest";
import { BUN, cleanUp, ROOT, run, temporaryDirectory } from "./program.ts";

afterEach(cleanUp);

/** The packages that end up in the bundles. */
const BUNDLED = ["node_modules/crc-32", "node_modules/@noble/hashes"];

/** Copies what the build reads to another place, builds there, and gives the hashes of the results. */
function buildIn(directory: string): string[] {
  const inputs = ["src", "scripts", "targets", "package.json", "package-lock.json", "tsconfig.json", ...BUNDLED];
  for (const each of [...inputs, "dist/native"]) {
    cpSync(path.join(ROOT, each), path.join(directory, each), { recursive: true });
  }
  // The runtime is an input too.
  const bin = path.join(directory, "node_modules", ".bin");
  mkdirSync(bin, { recursive: true });
  symlinkSync(realpathSync(BUN), path.join(bin, "bun"));
  for (const what of ["host", "node"]) {
    const result = run([BUN, "scripts/build/main.ts", what], { cwd: directory });
    expect(result.stderr).toBe("");
    expect(result.code).toBe(0);
  }
  return ["ironbus", "ironbus-node.cjs"].map((name) =>
    createHash("sha256")
      .update(readFileSync(path.join(directory, "dist", name)))
      .digest("hex"),
  );
}

it("the same sources give the same bytes, wherever they are", () => {
  const directory = temporaryDirectory();
  const first = buildIn(path.join(directory, "one"));
  const second = buildIn(path.join(directory, "another", "place"));
  expect(second).toEqual(first);
});
