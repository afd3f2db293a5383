import type { ParsedFlags } from "../../config/flags.ts";
import { DATA_DIR_FLAG, dataDirectory, RECOVERY_FLAG, recoveryMode } from "../offline-flags.ts";
import type { Context, Verb } from "../verb.ts";

const DEFAULT_LIMIT = 10n;

export const peekVerb: Verb = {
  name: "peek",
  grammar: {
    path: "peek",
    flags: [
      DATA_DIR_FLAG,
      {
        name: "--from-offset",
        aliases: ["--offset"],
        kind: "u64",
        placeholder: "<n>",
        help: "first offset to show (0)",
      },
      { name: "--limit", kind: "u64", placeholder: "<n>", help: "most records to show (10)" },
      RECOVERY_FLAG,
      { name: "--json", kind: "switch", help: "one JSON object per line" },
    ],
    maxPositionals: 0,
  },
  synopsis: "--data-dir <dir> [--from-offset <n>] [--limit <n>] [--recovery salvage|strict] [--json]",
  summary: "show the metadata of a few records of a data directory, without a broker",
  async run(flags: ParsedFlags, context: Context) {
    const directory = dataDirectory("peek", flags);
    const { printRecords } = await import("../print-records.ts");
    return await printRecords(
      directory,
      {
        fromOffset: flags.number("--from-offset") ?? 0n,
        limit: flags.number("--limit") ?? DEFAULT_LIMIT,
        json: flags.has("--json"),
        raw: false,
        requireDictionary: false,
        recovery: recoveryMode(flags),
      },
      context,
    );
  },
};
