import { parseNumber, parseNumberList, U32_MAX, U64_MAX } from "./literals.ts";
import { didYouMean } from "./suggest.ts";
import { UsageError } from "./usage-error.ts";

export type FlagKind = "switch" | "text" | "u32" | "u64" | "u64-list";

/** One flag of a verb: how it is parsed and how help shows it. */
export interface Flag {
  /** With its dashes, e.g. `--max`. */
  readonly name: string;
  readonly kind: FlagKind;
  /** Other spellings, e.g. `--offset` for `--from-offset`. */
  readonly aliases?: readonly string[];
  /** What help shows for the value, e.g. `<n>`; none for a switch. */
  readonly placeholder?: string;
  readonly help: string;
  /** Heading under which help lists it, among the flags of the same one. */
  readonly section?: string;
}

/** What one verb accepts on its command line. */
export interface Grammar {
  /** The verb with its sub-verbs, blanks between, as errors name it. */
  readonly path: string;
  readonly flags: readonly Flag[];
  readonly maxPositionals: number;
  /** The error for one positional too many. */
  readonly tooManyPositionals?: string;
  /** After `--` every token is positional. Without this, `--` is an unknown flag. */
  readonly doubleDash?: boolean;
  /** Switches that are taken out wherever they stand, before anything is parsed (config.md 1.1). */
  readonly stripped?: readonly string[];
}

export type FlagValue = true | string | bigint | readonly bigint[];

/** A parsed command line. Values are looked up by the flag's main name; undefined means not given. */
export class ParsedFlags {
  readonly positionals: string[] = [];
  /** `--help` was met: nothing after it was looked at. */
  help = false;
  readonly #values = new Map<string, FlagValue>();

  set(name: string, value: FlagValue): void {
    this.#values.set(name, value);
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  value(name: string): FlagValue | undefined {
    return this.#values.get(name);
  }

  text(name: string): string | undefined {
    return this.#values.get(name) as string | undefined;
  }

  /** A u32 or u64 flag. */
  number(name: string): bigint | undefined {
    return this.#values.get(name) as bigint | undefined;
  }
}

function parseValue(flag: Flag, spelling: string, raw: string): FlagValue {
  switch (flag.kind) {
    case "u32":
      return parseNumber(spelling, raw, U32_MAX);
    case "u64":
      return parseNumber(spelling, raw, U64_MAX);
    case "u64-list":
      return parseNumberList(spelling, raw);
    default:
      return raw;
  }
}

/**
 * Parses the tokens after a verb, left to right; the first offending one is reported (cli.md 1.1). `--x value` takes
 * the next token verbatim, `--x=value` is accepted too; of a repeated flag the last one wins. Throws UsageError.
 */
export function parseFlags(grammar: Grammar, allTokens: readonly string[]): ParsedFlags {
  const parsed = new ParsedFlags();
  const byName = new Map<string, Flag>();
  for (const flag of grammar.flags) {
    byName.set(flag.name, flag);
    for (const alias of flag.aliases ?? []) {
      byName.set(alias, flag);
    }
  }
  const stripped = grammar.stripped ?? [];
  const tokens = allTokens.filter((token) => !stripped.includes(token));
  for (const name of stripped) {
    if (allTokens.includes(name)) {
      parsed.set(name, true);
    }
  }
  let positionalOnly = false;
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index];
    if (positionalOnly || !token.startsWith("--")) {
      if (parsed.positionals.length === grammar.maxPositionals) {
        const message = grammar.tooManyPositionals ?? `${grammar.path} takes no positional arguments, got \`${token}\``;
        throw new UsageError(message);
      }
      parsed.positionals.push(token);
      continue;
    }
    if (token === "--" && grammar.doubleDash) {
      positionalOnly = true;
      continue;
    }
    if (token === "--help") {
      parsed.help = true;
      return parsed;
    }
    const equals = token.indexOf("=");
    const spelling = equals < 0 ? token : token.slice(0, equals);
    const flag = byName.get(spelling);
    if (flag === undefined) {
      const hint = didYouMean(spelling, [...byName.keys(), "--help"]);
      throw new UsageError(`unknown flag \`${spelling}\` for ${grammar.path}${hint}`);
    }
    if (flag.kind === "switch") {
      if (equals >= 0) {
        throw new UsageError(`\`${spelling}\` takes no value`);
      }
      parsed.set(flag.name, true);
      continue;
    }
    let raw: string;
    if (equals >= 0) {
      raw = token.slice(equals + 1);
    } else {
      index++;
      if (index >= tokens.length) {
        throw new UsageError(`\`${spelling}\` needs a value`);
      }
      raw = tokens[index];
    }
    parsed.set(flag.name, parseValue(flag, spelling, raw));
  }
  return parsed;
}
