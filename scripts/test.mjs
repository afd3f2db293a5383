// `npm test [-- arguments of vitest]`: sets up what is missing, then runs the whole suite under Bun.
import path from "node:path";
import { bun, ensureAddon, ensurePackages } from "./setup.mjs";
import { root, run, runMain } from "./steps.mjs";

await runMain(() => {
  ensurePackages();
  ensureAddon();
  const vitest = path.join(root, "node_modules", ".bin", "vitest");
  run("tests", bun, ["--bun", vitest, "run", ...process.argv.slice(2)]);
});
