import { parseFlags } from "../config/flags.ts";
import { UsageError } from "../config/usage-error.ts";
import { envelopeOf, failureEnvelope, successEnvelope } from "./envelope.ts";
import { EXIT_CODES, toFailure } from "./errors.ts";
import { findVerb, usageText, verbHelp } from "./help.ts";
import { Output } from "./output.ts";
import type { Context } from "./verb.ts";
import { VERBS } from "./verbs.ts";

async function runVerb(tokens: readonly string[], context: Context): Promise<number> {
  const [first, ...rest] = tokens;
  if (first === undefined) {
    throw new UsageError("no subcommand given");
  }
  const verb = findVerb(VERBS, first);
  const flags = parseFlags(verb.grammar, rest);
  if (flags.help) {
    context.output.write(verbHelp(verb));
    return 0;
  }
  return await verb.run(flags, context);
}

/** A failure drops what was printed; the last line of it says how far an interrupted verb came. */
function lastLine(captured: Uint8Array): string {
  return new TextDecoder().decode(captured).trimEnd().split("\n").at(-1) ?? "";
}

async function runEnveloped(tokens: readonly string[], context: Context): Promise<number> {
  const { output } = context;
  let exitCode: number;
  let line: string;
  try {
    exitCode = await runVerb(tokens, context);
    await output.flush();
    line =
      exitCode === 0
        ? successEnvelope(output.captured())
        : failureEnvelope(exitCode, "interrupted", `interrupted: ${lastLine(output.captured())}`);
  } catch (error) {
    const failure = toFailure(error);
    exitCode = EXIT_CODES[failure.kind];
    line = envelopeOf(failure);
  }
  await output.envelope(line);
  return exitCode;
}

async function runPlain(tokens: readonly string[], context: Context): Promise<number> {
  const { output } = context;
  try {
    const exitCode = await runVerb(tokens, context);
    await output.flush();
    return exitCode;
  } catch (error) {
    const failure = toFailure(error);
    // What was printed before the failure is true; a stdout that fails now is not the news.
    await output.flush().catch(() => {});
    output.note(`error: ${failure.message}${failure.kind === "usage" ? `\n\n${usageText(VERBS).trimEnd()}` : ""}`);
    return EXIT_CODES[failure.kind];
  }
}

/**
 * Runs one command line (without the program's name) and returns its exit code, all output written. `--json` before the
 * verb asks for the envelope (cli.md 1.4); several count as one.
 */
export async function runCommandLine(tokens: readonly string[]): Promise<number> {
  const verbAt = tokens.findIndex((token) => token !== "--json");
  const enveloped = tokens[0] === "--json";
  const output = new Output(process.stdout, process.stderr, enveloped);
  const context: Context = { output, environment: process.env };
  const rest = verbAt < 0 ? [] : tokens.slice(verbAt);
  const exitCode = await (enveloped ? runEnveloped : runPlain)(rest, context).catch((error: unknown) => {
    // Only the envelope itself can fail here: there is no stdout to say anything on.
    output.note(`error: ${toFailure(error).message}`);
    return EXIT_CODES.internal;
  });
  await output.settleNotes();
  return exitCode;
}
