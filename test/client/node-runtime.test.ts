import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { findNode } from "../support/real-node.ts";
import { RealBroker } from "./real-broker.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");

it("does everything under Node as well", async () => {
  const directory = mkdtempSync(join(tmpdir(), "ironbus-node-"));
  try {
    await using broker = await RealBroker.start();
    const program = join(directory, "program.mjs");
    const bun = join(root, "node_modules/.bin/bun");
    const source = join(import.meta.dirname, "node-program.ts");
    await run(bun, ["build", "--target=node", "--format=esm", `--outfile=${program}`, source]);
    const { stdout, stderr } = await run(findNode(), [program, String(broker.port)]);
    expect(stderr).toBe("");
    expect(stdout).toMatch(/^node \d+\.\d+\.\d+ ok\n$/);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
