import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDiskFileSystem } from "../../src/runtime/file-system-disk.ts";
import { toAddon } from "../../src/runtime/native/addon.ts";
import { fileScenarios } from "./file-system-scenarios.ts";

/** Runs every scenario in the runtime that runs this file, with the addon at the given path; one line of JSON each. */
const [, , addonPath] = process.argv;
const addon = addonPath === undefined ? undefined : toAddon(createRequire(addonPath)(addonPath));
for (const { title, run } of fileScenarios) {
  const root = mkdtempSync(join(tmpdir(), "ironbus-files-"));
  let failure: string | undefined;
  try {
    await run(createDiskFileSystem(addon), root);
  } catch (error) {
    failure = error instanceof Error ? (error.stack ?? error.message) : String(error);
  }
  rmSync(root, { recursive: true });
  process.stdout.write(`${JSON.stringify({ title, failure, bun: process.versions.bun })}\n`);
}
