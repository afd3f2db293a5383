import type { ParsedFlags } from "../../config/flags.ts";
import { UsageError } from "../../config/usage-error.ts";
import { DATA_DIR_FLAG, dataDirectory } from "../offline-flags.ts";
import type { Context, Verb } from "../verb.ts";

export const migrateVerb: Verb = {
  name: "migrate",
  grammar: {
    path: "migrate",
    flags: [
      DATA_DIR_FLAG,
      { name: "--allow", kind: "u32", placeholder: "<version>", help: "format version to agree to, 0 to 255" },
    ],
    maxPositionals: 0,
  },
  synopsis: "--data-dir <dir> [--allow <version>]",
  summary: "tell whether a data directory is of this build's format, changing nothing",
  notes: "There is no other format that a directory could be brought to or from; any is refused.",
  async run(flags: ParsedFlags, context: Context) {
    const directory = dataDirectory("migrate", flags);
    const allowed = flags.number("--allow");
    if (allowed !== undefined && allowed > 255n) {
      throw new UsageError(`\`--allow\` needs a number, got \`${allowed}\``);
    }
    const { runMigrate } = await import("../migrate.ts");
    return await runMigrate(directory, allowed === undefined ? undefined : Number(allowed), context);
  },
};
