import type { ParsedFlags } from "../../config/flags.ts";
import { DATA_DIR_FLAG, dataDirectory } from "../offline-flags.ts";
import type { Context, Verb } from "../verb.ts";

export const dumpVerb: Verb = {
  name: "dump",
  grammar: {
    path: "dump",
    flags: [
      DATA_DIR_FLAG,
      { name: "--limit", kind: "u64", placeholder: "<n>", help: "most records to show (all)" },
      { name: "--json", kind: "switch", help: "one JSON object per line" },
      { name: "--raw", kind: "switch", help: "show stored lengths, do not decompress" },
    ],
    maxPositionals: 0,
  },
  synopsis: "--data-dir <dir> [--limit <n>] [--json] [--raw]",
  summary: "show the metadata of every record of a data directory, without a broker",
  notes: `
Records are read up to the first torn or bad one; what follows it is listed after them. Payloads are never printed.`,
  async run(flags: ParsedFlags, context: Context) {
    const directory = dataDirectory("dump", flags);
    const { printRecords } = await import("../print-records.ts");
    return await printRecords(
      directory,
      { fromOffset: 0n, limit: flags.number("--limit"), json: flags.has("--json"), raw: flags.has("--raw") },
      context,
    );
  },
};
