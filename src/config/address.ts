import { UsageError } from "./usage-error.ts";

export interface Address {
  /** A name or an IP literal, IPv6 without its brackets. */
  readonly host: string;
  readonly port: number;
}

/** `<host>:<port>`, an IPv6 literal in brackets. `source` is the flag or variable that the error names. Throws UsageError. */
export function parseAddress(source: string, raw: string): Address {
  const match = /^(?:\[([0-9A-Fa-f:.%]+)\]|([^:[\]\s]+)):([0-9]{1,5})$/.exec(raw);
  const port = match === null ? Number.NaN : Number(match[3]);
  if (match === null || port > 65_535) {
    throw new UsageError(`\`${source}\` needs an address of the form <host>:<port>, got \`${raw}\``);
  }
  return { host: match[1] ?? match[2], port };
}

/** The address as one writes it, IPv6 in brackets. */
export function formatAddress(address: Address): string {
  return address.host.includes(":") ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`;
}

/** 127.0.0.0/8 or ::1, also as an IPv4-mapped IPv6 address; wildcards are not loopback (cli.md 4.5). */
export function isLoopback(ip: string): boolean {
  const mapped = /^::ffff:([0-9.]+)$/i.exec(ip);
  const address = mapped === null ? ip : mapped[1];
  return /^127(?:\.[0-9]{1,3}){3}$/.test(address) || /^(?:0{0,4}:)+:?0{0,3}1$/.test(address);
}
