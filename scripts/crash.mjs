// `node scripts/crash.mjs [--rounds <n>] [--seed <n>]`: the long form of test/crash/kill-rounds.test.ts. A broker under
// load is killed and started again, `rounds` times in all (1000 unless given); IRONBUS_COMMAND names another command than
// the sources, as for the end-to-end tests.
import path from "node:path";
import { parseArgs } from "node:util";
import { bun, ensureAddon, ensurePackages } from "./setup.mjs";
import { root, run, runMain, StepError } from "./steps.mjs";

function wholeNumber(name, text) {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new StepError(`--${name} must be a whole number above 0, got ${text}`);
  }
  return String(value);
}

await runMain(() => {
  const { values } = parseArgs({
    options: { rounds: { type: "string", default: "1000" }, seed: { type: "string", default: String(Date.now()) } },
  });
  const env = {
    IRONBUS_CRASH_ROUNDS: wholeNumber("rounds", values.rounds),
    IRONBUS_CRASH_SEED: wholeNumber("seed", values.seed),
  };
  ensurePackages();
  ensureAddon();
  const vitest = path.join(root, "node_modules", ".bin", "vitest");
  run("crash rounds", bun, ["--bun", vitest, "run", "test/crash/kill-rounds.test.ts"], { env });
});
