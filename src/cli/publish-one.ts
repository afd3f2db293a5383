import { type Address, formatAddress } from "../config/address.ts";
import { clientFailure, withClient } from "./broker-connection.ts";
import { CliError } from "./errors.ts";
import { maxPayloadBytes } from "./payload-limit.ts";
import { readAllInput } from "./standard-input.ts";
import type { Context } from "./verb.ts";

/** Publishes the argument, or all of stdin, as one record and prints its offset once it is durable (cli.md 3.1). */
export async function publishOne(
  address: Address,
  key: Uint8Array,
  argument: string | undefined,
  { output }: Context,
): Promise<number> {
  const maxBytes = maxPayloadBytes(key.length);
  const payload = argument === undefined ? await readAllInput(maxBytes) : Buffer.from(argument);
  if (payload === undefined || payload.length > maxBytes) {
    throw new CliError(
      "internal",
      `publishing to broker at ${formatAddress(address)}: the payload is longer than ${maxBytes} bytes, the most that ` +
        "one record holds",
    );
  }
  const offset = await withClient(address, async (client) => {
    try {
      return await client.produce(payload, { key });
    } catch (error) {
      throw clientFailure("publishing to", address, error);
    }
  });
  output.line(String(offset));
  return 0;
}
