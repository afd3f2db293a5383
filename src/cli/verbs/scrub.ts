import type { ParsedFlags } from "../../config/flags.ts";
import { DATA_DIR_FLAG, dataDirectory, JSON_FLAG, RECOVERY_FLAG, recoveryMode } from "../offline-flags.ts";
import type { Context, Verb } from "../verb.ts";

export const scrubVerb: Verb = {
  name: "scrub",
  grammar: { path: "scrub", flags: [DATA_DIR_FLAG, RECOVERY_FLAG, JSON_FLAG], maxPositionals: 0 },
  synopsis: "--data-dir <dir> [--recovery salvage|strict] [--json]",
  summary: "read every record of a data directory and show what is damaged, changing nothing",
  notes: `
exit codes: 0 no data is lost (a torn tail alone is none), 3 data is lost, 4 what is there cannot be opened at all, or with
--recovery strict damage inside the log. A log beside the default stream's (dead letters, named streams) is read as well.`,
  async run(flags: ParsedFlags, context: Context) {
    const options = {
      directory: dataDirectory("scrub", flags),
      recovery: recoveryMode(flags),
      json: flags.has("--json"),
    };
    const { runScrub } = await import("../inspect.ts");
    return await runScrub(options, context);
  },
};
