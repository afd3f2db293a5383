import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  appendHeaderLines,
  composeHeaders,
  HeaderLine,
  readCorrelationId,
  readHeaderBlocks,
  readHeaderLine,
  writeDueBlock,
} from "../../src/wire/header-blocks.ts";
import derived from "../vectors/wire_derived_vectors.json" with { type: "json" };
import { ascii, bytes, hex } from "./support.ts";

const vectorHeaders = (name: string): Uint8Array => {
  const fields = derived.find((vector) => vector.name === name)?.fields as { headers_hex: string };
  return bytes(fields.headers_hex);
};

describe("header blocks", () => {
  it("composes TTL, then delay, then the user's headers as the vectors have them", () => {
    const user = ascii("a: b");
    expect(hex(composeHeaders({ ttlMs: 30_000n, delayMs: 5000n }, user))).toBe(
      hex(vectorHeaders("pub_ttl_then_delay")),
    );
    expect(hex(composeHeaders({ ttlMs: 30_000n }, user))).toBe(hex(vectorHeaders("pub_ttl_30s")));
    expect(hex(composeHeaders({ delayMs: 5000n }, new Uint8Array(0)))).toBe(hex(vectorHeaders("pub_delay_5s")));
  });

  it("turns a delay into a due instant in place", () => {
    const headers = composeHeaders({ ttlMs: 1n, delayMs: 5000n }, ascii("x"));
    writeDueBlock(headers, readHeaderBlocks(headers).delayBlockAt, 77n);
    expect(readHeaderBlocks(headers)).toEqual({
      ttlMs: 1n,
      delayMs: undefined,
      dueUnixMs: 77n,
      delayBlockAt: 12,
      userHeadersAt: 24,
    });
    expect(headers).toHaveLength(25);
  });

  it("takes a block only where it belongs, and only a whole one", () => {
    const none = { ttlMs: undefined, delayBlockAt: -1, userHeadersAt: 0 };
    expect(readHeaderBlocks(ascii("TTL1"))).toEqual(none);
    expect(readHeaderBlocks(ascii("DLY11234567"))).toEqual(none);
    expect(readHeaderBlocks(ascii("xTTL112345678"))).toEqual(none);
    const swapped = new Uint8Array([
      ...ascii("DLY1"),
      1,
      0,
      0,
      0,
      0,
      0,
      0,
      0,
      ...ascii("TTL1"),
      0,
      0,
      0,
      0,
      0,
      0,
      0,
      0,
    ]);
    expect(readHeaderBlocks(swapped)).toMatchObject({ ttlMs: undefined, delayMs: 1n, userHeadersAt: 12 });
  });

  it("reads lines whatever their separator and case, trimmed, and the first of several", () => {
    const headers = composeHeaders(
      { ttlMs: 9n },
      ascii("no separator\nTraceParent = 00-ab \nIB-Reply-To: x:y\nib-reply-to: z"),
    );
    expect(readHeaderLine(headers, HeaderLine.TraceParent)).toBe("00-ab");
    expect(readHeaderLine(headers, HeaderLine.ReplyTo)).toBe("x:y");
    expect(readHeaderLine(headers, "missing")).toBeUndefined();
  });

  it("appends lines with one line feed between", () => {
    const request = appendHeaderLines(new Uint8Array(0), [
      [HeaderLine.ReplyTo, "_INBOX.7f3a9c1e00112233445566778899aabb"],
      [HeaderLine.CorrelationId, "7f3a9c1e00112233445566778899aabb"],
    ]);
    expect(hex(request)).toBe(hex(vectorHeaders("pub_request")));
    const id: [string, string][] = [["i", "1"]];
    expect(hex(appendHeaderLines(ascii("a: b"), id))).toBe(hex(ascii("a: b\ni: 1")));
    expect(hex(appendHeaderLines(ascii("a: b\n"), id))).toBe(hex(ascii("a: b\ni: 1")));
    const withTtl = composeHeaders({ ttlMs: 2570n }, new Uint8Array(0));
    expect(hex(appendHeaderLines(withTtl, id))).toBe(hex(withTtl) + hex(ascii("i: 1")));
    expect(appendHeaderLines(ascii("a: b"), [])).toEqual(ascii("a: b"));
  });

  it("treats a malformed correlation id as absent", () => {
    for (const value of ["", "7f3a", "7f3a9c1e00112233445566778899aabg", "7f3a9c1e00112233445566778899aabb0"]) {
      expect(readCorrelationId(ascii(`ib-corr-id: ${value}`))).toBeUndefined();
    }
    expect(readCorrelationId(ascii("ib-corr-id=7F3A9C1E00112233445566778899AABB"))).toBe(
      "7f3a9c1e00112233445566778899aabb",
    );
  });

  it("reads back what it composes, and never fails", () => {
    const u64 = fc.option(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), { nil: undefined });
    fc.assert(
      fc.property(u64, u64, fc.uint8Array({ maxLength: 40 }), (ttlMs, delayMs, blob) => {
        const user = new Uint8Array([0x2e, ...blob]);
        const headers = composeHeaders({ ttlMs, delayMs }, user);
        const blocks = readHeaderBlocks(headers);
        expect([blocks.ttlMs, blocks.delayMs]).toEqual([ttlMs, delayMs]);
        expect(hex(headers.subarray(blocks.userHeadersAt))).toBe(hex(user));
        expect(readHeaderBlocks(blob).userHeadersAt).toBeLessThanOrEqual(blob.length);
        expect(readCorrelationId(blob)?.length ?? 32).toBe(32);
      }),
    );
  });
});
