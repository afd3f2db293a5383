// Style, the import rule of docs/ARCHITECTURE.md, and the built-ins that Node 20.11 does not have.
import path from "node:path";
import { bun, ensurePackages } from "./setup.mjs";
import { root, run, runMain, say } from "./steps.mjs";

const bin = (name) => path.join(root, "node_modules", ".bin", name);

await runMain(() => {
  ensurePackages();
  run("style", bin("biome"), ["check", "--error-on-warnings", "."]);
  // Under Bun: dependency-cruiser refuses Node 20.
  run("import rule", bun, ["--bun", bin("depcruise"), "--config", ".dependency-cruiser.mjs", "src"], { quiet: true });
  run("built-ins", "node", ["scripts/check-built-ins.mjs"]);
  say("ironbus: lint is clean");
});
