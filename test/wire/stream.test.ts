import { describe, expect, it } from "vitest";
import { Reader } from "../../src/wire/reader.ts";
import {
  decodePubToAddress,
  decodeStreamDeclare,
  decodeStreamInfoResponse,
  decodeSubTo,
} from "../../src/wire/stream.ts";
import { ascii, bytes, hex, kindOf } from "./support.ts";

/** A block around fields given as hex, and a tail. */
function block(fieldsHex: string, tailHex = ""): Reader {
  const length = fieldsHex.length / 2;
  const prefix = hex(new Uint8Array([1, length & 0xff, length >> 8]));
  return new Reader(bytes(prefix + fieldsHex + tailHex));
}

const ORDERS = "06006f7264657273";
const PICKERS = "07007069636b657273";

describe("named streams", () => {
  it.each([
    ["", undefined, 0],
    ["01", undefined, 1],
    ["0101", undefined, 0],
    ["010101", undefined, 0],
    ["03000000", 3, 0],
    ["0300000001", 3, 1],
    ["030000000107", 3, 1],
  ])("wire.md 22.61: a SubTo tail of '%s' is partition %s and flags %s", (tail, partition, subFlags) => {
    const subTo = decodeSubTo(block(ORDERS + PICKERS + tail));
    expect(subTo).toEqual({ streamId: ascii("orders"), group: ascii("pickers"), partition, subFlags });
  });

  it("reads the optional fields of a declare by what is there (wire.md 12)", () => {
    const shape = (tail: string) => {
      const { partitionCount, priority } = decodeStreamDeclare(block(ORDERS + tail));
      return [partitionCount, priority];
    };
    expect(shape("")).toEqual([1, false]);
    expect(shape("00000000")).toEqual([1, false]);
    expect(shape("04000000")).toEqual([4, false]);
    expect(shape("0400000001")).toEqual([4, true]);
    expect(shape("0400000000")).toEqual([4, false]);
    expect(shape("0400000001ff")).toEqual([4, true]);
    expect(shape("0400")).toEqual([1, false]);
  });

  it("takes only byte 1 as existing, and a short response as zeros", () => {
    expect(decodeStreamInfoResponse(block("011100000000000000"))).toEqual({ exists: true, head: 17n });
    expect(decodeStreamInfoResponse(block("021100000000000000"))).toEqual({ exists: false, head: 17n });
    expect(decodeStreamInfoResponse(block(""))).toEqual({ exists: false, head: 0n });
  });

  it("leaves the reader at the Pub body behind the address", () => {
    const reader = block(`${ORDERS}02ff`, "aabb");
    expect(decodePubToAddress(reader)).toEqual({ streamId: ascii("orders"), priority: 2 });
    expect(hex(reader.rest())).toBe("aabb");
  });

  it("judges version and block length before any field, and a name's cap before its bytes", () => {
    expect(kindOf(() => decodeSubTo(new Reader(bytes("02ffff"))))).toBe("unknown-version");
    expect(kindOf(() => decodeSubTo(new Reader(bytes("01ffff00"))))).toBe("truncated");
    expect(kindOf(() => decodeSubTo(block("0104")))).toBe("length-exceeds");
    expect(kindOf(() => decodeSubTo(block("0004")))).toBe("truncated");
  });
});
