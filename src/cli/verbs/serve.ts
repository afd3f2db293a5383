import type { ParsedFlags } from "../../config/flags.ts";
import { settingFlags } from "../../config/resolve.ts";
import type { Context, Verb } from "../verb.ts";

export const serveVerb: Verb = {
  name: "serve",
  grammar: {
    path: "serve",
    flags: [
      ...settingFlags(),
      { name: "--check-only", kind: "switch", help: "check the configuration, start nothing" },
    ],
    maxPositionals: 0,
    stripped: ["--check-only"],
  },
  synopsis: "--data-dir <dir> [flags]",
  summary: "start the broker",
  notes: `
Each flag can be given as a variable: --max-groups is IRONBUS_MAX_GROUPS (a bare flag takes true or false). A flag beats
a variable, a variable the profile. stdout begins with \`ironbus listening on <ip:port>, data dir <dir>\`; from then on
clients can connect. SIGINT and SIGTERM stop gracefully.`,
  async run(flags: ParsedFlags, context: Context) {
    const { serve } = await import("../serve.ts");
    return await serve(flags, context);
  },
};
