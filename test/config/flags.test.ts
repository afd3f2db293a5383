import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Grammar, parseFlags } from "../../src/config/flags.ts";
import { UsageError } from "../../src/config/usage-error.ts";

const grammar: Grammar = {
  path: "sub",
  flags: [
    { name: "--max", kind: "u32", help: "" },
    { name: "--bytes", kind: "u64", help: "" },
    { name: "--name", aliases: ["--alias"], kind: "text", help: "" },
    { name: "--list", kind: "u64-list", help: "" },
    { name: "--ack", kind: "switch", help: "" },
  ],
  maxPositionals: 1,
  doubleDash: true,
};

const parse = (...tokens: string[]) => parseFlags(grammar, tokens);

describe("flags", () => {
  it("takes the next token verbatim, also when it begins with dashes", () => {
    expect(parse("--name", "--ack").text("--name")).toBe("--ack");
    expect(parse("--name", "--ack").has("--ack")).toBe(false);
    expect(parse("--name", "").text("--name")).toBe("");
  });

  it("accepts --flag=value, and the first = separates", () => {
    expect(parse("--name=a=b").text("--name")).toBe("a=b");
    expect(parse("--name=").text("--name")).toBe("");
    expect(parse("--max=7").number("--max")).toBe(7n);
  });

  it("keeps the last of a repeated flag, under its main name", () => {
    expect(parse("--name", "a", "--alias", "b").text("--name")).toBe("b");
  });

  it("treats single dashes and everything after -- as positionals", () => {
    expect(parse("-h").positionals).toEqual(["-h"]);
    expect(parse("--", "--json").positionals).toEqual(["--json"]);
    expect(parse("--", "--").positionals).toEqual(["--"]);
  });

  it("stops at --help, but not inside a value or after --", () => {
    expect(parse("--help", "--bogus").help).toBe(true);
    expect(parse("--name", "--help").help).toBe(false);
    expect(parse("--", "--help").help).toBe(false);
  });

  it.each([
    [["--bogus"], "unknown flag `--bogus` for sub"],
    [["--bogus=1"], "unknown flag `--bogus` for sub"],
    [["--mx", "1"], "unknown flag `--mx` for sub (did you mean `--max`?)"],
    [["--max"], "`--max` needs a value"],
    [["--max", "x"], "`--max` needs a number, got `x`"],
    [["--alias"], "`--alias` needs a value"],
    [["--list", "1,,2"], "`--list` needs a comma-separated list of numbers, got `1,,2`"],
    [["--ack=1"], "`--ack` takes no value"],
    [["a", "b"], "sub takes no positional arguments, got `b`"],
    [["--max", "x", "--bogus"], "`--max` needs a number, got `x`"],
  ])("cli.md 1.1: refuses %j, the first offending token", (tokens, message) => {
    expect(() => parseFlags(grammar, tokens)).toThrow(new UsageError(message));
  });

  it("refuses -- where a verb takes no payload", () => {
    expect(() => parseFlags({ ...grammar, doubleDash: false }, ["--", "x"])).toThrow("unknown flag `--` for sub");
  });

  it("config.md 1.1: takes a stripped switch out wherever it stands", () => {
    const parsed = parseFlags({ ...grammar, stripped: ["--check-only"] }, ["--name", "--check-only", "x"]);
    expect(parsed.text("--name")).toBe("x");
    expect(parsed.has("--check-only")).toBe(true);
  });

  it.each(["", " 5", "5 ", "0x10", "1e3", "-1", "1_000", "4294967296", "1.0", "٣", "++1", "+"])(
    "config.md 19.7: refuses %j as a u32",
    (raw) => {
      expect(() => parse("--max", raw)).toThrow(`\`--max\` needs a number, got \`${raw}\``);
    },
  );

  it("takes numbers up to the width of the flag, with an optional plus", () => {
    expect(parse("--max", "+4294967295").number("--max")).toBe(4_294_967_295n);
    expect(parse("--bytes", "18446744073709551615").number("--bytes")).toBe(18_446_744_073_709_551_615n);
    expect(() => parse("--bytes", "18446744073709551616")).toThrow("needs a number");
    expect(parse("--bytes", "0007").number("--bytes")).toBe(7n);
  });

  it("config.md 19.10: allows blanks around the elements of a list", () => {
    expect(parse("--list", " 100 , 200 ").value("--list")).toEqual([100n, 200n]);
  });

  it("parses or refuses anything with a UsageError", () => {
    const token = fc.oneof(
      fc.constantFrom("--max", "--bytes", "--name", "--list", "--ack", "--help", "--", "--max=1", "=", "--="),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(token), (tokens) => {
        try {
          const parsed = parseFlags(grammar, tokens);
          expect(parsed.positionals.length).toBeLessThanOrEqual(1);
        } catch (error) {
          expect(error).toBeInstanceOf(UsageError);
        }
      }),
    );
  });
});
