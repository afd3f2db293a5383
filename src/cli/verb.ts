import type { Grammar, ParsedFlags } from "../config/flags.ts";
import type { Environment } from "../config/resolve.ts";
import type { Output } from "./output.ts";

/** What a verb runs in. */
export interface Context {
  readonly output: Output;
  readonly environment: Environment;
}

/** One verb of the command line. Its module loads nothing heavy before run() is called. */
export interface Verb {
  readonly name: string;
  /** Other first tokens that mean this verb, e.g. `--version`. */
  readonly aliases?: readonly string[];
  readonly grammar: Grammar;
  /** What follows the verb's name in the usage line. */
  readonly synopsis: string;
  readonly summary: string;
  /** Paragraphs shown by the verb's own help, after its flags. */
  readonly notes?: string;
  /** Returns the exit code; whatever it throws is the failure (errors.ts). */
  run(flags: ParsedFlags, context: Context): Promise<number>;
}
