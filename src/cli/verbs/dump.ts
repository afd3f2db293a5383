import type { ParsedFlags } from "../../config/flags.ts";
import { UsageError } from "../../config/usage-error.ts";
import { DATA_DIR_FLAG, dataDirectory, RECOVERY_FLAG, recoveryMode } from "../offline-flags.ts";
import type { Context, Verb } from "../verb.ts";

/** What shows records of the log, and dead letters not. */
const RECORD_FLAGS = ["--raw", "--require-dict", "--recovery"];

export const dumpVerb: Verb = {
  name: "dump",
  grammar: {
    path: "dump",
    flags: [
      DATA_DIR_FLAG,
      { name: "--limit", kind: "u64", placeholder: "<n>", help: "most records to show (all)" },
      RECOVERY_FLAG,
      { name: "--json", kind: "switch", help: "one JSON object per line" },
      { name: "--raw", kind: "switch", help: "show stored lengths, do not decompress" },
      { name: "--require-dict", kind: "switch", help: "stop with exit code 3 at a dictionary that is not there" },
      { name: "--dlq", kind: "switch", help: "show the dead letters instead" },
      {
        name: "--exchange",
        kind: "text",
        placeholder: "<name>",
        help: "with --dlq: those of this dead-letter exchange",
      },
    ],
    maxPositionals: 0,
  },
  synopsis:
    "--data-dir <dir> [--limit <n>] [--recovery salvage|strict] [--json] [--raw] [--require-dict] [--dlq [--exchange <name>]]",
  summary: "show the metadata of every record of a data directory, without a broker",
  notes: `
Every intact record is shown; what is torn, bad or missing is listed after them. Payloads are never printed.`,
  async run(flags: ParsedFlags, context: Context) {
    const directory = dataDirectory("dump", flags);
    const limit = flags.number("--limit");
    const json = flags.has("--json");
    const exchange = flags.text("--exchange");
    if (!flags.has("--dlq")) {
      if (exchange !== undefined) {
        throw new UsageError("`--exchange` goes with `--dlq`");
      }
      const { printRecords } = await import("../print-records.ts");
      return await printRecords(
        directory,
        {
          fromOffset: 0n,
          limit,
          json,
          raw: flags.has("--raw"),
          requireDictionary: flags.has("--require-dict"),
          recovery: recoveryMode(flags),
        },
        context,
      );
    }
    const misplaced = RECORD_FLAGS.find((flag) => flags.has(flag));
    if (misplaced !== undefined) {
      throw new UsageError(`\`${misplaced}\` does not go with \`--dlq\``);
    }
    const { isExchangeName, printDeadLetters } = await import("../print-dead-letters.ts");
    if (exchange !== undefined && !isExchangeName(exchange)) {
      throw new UsageError(`\`--exchange\` needs the name of a dead-letter exchange, got \`${exchange}\``);
    }
    return await printDeadLetters(directory, { exchange, limit, json }, context);
  },
};
