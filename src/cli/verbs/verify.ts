import type { ParsedFlags } from "../../config/flags.ts";
import { DATA_DIR_FLAG, dataDirectory, JSON_FLAG, RECOVERY_FLAG, recoveryMode } from "../offline-flags.ts";
import type { Context, Verb } from "../verb.ts";

export const verifyVerb: Verb = {
  name: "verify",
  grammar: { path: "verify", flags: [DATA_DIR_FLAG, RECOVERY_FLAG, JSON_FLAG], maxPositionals: 0 },
  synopsis: "--data-dir <dir> [--recovery salvage|strict] [--json]",
  summary: "scrub a data directory and check its cursors, dead letters and layout, changing nothing",
  notes: `
exit codes: 0 in order, 3 data is lost or a cursor lies outside of its log, 4 what is there cannot be opened at all, or
with --recovery strict damage inside the log. Quarantined bytes are no issue.`,
  async run(flags: ParsedFlags, context: Context) {
    const options = {
      directory: dataDirectory("verify", flags),
      recovery: recoveryMode(flags),
      json: flags.has("--json"),
    };
    const { runVerify } = await import("../inspect.ts");
    return await runVerify(options, context);
  },
};
