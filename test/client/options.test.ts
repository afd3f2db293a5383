import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseAddress, resolveOptions } from "../../src/client/options.ts";

describe("parseAddress", () => {
  it.each([
    ["10.0.0.7:9000", "10.0.0.7", 9000],
    ["broker.local", "broker.local", 7777],
    [":9000", "127.0.0.1", 9000],
    ["[::1]:9000", "::1", 9000],
    ["[::1]", "::1", 7777],
  ])("reads %s", (address, host, port) => {
    expect(parseAddress(address)).toEqual({ host, port });
  });

  it.each(["", "host:", "host:x", "host:0", "host:65536", "::1", "a:1:2", "[::1", "a b:1"])("refuses %j", (address) => {
    expect(() => parseAddress(address)).toThrow(RangeError);
  });

  it("gives an address or a RangeError for any text", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        try {
          const { host, port } = parseAddress(text);
          expect(host).not.toBe("");
          expect(port).toBeGreaterThan(0);
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
      }),
    );
  });
});

describe("resolveOptions", () => {
  it("wire.md 19: connects within 10 s, reads and writes within 30 s", () => {
    const settings = resolveOptions({});
    expect(settings).toMatchObject({ connectTimeoutMs: 10_000, readTimeoutMs: 30_000, writeTimeoutMs: 30_000 });
    expect(settings.keepAliveMs).toBeLessThan(30_000);
  });

  it.each([
    { port: 0 },
    { port: 1.5 },
    { readTimeoutMs: -1 },
    { writeTimeoutMs: Number.NaN },
    { connectTimeoutMs: 2 ** 31 },
    { keepAliveMs: Infinity },
    { credit: 0 },
    { credit: 2 ** 32 },
    { creditBytes: -5 },
  ])("refuses %j, naming the option", (options) => {
    expect(() => resolveOptions(options)).toThrow(Object.keys(options)[0]);
  });
});
