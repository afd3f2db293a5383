import { describe, expect, it } from "vitest";
import { Ledger } from "./ledger.ts";
import { identify, identityOf, payloadOf } from "./payloads.ts";

const three = { start: 0, identities: [identityOf(1, 0), identityOf(2, 0), identityOf(1, 1)] };

function ledgerOf(...acknowledged: [offset: number, writer: number, index: number][]): Ledger {
  const ledger = new Ledger();
  for (const [offset, writer, index] of acknowledged) ledger.acknowledged(offset, writer, index);
  return ledger;
}

describe("the ledger finds what a crash must not do", () => {
  it("nothing where all is well, records that were never acknowledged included", () => {
    expect(ledgerOf([0, 1, 0], [2, 1, 1]).compare(three)).toEqual([]);
  });

  it("a record that is missing at the end, and one that is missing at the beginning", () => {
    expect(ledgerOf([3, 1, 2]).compare(three)).toEqual(["offset 3 (1/2) is missing"]);
    expect(ledgerOf().compare({ ...three, start: 1 })).toHaveLength(1);
    expect(ledgerOf().compare({ ...three, start: 1 }, 1)).toEqual([]);
  });

  it("a record that another one took the place of", () => {
    expect(ledgerOf([1, 2, 1]).compare(three)).toEqual(["offset 1 is 2/0, not 2/1"]);
  });

  it("a record that is there twice, and an offset that was given twice", () => {
    const twice = { start: 0, identities: [...three.identities, identityOf(2, 0)] };
    expect(ledgerOf().compare(twice)).toEqual(["2/0 is at 1 and at 3"]);
    expect(ledgerOf([0, 1, 0], [0, 2, 0]).compare(three)[0]).toBe("offset 0 was given to 1/0 and to 2/0");
  });

  it("records of one writer in another order", () => {
    const swapped = { start: 0, identities: [identityOf(1, 1), identityOf(1, 0)] };
    expect(ledgerOf().compare(swapped)).toEqual(["1/0 at 1 is out of order"]);
  });

  it("a counted record that is missing", () => {
    const ledger = new Ledger();
    ledger.counted(1, 3, 2);
    expect(ledger.compare(three)).toContain("1/2 was counted and is missing");
  });

  it("a payload with one other bit", () => {
    const payload = payloadOf(7, 33);
    expect(identify(payload)).toBe(identityOf(7, 33));
    payload[payload.length - 1] ^= 1;
    expect(() => identify(payload)).toThrow("is not what was published");
  });
});
