import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { envelopeOf, failureEnvelope, jsonString, successEnvelope } from "../../src/cli/envelope.ts";

describe("envelope", () => {
  it("cli.md 1.4: keeps order, blanks and newline of a success", () => {
    expect(successEnvelope(Buffer.from("a\nb\n"))).toBe(
      '{"schema":"ironbus.cli.v1","ok":true,"exit_code":0,"data":{"stdout":"a\\nb\\n","lines":["a","b"]}}\n',
    );
  });

  it.each([
    ["", []],
    ["a\n\n", ["a", ""]],
    ["a", ["a"]],
    ["\n", [""]],
  ])("cli.md 1.4: splits %j into lines", (stdout, lines) => {
    expect(JSON.parse(successEnvelope(Buffer.from(stdout))).data).toEqual({ stdout, lines });
  });

  it("cli.md 1.4: a failure has no data", () => {
    expect(failureEnvelope(2, "not_found", 'no "x"')).toBe(
      '{"schema":"ironbus.cli.v1","ok":false,"exit_code":2,"error":{"kind":"not_found","message":"no \\"x\\""}}\n',
    );
    expect(envelopeOf({ kind: "internal", message: "m" })).toContain('"exit_code":70,"error":{"kind":"internal"');
  });

  it("cli.md 13.9: what is not printable is escaped as upstream does, and round-trips", () => {
    expect(jsonString('"\\\n\r\t\b\u0000\u001f/\u007f\u2028é')).toBe(
      '"\\"\\\\\\n\\r\\t\\u0008\\u0000\\u001f/\u007f\u2028é"',
    );
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(JSON.parse(jsonString(text))).toBe(text);
      }),
    );
  });

  it("shows invalid UTF-8 as U+FFFD and keeps a byte order mark", () => {
    expect(JSON.parse(successEnvelope(Uint8Array.of(0xff, 0x41))).data.stdout).toBe("\uFFFDA");
    expect(JSON.parse(successEnvelope(Buffer.from("\uFEFFx"))).data.stdout).toBe("\uFEFFx");
  });
});
