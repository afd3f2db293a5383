import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LineSplitter, LineTooLongError } from "../../src/cli/line-splitter.ts";

function splitAll(chunks: readonly Uint8Array[], maxLineBytes = 1_000_000) {
  const splitter = new LineSplitter(maxLineBytes);
  const lines: Buffer[] = [];
  for (const chunk of chunks) {
    for (const batch of splitter.split(chunk)) {
      lines.push(...batch.map((line) => Buffer.from(line)));
    }
  }
  const endedWithNewline = splitter.endedWithNewline;
  const last = splitter.finish();
  if (last !== undefined) {
    lines.push(Buffer.from(last));
  }
  expect(splitter.lines).toBe(lines.length);
  return { lines, endedWithNewline };
}

const texts = (input: string) => splitAll([Buffer.from(input)]).lines.map(String);

describe("line splitter", () => {
  it("ends a line before each newline; the rest is the last line if it is not empty", () => {
    expect(texts("")).toEqual([]);
    expect(texts("a")).toEqual(["a"]);
    expect(texts("a\n")).toEqual(["a"]);
    expect(texts("a\n\nb")).toEqual(["a", "", "b"]);
    expect(texts("\n")).toEqual([""]);
    expect(texts("a\r\n\0\n")).toEqual(["a\r", "\0"]);
  });

  it("gives the input back byte for byte, however it is cut into chunks", () => {
    const byte = fc.oneof(
      { arbitrary: fc.constant(10), weight: 1 },
      { arbitrary: fc.integer({ min: 0, max: 255 }), weight: 3 },
    );
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 40 })), fc.array(byte, { maxLength: 200 }), (chunks, tail) => {
        const all = [...chunks, Uint8Array.from(tail)];
        const input = Buffer.concat(all);
        const { lines, endedWithNewline } = splitAll(all);
        const newline = Buffer.from("\n");
        const parts = lines.flatMap((line, index) => (index === 0 ? [line] : [newline, line]));
        const joined = Buffer.concat(endedWithNewline && lines.length > 0 ? [...parts, newline] : parts);
        expect(joined.equals(input)).toBe(true);
      }),
    );
  });

  it("gives out lines of earlier chunks that stay what they were", () => {
    const splitter = new LineSplitter(100);
    const first = [...splitter.split(Buffer.from("ab"))];
    const [[line]] = [...splitter.split(Buffer.from("c\nxyz"))];
    const later = [...splitter.split(Buffer.from("!\n"))];
    expect(first).toEqual([]);
    expect(Buffer.from(line).toString()).toBe("abc");
    expect(Buffer.from(later[0][0]).toString()).toBe("xyz!");
  });

  it("hands out at most 4096 lines at a time", () => {
    const batches = [...new LineSplitter(10).split(new Uint8Array(10_000).fill(10))];
    expect(batches.map((batch) => batch.length)).toEqual([4096, 4096, 1808]);
  });

  it("gives out the lines before one that is too long, and names it", () => {
    const splitter = new LineSplitter(4);
    const lines: string[] = [];
    const run = () => {
      for (const batch of splitter.split(Buffer.from("ok\nfour\ntoolong\nnever\n"))) {
        lines.push(...batch.map((line) => Buffer.from(line).toString()));
      }
    };
    expect(run).toThrow(new LineTooLongError(3, 4));
    expect(lines).toEqual(["ok", "four"]);
  });

  it("refuses a line that is too long without waiting for its end", () => {
    const splitter = new LineSplitter(1000);
    const chunk = Buffer.alloc(400, "x");
    expect([...splitter.split(chunk), ...splitter.split(chunk)]).toEqual([]);
    expect(() => [...splitter.split(chunk)]).toThrow("line 1 is longer than 1000 bytes");
    expect(splitter.unfinishedBytes).toBe(800);
  });
});
