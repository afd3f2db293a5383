import { lookup } from "node:dns/promises";
import { isIP } from "node:net";

/** The address to bind for a host: itself, or what its name resolves to, IPv4 first. Rejects with code ENOTFOUND. */
export async function resolveHost(host: string): Promise<string> {
  if (isIP(host) !== 0) return host;
  const { address } = await lookup(host, { verbatim: false });
  return address;
}
