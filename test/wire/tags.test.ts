import { describe, expect, it } from "vitest";
import { isClientRequest, isExtensionTag, isKnownTag, Tag, tagDirection, tagName } from "../../src/wire/tags.ts";

const ALL = [...Array(256).keys()];

describe("tags", () => {
  it("knows 1 to 52 and 192 to 200, each under one name", () => {
    const range = (from: number, to: number) => ALL.slice(from, to + 1);
    expect(ALL.filter(isKnownTag)).toEqual([...range(1, 52), ...range(192, 200)]);
    expect(ALL.filter(isExtensionTag)).toEqual(range(192, 200));
    const numbers: number[] = Object.values(Tag);
    expect([...numbers].sort((a, b) => a - b)).toEqual([...range(1, 52), ...range(192, 200)]);
  });

  it("tells the requests of a client from the known tags that are none (wire.md 2)", () => {
    const refused = [
      2, 4, 9, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 26, 27, 32, 33, 37, 38, 39, 40, 41, 42, 43, 47,
    ];
    const upstream = ALL.filter((tag) => isKnownTag(tag) && !isExtensionTag(tag));
    expect(upstream.filter((tag) => !isClientRequest(tag))).toEqual([...refused, 50, 51]);
    expect(ALL.filter((tag) => isExtensionTag(tag) && isClientRequest(tag))).toEqual([192, 193, 195, 197, 198, 199]);
    expect([0, 53, 191, 201, 255].some(isClientRequest)).toBe(false);
  });

  it("names tags and their senders", () => {
    expect([tagName(5), tagName(200), tagName(53)]).toEqual(["Pub", "AckRangeStatus", "tag 53"]);
    expect([1, 13, 29, 27, 9, 53].map(tagDirection)).toEqual([
      "client",
      "server",
      "both",
      "peer",
      "reserved",
      undefined,
    ]);
  });
});
