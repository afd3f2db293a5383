import type { ParsedFlags } from "../../config/flags.ts";
import { UsageError } from "../../config/usage-error.ts";
import { dataDirectory, JSON_FLAG } from "../offline-flags.ts";
import type { Context, Verb } from "../verb.ts";

export const dictVerb: Verb = {
  name: "dict",
  grammar: {
    path: "dict",
    flags: [
      {
        name: "--data-dir",
        kind: "text",
        placeholder: "<dir>",
        help: "data directory whose dictionaries are meant (required)",
      },
      { name: "--dict", kind: "text", placeholder: "<path>", help: "install: the dictionary's file (required)" },
      JSON_FLAG,
    ],
    maxPositionals: 1,
  },
  synopsis: "install|ls --data-dir <dir> [--dict <path>] [--json]",
  summary: "keep zstd dictionaries in a data directory",
  notes: `
A dictionary is stored under an id that its content gives, and never changes. Payloads that producers compressed with it are
decompressed by a broker that starts after it was installed.

There is no training here: \`zstd --train\` makes a dictionary out of samples.`,
  async run(flags: ParsedFlags, context: Context) {
    const action = flags.positionals[0];
    if (action === "train") {
      throw new UsageError(
        "dict cannot train: this build has no trainer; `zstd --train` makes a dictionary to install",
      );
    }
    if (action !== "install" && action !== "ls") {
      throw new UsageError("dict requires `install` or `ls`");
    }
    const directory = dataDirectory(`dict ${action}`, flags);
    const json = flags.has("--json");
    if (action === "ls") {
      if (flags.has("--dict")) {
        throw new UsageError("dict ls takes no `--dict`");
      }
      const { listInstalled } = await import("../dictionaries.ts");
      return listInstalled(directory, json, context);
    }
    const path = flags.text("--dict");
    if (path === undefined || path === "") {
      throw new UsageError("dict install requires `--dict <path>`");
    }
    const { install } = await import("../dictionaries.ts");
    return install(directory, path, json, context);
  },
};
