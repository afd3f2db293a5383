import type { Flag } from "../config/flags.ts";
import { didYouMean } from "../config/suggest.ts";
import { UsageError } from "../config/usage-error.ts";
import type { Verb } from "./verb.ts";

const WIDTH = 100;

const HELP_FLAG: Flag = { name: "--help", kind: "switch", help: "show this text" };

function columns(rows: readonly (readonly [string, string])[], indent: number): string {
  const width = Math.min(34, Math.max(...rows.map(([left]) => left.length))) + 2;
  const lines = rows.flatMap(([left, right]) => {
    const wrapped = wrap(right, WIDTH - indent - width);
    const head = left.length + 2 > width ? [left] : [];
    return [
      ...head,
      ...wrapped.map((text, index) => (index === 0 && head.length === 0 ? left : "").padEnd(width) + text),
    ];
  });
  return lines.map((line) => `${" ".repeat(indent)}${line}`.trimEnd()).join("\n");
}

function wrap(text: string, width: number): string[] {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1];
    if (last !== "" && last.length + 1 + word.length > width) {
      lines.push(word);
    } else {
      lines[lines.length - 1] = last === "" ? word : `${last} ${word}`;
    }
  }
  return lines;
}

function flagRow(flag: Flag): readonly [string, string] {
  const names = [flag.name, ...(flag.aliases ?? [])].join(", ");
  return [flag.placeholder === undefined ? names : `${names} ${flag.placeholder}`, flag.help];
}

/** The usage text of the whole command, as `help` and every usage error show it. */
export function usageText(verbs: readonly Verb[]): string {
  const rows = verbs.map((verb) => [verb.name, verb.summary] as const);
  return `usage: ironbus [--json] <verb> [flags]

verbs:
${columns(rows, 2)}

\`ironbus help <verb>\` or \`ironbus <verb> --help\` shows the flags of one verb.
--json before the verb prints one ironbus.cli.v1 object instead of lines.
exit codes: 0 done, 1 usage, 2 not found, 3 damage found and handled, 4 corrupt, 5 unreachable, 70 internal;
  130 and 143: \`pub\` or \`sub\` was interrupted by SIGINT or SIGTERM
`;
}

export function verbHelp(verb: Verb): string {
  const sections = new Map<string, Flag[]>();
  for (const flag of [...verb.grammar.flags, HELP_FLAG]) {
    const title = flag.section ?? (verb.grammar.flags.some(({ section }) => section) ? "Other" : "flags");
    sections.set(title, [...(sections.get(title) ?? []), flag]);
  }
  const flags = [...sections].map(([title, members]) => `${title}:\n${columns(members.map(flagRow), 2)}\n`);
  const notes = verb.notes === undefined ? [] : [`${verb.notes.trim()}\n`];
  const usage = `usage: ironbus ${verb.name}${verb.synopsis === "" ? "" : ` ${verb.synopsis}`}\n`;
  return [usage, `${verb.summary}\n`, ...flags, ...notes].join("\n");
}

/** The verb that a first token names. Throws UsageError for an unknown one. */
export function findVerb(verbs: readonly Verb[], token: string): Verb {
  const verb = verbs.find((candidate) => candidate.name === token || candidate.aliases?.includes(token));
  if (verb === undefined) {
    const hint = didYouMean(
      token,
      verbs.map((candidate) => candidate.name),
    );
    throw new UsageError(`unknown subcommand \`${token}\`${hint}`);
  }
  return verb;
}
