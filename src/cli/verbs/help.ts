import type { ParsedFlags } from "../../config/flags.ts";
import { findVerb, usageText, verbHelp } from "../help.ts";
import type { Context, Verb } from "../verb.ts";

/** `help` over the list that it is itself a part of. */
export function createHelpVerb(verbs: () => readonly Verb[]): Verb {
  return {
    name: "help",
    aliases: ["--help", "-h"],
    grammar: {
      path: "help",
      flags: [],
      maxPositionals: 1,
      tooManyPositionals: "help takes at most one verb",
    },
    synopsis: "[<verb>]",
    summary: "show the verbs, or the flags of one verb",
    async run(flags: ParsedFlags, { output }: Context) {
      const name = flags.positionals[0];
      output.write(name === undefined ? usageText(verbs()) : verbHelp(findVerb(verbs(), name)));
      return 0;
    },
  };
}
