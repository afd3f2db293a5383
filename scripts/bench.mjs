// `npm run bench [-- --short ...]`: builds the broker and the native load client, then measures. Arguments go to
// scripts/bench/main.ts.
import { bun, ensureAddon, ensureClient, ensureHost, ensurePackages } from "./setup.mjs";
import { root, run, runMain } from "./steps.mjs";

await runMain(() => {
  ensurePackages();
  ensureAddon();
  ensureClient();
  ensureHost();
  run("load client", "cargo", ["build", "--release", "--locked", "--quiet", "--package", "ironbus-load"], {
    cwd: `${root}/native`,
  });
  run("bench", bun, ["scripts/bench/main.ts", ...process.argv.slice(2)]);
});
