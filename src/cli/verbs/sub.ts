import type { ParsedFlags } from "../../config/flags.ts";
import { parseEnum } from "../../config/literals.ts";
import { UsageError } from "../../config/usage-error.ts";
import { ADDRESS_FLAG, brokerAddress } from "../client-flags.ts";
import type { Disposition, Subscription } from "../subscription.ts";
import type { Context, Verb } from "../verb.ts";

const DEFAULT_MAX = 10;

function disposition(flags: ParsedFlags): Disposition {
  const chosen = (["ack", "nack", "term"] as const).filter((name) => flags.has(`--${name}`));
  if (chosen.length > 1) {
    throw new UsageError("sub takes at most one of `--ack`, `--nack`, `--term`");
  }
  return chosen[0] ?? "peek";
}

function groupName(flags: ParsedFlags): string {
  const group = flags.text("--group") ?? "";
  if (!/^[\x21-\x7e]{0,128}$/.test(group)) {
    throw new UsageError(`\`--group\` needs 1 to 128 graphic ASCII characters, got \`${group}\``);
  }
  return group;
}

/** A u64 that JavaScript holds exactly; larger waits are longer than anything runs. */
function milliseconds(flags: ParsedFlags, name: string): number | undefined {
  const value = flags.number(name);
  return value === undefined ? undefined : Math.min(Number(value), Number.MAX_SAFE_INTEGER);
}

function subscription(flags: ParsedFlags): Subscription {
  const chosen = disposition(flags);
  const follow = flags.has("--follow");
  if (flags.has("--delay-ms") && chosen !== "nack") {
    throw new UsageError("`--delay-ms` is only valid with `--nack`");
  }
  if (flags.has("--timeout-ms") && !follow) {
    throw new UsageError("`--timeout-ms` is only valid with `--follow`");
  }
  const max = flags.number("--max");
  return {
    group: groupName(flags),
    max: max === undefined ? (follow ? undefined : DEFAULT_MAX) : Number(max),
    disposition: chosen,
    delayMs: milliseconds(flags, "--delay-ms"),
    follow,
    idleTimeoutMs: milliseconds(flags, "--timeout-ms"),
    output: parseEnum("--output", flags.text("--output") ?? "text", ["text", "raw"]) as "text" | "raw",
  };
}

export const subVerb: Verb = {
  name: "sub",
  grammar: {
    path: "sub",
    flags: [
      ADDRESS_FLAG,
      { name: "--group", kind: "text", placeholder: "<name>", help: "consumer group (the default group)" },
      { name: "--max", kind: "u32", placeholder: "<n>", help: "most messages to take (10; no limit with --follow)" },
      { name: "--ack", kind: "switch", help: "settle each message after it was printed" },
      { name: "--nack", kind: "switch", help: "give each message back for redelivery" },
      { name: "--delay-ms", kind: "u64", placeholder: "<ms>", help: "with --nack: delay before redelivery" },
      { name: "--term", kind: "switch", help: "drop each message: it is never delivered again" },
      { name: "--follow", kind: "switch", help: "wait for more until --max, --timeout-ms or a signal" },
      {
        name: "--timeout-ms",
        kind: "u64",
        placeholder: "<ms>",
        help: "with --follow: end after so long without a message",
      },
      {
        name: "--output",
        kind: "text",
        placeholder: "<text|raw>",
        help: "raw: payload bytes and a newline, nothing else",
      },
    ],
    maxPositionals: 0,
  },
  synopsis:
    "[--addr <host:port>] [--group <name>] [--max <n>] [--ack | --nack [--delay-ms <ms>] | --term] " +
    "[--follow [--timeout-ms <ms>]] [--output text|raw]",
  summary: "take messages of a group and print them; without --ack, --nack or --term they only stay leased for a while",
  notes: `
--ack and --term fetch until --max messages came or none is left; the others fetch once.
A message is settled only after its line was written to stdout. When the reader of stdout goes away the command ends
quietly: what was written is settled, the rest comes again. After SIGINT or SIGTERM the message that was just printed
is settled, \`fetched <n> message(s)\` is printed, and the exit code is 130 or 143 (0 with --follow). A second signal
ends the command at once. --follow does not connect again: when the broker goes away the exit code is 5.
With --output raw everything but the payloads goes to stderr. With --json before the verb messages are settled before
the one object that holds them is written.`,
  async run(flags: ParsedFlags, context: Context) {
    const address = brokerAddress(flags);
    const wanted = subscription(flags);
    const { consume } = await import("../consume.ts");
    return await consume(address, wanted, context);
  },
};
