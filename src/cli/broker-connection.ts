import { BrokerError, type Client, ConnectError, connect, IronbusError, ProtocolError } from "../client/index.ts";
import { type Address, formatAddress } from "../config/address.ts";
import { CliError } from "./errors.ts";

export type Doing =
  | "connecting to"
  | "publishing to"
  | "subscribing to"
  | "fetching from"
  | "acking to"
  | "nacking to"
  | "terminating on";

/** The system's sentence with its errno name, which Bun leaves out. */
function reason(error: NodeJS.ErrnoException): string {
  return error.code === undefined || error.message.includes(error.code)
    ? error.message
    : `${error.message} (${error.code})`;
}

/** How a client verb's failure is reported (cli.md 1.3): a connection that is gone is 5, every other refusal 70. */
export function clientFailure(doing: Doing, address: Address, error: unknown, suffix = ""): unknown {
  if (!(error instanceof IronbusError)) {
    return error;
  }
  const answered = error instanceof BrokerError || error instanceof ProtocolError;
  // The reason below, not the SDK's own sentence, which names the address again.
  const detail = error instanceof ConnectError && error.cause instanceof Error ? reason(error.cause) : error.message;
  const code = error.code?.startsWith("ERR_") ? ` (${error.code})` : "";
  return new CliError(
    answered ? "internal" : "unreachable",
    `${doing} broker at ${formatAddress(address)}: ${detail}${code}${suffix}`,
  );
}

/** Connects, runs `use`, and closes in order whatever happens. */
export async function withClient<Value>(address: Address, use: (client: Client) => Promise<Value>): Promise<Value> {
  let client: Client;
  try {
    client = await connect({ host: address.host, port: address.port });
  } catch (error) {
    throw clientFailure("connecting to", address, error);
  }
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}
