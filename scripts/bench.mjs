// Measures the broker beside the bare limits of this machine, in one interleaved run. See docs/benchmark.md.
import path from "node:path";
import { bun, ensureAddon, ensureHost, ensurePackages } from "./setup.mjs";
import { root, run, runMain } from "./steps.mjs";

await runMain(() => {
  ensurePackages();
  ensureAddon();
  ensureHost();
  run("load client", "cargo", ["build", "--release", "--locked", "--quiet", "--package", "ironbus-load"], {
    cwd: path.join(root, "native"),
  });
  run("benchmark", bun, ["scripts/bench/main.ts", ...process.argv.slice(2)]);
});
