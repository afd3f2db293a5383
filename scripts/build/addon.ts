// The native addon of one target.
import { spawnSync } from "node:child_process";
import path from "node:path";
import { root, StepError, say } from "../steps.mjs";
import type { Target } from "./targets.ts";
import { crossEnvironment } from "./toolchain.ts";

/** Cross-builds the addon with the pinned tool chain and gives its path. */
export function buildAddon({ name, addon }: Target): string {
  const environment = crossEnvironment();
  say(`ironbus: building the addon of ${name}`);
  const result = spawnSync(
    "bash",
    [
      "scripts/build-native.sh",
      ...["--target", addon.rust_target],
      ...["--cargo", "cargo zigbuild"],
      // Apart from dist/native, which holds what this machine's own compiler made for its own use.
      ...["--into", path.join("dist", "build", name)],
    ],
    { cwd: root, env: { ...process.env, ...environment }, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 },
  );
  if (result.status !== 0) {
    throw new StepError(`addon: ${addon.rust_target} was not built:\n${result.stderr}`);
  }
  return result.stdout.trim();
}
