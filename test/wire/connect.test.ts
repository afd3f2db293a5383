import { describe, expect, it } from "vitest";
import {
  decodeAuthSection,
  decodeConnect,
  decodeConnectBlock,
  decodeInfo,
  decodePasswordMaterial,
  encodePasswordMaterial,
} from "../../src/wire/connect.ts";
import { Reader } from "../../src/wire/reader.ts";
import { Writer } from "../../src/wire/writer.ts";
import { ascii, bytes, hex, kindOf, wireErrorOf } from "./support.ts";

const PLAIN = "010d0000000000000000000000000000";
const reader = (text: string): Reader => new Reader(bytes(text));

describe("handshake", () => {
  it("reads fields that the block is too short for as zero, and the leftover byte as flags2 (wire.md 3)", () => {
    const asked = decodeConnect(reader("010400030a0000"));
    expect(asked).toMatchObject({ requestedCredit: 0, requestedCreditBytes: 0n, flags2: 0x0a });
    expect(decodeConnect(reader("010000"))).toMatchObject({ wantsGapMarker: false, flags2: 0 });
    expect(decodeInfo(reader("0105000307000000"))).toMatchObject({
      credit: { negotiated: 7, cap: 0 },
      creditBytes: { negotiated: 0n, cap: 0n },
    });
  });

  it("wire.md 22.15: ignores unknown bytes at the end of the block and a foreign byte behind it", () => {
    const plain = decodeConnect(reader(PLAIN));
    expect(decodeConnect(reader(`011000${"00".repeat(14)}ffff`))).toEqual(plain);
    expect(decodeConnect(reader(`${PLAIN}550102`))).toEqual(plain);
  });

  it("wire.md 22.16: names the version that it does not know", () => {
    expect(wireErrorOf(() => decodeConnect(reader("020000")))?.message).toBe("unknown handshake body version 2");
    expect(wireErrorOf(() => decodeConnect(reader("010d00")))?.message).toBe("message body is truncated");
  });

  it("reads a default tier other than 1 as W", () => {
    const tierOf = (byte: string) => decodeConnect(reader(`010e0020000000000000000000000000${byte}`)).defaultTier;
    expect([tierOf("00"), tierOf("01"), tierOf("02")]).toEqual([0, 1, 0]);
  });

  it("tells a bad auth section apart from a bad block", () => {
    for (const [section, kind] of [
      ["a7", "truncated"],
      ["a701", "truncated"],
      ["a7010500aa", "truncated"],
      ["a7090000", "unknown-auth-mechanism"],
      ["a7000000", "unknown-auth-mechanism"],
    ]) {
      const body = reader(PLAIN + section);
      expect(decodeConnectBlock(body)).toMatchObject({ flags2: 0 });
      expect(kindOf(() => decodeAuthSection(body))).toBe(kind);
      expect(kindOf(() => decodeConnect(reader(PLAIN + section)))).toBe(kind);
    }
    expect(decodeAuthSection(reader(""))).toBeUndefined();
  });

  it("reads a user name and a password, and nothing behind them", () => {
    const writer = new Writer();
    encodePasswordMaterial(writer, { username: ascii("ada"), password: ascii("") });
    expect(hex(writer.toBytes())).toBe("03006164610000");
    expect(decodePasswordMaterial(writer.toBytes())).toEqual({ username: ascii("ada"), password: ascii("") });
    expect(kindOf(() => decodePasswordMaterial(bytes("0300616461000000")))).toBe("trailing-bytes");
    expect(kindOf(() => decodePasswordMaterial(bytes("0300616461")))).toBe("truncated");
  });
});
