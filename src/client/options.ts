import type { Signal } from "./signal.ts";
/** Where and how to connect. Times are milliseconds; 0 turns the respective timeout off. */
export interface ConnectOptions {
  /** Name or address of the broker; 127.0.0.1 by default. */
  readonly host?: string;
  /** TCP port; 7777 by default. */
  readonly port?: number;
  /** Longest time for name lookup, TCP connection and handshake together; 10 s by default. */
  readonly connectTimeoutMs?: number;
  /** Longest silence of the broker while it owes a reply; 30 s by default. */
  readonly readTimeoutMs?: number;
  /** Longest time without progress while bytes wait to be sent; 30 s by default. */
  readonly writeTimeoutMs?: number;
  /** A Ping is sent after this long without sending anything; 10 s by default (the broker hangs up after 30). */
  readonly keepAliveMs?: number;
  /** Most messages that may be leased at a time; the broker's cap when absent. It can only be tightened. */
  readonly credit?: number;
  /** Most bytes that may be leased at a time; the broker's budget when absent. It can only be tightened. */
  readonly creditBytes?: number;
  /** Which sockets to use: those of Bun where it runs, else Node's ("auto"), or always `node:net`. */
  readonly sockets?: "auto" | "node";
  /** Aborts the connection attempt. */
  readonly signal?: Signal;
}

/** ConnectOptions with every default filled in and every value checked. */
export interface Settings {
  readonly host: string;
  readonly port: number;
  readonly connectTimeoutMs: number;
  readonly readTimeoutMs: number;
  readonly writeTimeoutMs: number;
  readonly keepAliveMs: number;
  readonly credit: number | undefined;
  readonly creditBytes: number | undefined;
  readonly sockets: "auto" | "node";
}

export const DEFAULT_HOST = "127.0.0.1";
export const DEFAULT_PORT = 7777;

/** Timers of both runtimes fire at once beyond this. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** `host:port`, `host`, `:port` or `[v6]:port`. Throws RangeError on anything else. */
export function parseAddress(address: string): { host: string; port: number } {
  const bracketed = /^\[([^\]]+)\](?::(\d{1,5}))?$/.exec(address);
  const plain = bracketed ?? /^([^:[\]\s]*)(?::(\d{1,5}))?$/.exec(address);
  if (plain === null || address === "") throw new RangeError(`not a host:port address: ${JSON.stringify(address)}`);
  const host = plain[1] === "" ? DEFAULT_HOST : plain[1];
  const port = plain[2] === undefined ? DEFAULT_PORT : Number(plain[2]);
  return { host, port: wholeNumber("port", port, 1, 65_535) };
}

/** Fills in the defaults. Throws RangeError, naming the option, for a value that cannot be meant. */
export function resolveOptions(options: ConnectOptions): Settings {
  const time = (name: "connectTimeoutMs" | "readTimeoutMs" | "writeTimeoutMs" | "keepAliveMs", standard: number) =>
    wholeNumber(name, options[name] ?? standard, 0, LONGEST_TIMER_MS);
  const { credit, creditBytes } = options;
  return {
    host: options.host ?? DEFAULT_HOST,
    port: wholeNumber("port", options.port ?? DEFAULT_PORT, 1, 65_535),
    connectTimeoutMs: time("connectTimeoutMs", 10_000),
    readTimeoutMs: time("readTimeoutMs", 30_000),
    writeTimeoutMs: time("writeTimeoutMs", 30_000),
    keepAliveMs: time("keepAliveMs", 10_000),
    credit: credit === undefined ? undefined : wholeNumber("credit", credit, 1, 0xffff_ffff),
    creditBytes:
      creditBytes === undefined ? undefined : wholeNumber("creditBytes", creditBytes, 1, Number.MAX_SAFE_INTEGER),
    sockets: options.sockets ?? "auto",
  };
}

/** `value` if it is a whole number in [least, most]; a RangeError that names it otherwise. */
export function wholeNumber(name: string, value: number, least: number, most: number): number {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw new RangeError(`${name} must be a whole number from ${least} to ${most}, got ${String(value)}`);
}
