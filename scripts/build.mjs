// `npm run build [-- host | node | client | all | <target>...]`: sets up what is missing, then builds.
import { bun, ensureAddon, ensureClient, ensureHost, ensureNodeBundle, ensurePackages } from "./setup.mjs";
import { run, runMain } from "./steps.mjs";

await runMain(() => {
  const [what = "host", ...more] = process.argv.slice(2);
  ensurePackages();
  if (what === "client") {
    ensureClient();
  } else if (what === "host") {
    ensureAddon();
    ensureHost();
  } else if (what === "node") {
    ensureAddon();
    ensureNodeBundle();
  } else {
    run("build", bun, ["scripts/build/main.ts", what, ...more]);
  }
});
