import { UsageError } from "./usage-error.ts";

export const U32_MAX = 0xffff_ffffn;
export const U64_MAX = 0xffff_ffff_ffff_ffffn;

/** More digits than any u64 with a few leading zeros; keeps BigInt() away from megabytes of digits. */
const MAX_DIGITS = 64;

function unsigned(raw: string, maximum: bigint): bigint | undefined {
  if (raw.length > MAX_DIGITS || !/^\+?[0-9]+$/.test(raw)) {
    return undefined;
  }
  const value = BigInt(raw.startsWith("+") ? raw.slice(1) : raw);
  return value <= maximum ? value : undefined;
}

/**
 * An unsigned decimal number with an optional leading `+`, at most `maximum` (cli.md 1.1). `source` is the flag or
 * variable that the error names. Throws UsageError.
 */
export function parseNumber(source: string, raw: string, maximum: bigint): bigint {
  const value = unsigned(raw, maximum);
  if (value === undefined) {
    throw new UsageError(`\`${source}\` needs a number, got \`${raw}\``);
  }
  return value;
}

/** Comma separated u64, blanks around an element allowed, no element empty (cli.md 1.1). Throws UsageError. */
export function parseNumberList(source: string, raw: string): readonly bigint[] {
  return raw.split(",").map((element) => {
    const value = unsigned(element.trim(), U64_MAX);
    if (value === undefined) {
      throw new UsageError(`\`${source}\` needs a comma-separated list of numbers, got \`${raw}\``);
    }
    return value;
  });
}

/** `1`/`true`/`0`/`false`, trimmed, in any ASCII case (config.md 1.2). Throws UsageError. */
export function parseBoolean(source: string, raw: string): boolean {
  const value = raw.trim().toLowerCase();
  if (value === "1" || value === "true") {
    return true;
  }
  if (value === "0" || value === "false") {
    return false;
  }
  throw new UsageError(`\`${source}\` must be \`true\`/\`1\` or \`false\`/\`0\`, got \`${raw.toLowerCase()}\``);
}

/** One of `tokens`, case-sensitive (config.md 1.2). Throws UsageError. */
export function parseEnum(source: string, raw: string, tokens: readonly string[]): string {
  if (tokens.includes(raw)) {
    return raw;
  }
  const quoted = tokens.map((token) => `\`${token}\``);
  const last = quoted[quoted.length - 1];
  const accepted = quoted.length > 2 ? `${quoted.slice(0, -1).join(", ")}, or ${last}` : quoted.join(" or ");
  throw new UsageError(`\`${source}\` must be ${accepted}, got \`${raw}\``);
}
