// `npm test [-- arguments of vitest]`: sets up what is missing, then runs the whole suite under Bun.
import path from "node:path";
import { bun, ensureAddon, ensureClient, ensureHost, ensureNodeBundle, ensurePackages } from "./setup.mjs";
import { root, run, runMain } from "./steps.mjs";

await runMain(() => {
  ensurePackages();
  ensureAddon();
  ensureClient();
  ensureHost();
  ensureNodeBundle();
  const vitest = path.join(root, "node_modules", ".bin", "vitest");
  run("tests", bun, ["--bun", vitest, "run", ...process.argv.slice(2)]);
});
