import type { ParsedFlags } from "../../config/flags.ts";
import { dataDirectory, JSON_FLAG, requiredDirectory } from "../offline-flags.ts";
import type { Context, Verb } from "../verb.ts";

export const restoreVerb: Verb = {
  name: "restore",
  grammar: {
    path: "restore",
    flags: [
      { name: "--from", kind: "text", placeholder: "<dir>", help: "the backup (required)" },
      {
        name: "--data-dir",
        kind: "text",
        placeholder: "<dir>",
        help: "data directory to fill: new or empty (required)",
      },
      { name: "--force", aliases: ["--yes"], kind: "switch", help: "delete what is in the data directory first" },
      JSON_FLAG,
    ],
    maxPositionals: 0,
  },
  synopsis: "--from <dir> --data-dir <dir> [--force] [--json]",
  summary: "fill a data directory from a backup, after checking every byte of it",
  notes: `
Until the whole backup is checked nothing is written or deleted. A restore that was interrupted after that leaves a
directory that no broker opens; run it again with --force. What root restores belongs to the data directory's owner: make
the directory with the right one first, or run this as the user that runs the broker.`,
  async run(flags: ParsedFlags, context: Context) {
    const options = {
      from: requiredDirectory("restore", flags, "--from"),
      directory: dataDirectory("restore", flags),
      force: flags.has("--force"),
      json: flags.has("--json"),
    };
    const { runRestore } = await import("../copy-directory.ts");
    return await runRestore(options, context);
  },
};
