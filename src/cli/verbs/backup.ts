import type { ParsedFlags } from "../../config/flags.ts";
import { DATA_DIR_FLAG, dataDirectory, JSON_FLAG, requiredDirectory } from "../offline-flags.ts";
import type { Context, Verb } from "../verb.ts";

export const backupVerb: Verb = {
  name: "backup",
  grammar: {
    path: "backup",
    flags: [
      DATA_DIR_FLAG,
      {
        name: "--out",
        kind: "text",
        placeholder: "<dir>",
        help: "directory to write the backup to: new or empty (required)",
      },
      JSON_FLAG,
    ],
    maxPositionals: 0,
  },
  synopsis: "--data-dir <dir> --out <dir> [--json]",
  summary: "copy the data directory of a stopped broker, with checksums",
  notes: `
The copy holds every regular file; empty directories, sockets, pipes and devices are left out, a symbolic link is refused.
Its MANIFEST is written last: without one, the backup was interrupted. Files are the caller's, owners are not kept.`,
  async run(flags: ParsedFlags, context: Context) {
    const options = {
      directory: dataDirectory("backup", flags),
      out: requiredDirectory("backup", flags, "--out"),
      json: flags.has("--json"),
    };
    const { runBackup } = await import("../copy-directory.ts");
    return await runBackup(options, context);
  },
};
