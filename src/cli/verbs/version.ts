import type { ParsedFlags } from "../../config/flags.ts";
import type { Context, Verb } from "../verb.ts";
import { VERSION } from "../version.ts";

export const versionVerb: Verb = {
  name: "version",
  aliases: ["--version", "-V"],
  grammar: { path: "version", flags: [], maxPositionals: 0 },
  synopsis: "",
  summary: "print the version",
  async run(_flags: ParsedFlags, { output }: Context) {
    output.line(`ironbus ${VERSION}`);
    return 0;
  },
};
