import type { ParsedFlags } from "../../config/flags.ts";
import { UsageError } from "../../config/usage-error.ts";
import { DATA_DIR_FLAG, dataDirectory, JSON_FLAG, RECOVERY_FLAG, recoveryMode } from "../offline-flags.ts";
import type { Context, Verb } from "../verb.ts";

export const repairVerb: Verb = {
  name: "repair",
  grammar: {
    path: "repair",
    flags: [
      DATA_DIR_FLAG,
      { name: "--apply", kind: "switch", help: "carry the plan out (needs --force)" },
      { name: "--force", kind: "switch", help: "confirms --apply" },
      RECOVERY_FLAG,
      JSON_FLAG,
    ],
    maxPositionals: 0,
  },
  synopsis: "--data-dir <dir> [--apply --force] [--recovery salvage|strict] [--json]",
  summary: "show what a repair would do to a data directory, or do it",
  notes: `
A repair does what a start does, without the caps on what may be lost: copies of corrupt spans go to quarantine/, the torn
end of the log is cut off, and what is lost inside the log is accepted, so that a log that opened read-only takes records
again. Nothing intact is changed. exit codes: as scrub; 5 while a broker runs.`,
  async run(flags: ParsedFlags, context: Context) {
    const directory = dataDirectory("repair", flags);
    const apply = flags.has("--apply");
    if (apply && !flags.has("--force")) {
      throw new UsageError(
        "repair --apply MUTATES the data dir: confirm it with --force, or leave --apply out for a plan",
      );
    }
    if (!apply && flags.has("--force")) {
      throw new UsageError("repair --force goes with --apply");
    }
    const options = { directory, recovery: recoveryMode(flags), json: flags.has("--json") };
    const { runRepair } = await import("../repair.ts");
    return await runRepair(options, apply, context);
  },
};
