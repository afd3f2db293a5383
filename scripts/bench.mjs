// `npm run bench [-- --short ...]`: builds the broker and the native load client, then measures. Arguments go to
// scripts/bench/main.ts, or with `--recovery` to scripts/bench/recovery.ts.
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
  const args = process.argv.slice(2);
  const script = args.includes("--recovery") ? "recovery.ts" : "main.ts";
  run("bench", bun, [`scripts/bench/${script}`, ...args]);
});
