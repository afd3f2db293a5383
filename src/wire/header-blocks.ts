/** Conventions inside of a record's headers: wire.md 18. */
import { readU32, readU64Exact, writeU32, writeU64Exact } from "./hot.ts";
import { decodeUtf8Lossy, encodeUtf8 } from "./utf8.ts";

/** A prefix block: 4 bytes of name, then a u64. */
export const HEADER_BLOCK_BYTES = 12;

const TTL1 = 0x314c5454;
const DLY1 = 0x31594c44;
const DUE1 = 0x31455544;

export interface HeaderBlocks {
  /** 0 = no limit. */
  readonly ttlMs?: bigint;
  /** As published. */
  readonly delayMs?: bigint;
  /** As stored; refused in a publish. */
  readonly dueUnixMs?: bigint;
  /** Where the delay or due block stands; -1 without. */
  readonly delayBlockAt: number;
  /** Where the user's own headers begin. */
  readonly userHeadersAt: number;
}

// [ "TTL1", ttl_ms: u64 ], [ "DLY1", delay_ms: u64 | "DUE1", due_unix_ms: u64 ], the user's headers

/** The prefix blocks of `headers`. Never fails: what is no complete block belongs to the user's headers. */
export function readHeaderBlocks(headers: Uint8Array): HeaderBlocks {
  let at = 0;
  let ttlMs: bigint | undefined;
  if (blockNameAt(headers, at) === TTL1) {
    ttlMs = readU64Exact(headers, at + 4);
    at += HEADER_BLOCK_BYTES;
  }
  const name = blockNameAt(headers, at);
  if (name !== DLY1 && name !== DUE1) return { ttlMs, delayBlockAt: -1, userHeadersAt: at };
  const value = readU64Exact(headers, at + 4);
  return {
    ttlMs,
    delayMs: name === DLY1 ? value : undefined,
    dueUnixMs: name === DUE1 ? value : undefined,
    delayBlockAt: at,
    userHeadersAt: at + HEADER_BLOCK_BYTES,
  };
}

/** Puts a TTL block, then a delay block, before the user's headers. */
export function composeHeaders(blocks: { ttlMs?: bigint; delayMs?: bigint }, userHeaders: Uint8Array): Uint8Array {
  const blockCount = (blocks.ttlMs === undefined ? 0 : 1) + (blocks.delayMs === undefined ? 0 : 1);
  const headers = new Uint8Array(blockCount * HEADER_BLOCK_BYTES + userHeaders.length);
  let at = 0;
  if (blocks.ttlMs !== undefined) at = writeBlock(headers, at, TTL1, blocks.ttlMs);
  if (blocks.delayMs !== undefined) at = writeBlock(headers, at, DLY1, blocks.delayMs);
  headers.set(userHeaders, at);
  return headers;
}

/** Turns the delay block at `at` into the due instant that is stored, in place. */
export function writeDueBlock(headers: Uint8Array, at: number, dueUnixMs: bigint): void {
  writeBlock(headers, at, DUE1, dueUnixMs);
}

export const HeaderLine = {
  TraceParent: "traceparent",
  ReplyTo: "ib-reply-to",
  CorrelationId: "ib-corr-id",
} as const;

/**
 * Value of the first header line `name` (case-insensitive), trimmed; undefined without one. Lines are separated by `\n`,
 * name and value by `:` or `=`; a line without a separator is passed over.
 */
export function readHeaderLine(headers: Uint8Array, name: string): string | undefined {
  const wanted = name.toLowerCase();
  for (const line of decodeUtf8Lossy(headers.subarray(readHeaderBlocks(headers).userHeadersAt)).split("\n")) {
    const separator = line.search(/[:=]/);
    if (separator >= 0 && line.slice(0, separator).trim().toLowerCase() === wanted) {
      return line.slice(separator + 1).trim();
    }
  }
  return undefined;
}

/** The id of request and reply, 32 lowercase hex digits; undefined when it is missing or malformed. */
export function readCorrelationId(headers: Uint8Array): string | undefined {
  const value = readHeaderLine(headers, HeaderLine.CorrelationId)?.toLowerCase();
  return value !== undefined && /^[0-9a-f]{32}$/.test(value) ? value : undefined;
}

/** `headers` with the lines appended, one `\n` between lines. */
export function appendHeaderLines(headers: Uint8Array, lines: readonly (readonly [string, string])[]): Uint8Array {
  const text = encodeUtf8(lines.map(([name, value]) => `${name}: ${value}`).join("\n"));
  const hasUserHeaders = readHeaderBlocks(headers).userHeadersAt < headers.length;
  const separated = hasUserHeaders && headers[headers.length - 1] !== 0x0a && text.length > 0;
  const joined = new Uint8Array(headers.length + (separated ? 1 : 0) + text.length);
  joined.set(headers);
  if (separated) joined[headers.length] = 0x0a;
  joined.set(text, joined.length - text.length);
  return joined;
}

function blockNameAt(headers: Uint8Array, at: number): number | undefined {
  return headers.length - at >= HEADER_BLOCK_BYTES ? readU32(headers, at) : undefined;
}

function writeBlock(headers: Uint8Array, at: number, name: number, value: bigint): number {
  return writeU64Exact(headers, writeU32(headers, at, name), value);
}
