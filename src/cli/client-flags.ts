import { type Address, parseAddress } from "../config/address.ts";
import type { Flag, ParsedFlags } from "../config/flags.ts";
import { UsageError } from "../config/usage-error.ts";

const DEFAULT_ADDRESS = "127.0.0.1:7777";

export const ADDRESS_FLAG: Flag = {
  name: "--addr",
  kind: "text",
  placeholder: "<host:port>",
  help: `address of the broker (${DEFAULT_ADDRESS})`,
};

/** The broker's address: the flag, else the default; client verbs read no environment (cli.md 1.6). Throws UsageError. */
export function brokerAddress(flags: ParsedFlags): Address {
  const raw = flags.text("--addr") ?? DEFAULT_ADDRESS;
  const address = parseAddress("--addr", raw);
  if (address.port === 0) {
    throw new UsageError(`\`--addr\` needs a port from 1 to 65535, got \`${raw}\``);
  }
  return address;
}
