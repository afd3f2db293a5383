import type { ParsedFlags } from "../../config/flags.ts";
import { UsageError } from "../../config/usage-error.ts";
import { ADDRESS_FLAG, brokerAddress } from "../client-flags.ts";
import type { Context, Verb } from "../verb.ts";

const MAX_KEY_BYTES = 65_535;

export const pubVerb: Verb = {
  name: "pub",
  grammar: {
    path: "pub",
    flags: [
      ADDRESS_FLAG,
      { name: "--key", kind: "text", placeholder: "<key>", help: "key stored with each record (none)" },
      { name: "--lines", kind: "switch", help: "publish each line of stdin as one record, many in flight" },
    ],
    maxPositionals: 1,
    tooManyPositionals: "pub takes at most one payload argument",
    doubleDash: true,
  },
  synopsis: "[--addr <host:port>] [--key <key>] [--lines] [--] [<payload>]",
  summary: "publish a record: the payload argument, or all of stdin as it is; prints its durable offset",
  notes: `
After \`--\` every argument is payload. Without a payload argument stdin is read to its end, byte for byte.

With --lines a line ends before each newline byte, which is not stored; all other bytes are (\\r, NUL and what is not
UTF-8 too), an empty line is an empty record, and a last line without a newline is a record. At the end one line is
printed: \`published <n> record(s), last durable offset <offset>\`, and \`, no newline at end of input\` behind it when
that was so. SIGINT or SIGTERM stops the reading: what the pipe still holds is read on, up to 1 MiB, what was read is
published, and the same line is printed. Unless the end of the input was reached, stderr says where it was left and the
exit code is 130 or 143. A second signal ends the command at once.`,
  async run(flags: ParsedFlags, context: Context) {
    const address = brokerAddress(flags);
    const key = Buffer.from(flags.text("--key") ?? "");
    if (key.length > MAX_KEY_BYTES) {
      throw new UsageError(`\`--key\` is longer than ${MAX_KEY_BYTES} bytes`);
    }
    const payload = flags.positionals[0];
    if (flags.has("--lines")) {
      if (payload !== undefined) {
        throw new UsageError("`--lines` reads stdin and takes no payload argument");
      }
      const { publishLines } = await import("../publish-lines.ts");
      return await publishLines(address, key, context);
    }
    const { publishOne } = await import("../publish-one.ts");
    return await publishOne(address, key, payload, context);
  },
};
