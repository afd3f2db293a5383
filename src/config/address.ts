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

/** The addresses of every interface, of IPv4 and of both, as canonical() writes them. */
const WILDCARDS = ["[::ffff:0:0]", "[::]"];

/** Whether two IP addresses cannot both be bound on one port: they are the same however written, or one is a wildcard. */
export function overlap(ip: string, other: string): boolean {
  const [one, two] = [canonical(ip), canonical(other)];
  return one === two || WILDCARDS.includes(one) || WILDCARDS.includes(two);
}

/** One text for each address, that of an IPv4 address being the one of its IPv6 form. */
function canonical(ip: string): string {
  const [address] = ip.split("%");
  return new URL(`http://[${address.includes(":") ? address : `::ffff:${address}`}]`).hostname;
}
