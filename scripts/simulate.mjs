// `node scripts/simulate.mjs --seeds N [--from S] | --seed S`: power cuts on a simulated disk, as many seeds as wanted.
// Arguments go to scripts/simulate/main.ts.
import { bun, ensureAddon, ensurePackages } from "./setup.mjs";
import { root, run, runMain } from "./steps.mjs";

await runMain(() => {
  ensurePackages();
  ensureAddon();
  run("simulation", bun, ["scripts/simulate/main.ts", ...process.argv.slice(2)], { cwd: root });
});
