// `npm run types`: the types of everything, examples included, which use the built client.
import path from "node:path";
import { ensureClient, ensurePackages } from "./setup.mjs";
import { root, run, runMain, say } from "./steps.mjs";

await runMain(() => {
  ensurePackages();
  ensureClient();
  run("types", path.join(root, "node_modules", ".bin", "tsc"), ["--noEmit"]);
  say("ironbus: types are clean");
});
