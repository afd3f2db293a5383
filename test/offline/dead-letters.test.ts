import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countDeadLetters, DeadLetterSink, decodeDeadLetter } from "../../src/offline/dead-letters.ts";
import { ascii, codec, flip, frame, header, join, newFiles, put, segmentPath, unhex } from "../log/fixtures.ts";

const DLQ1 = "444c51310900000000000000060000000100000067";
const DLQ2 = "444c5132010900000000000000060000000100000067";

describe("the headers of a dead letter", () => {
  it("storage.md 26.24: both forms", () => {
    const letter = { sourceOffset: 9n, attempt: 6, group: "g" };
    expect(decodeDeadLetter(unhex(DLQ1))).toEqual({ ...letter, reason: "max-deliver-exceeded" });
    expect(decodeDeadLetter(unhex(DLQ2))).toEqual({ ...letter, reason: "ttl-expired" });
    const withOriginal = unhex("444c5132020900000000000000060000000100020067aabb");
    expect(decodeDeadLetter(withOriginal)).toEqual({ ...letter, reason: "rejected" });
  });

  it("storage.md 26.24: one byte too many or too few, another magic or an unknown reason is foreign", () => {
    for (const hex of [`${DLQ1}00`, DLQ1.slice(0, -2), `${DLQ2}00`, DLQ2.slice(0, -2), DLQ1.slice(0, 8), ""]) {
      expect(decodeDeadLetter(unhex(hex)), hex).toBe(undefined);
    }
    expect(decodeDeadLetter(unhex(DLQ1.replace("444c5131", "444c5133")))).toBe(undefined);
    expect(decodeDeadLetter(unhex(DLQ2.replace("444c513201", "444c513203")))).toBe(undefined);
  });

  it("any bytes decode to a letter of their length, or to none", () => {
    const bytes = fc
      .tuple(fc.constantFrom("DLQ1", "DLQ2", "TTL1", ""), fc.uint8Array({ maxLength: 64 }))
      .map(([magic, rest]) => join(ascii(magic), rest));
    fc.assert(
      fc.property(bytes, (headers) => {
        const letter = decodeDeadLetter(headers);
        if (letter === undefined) return;
        const fixed = headers[3] === 0x31 ? 20 : 21;
        const lengths = Buffer.from(headers).readUInt16LE(fixed - 4) + Buffer.from(headers).readUInt16LE(fixed - 2);
        expect(headers.length).toBe(fixed + lengths);
      }),
      { numRuns: 1000 },
    );
  });
});

describe("a dead-letter sink", () => {
  it("is read in order, foreign records skipped, and is empty when it is not there", () => {
    const files = newFiles("/sink");
    const letters = [DLQ1, "", DLQ2].map((headers, index) =>
      frame({ sequence: BigInt(index), headers: unhex(headers), payload: ascii(`m${index}`) }),
    );
    expect(countDeadLetters(files, codec, "/sink")).toBe(0);
    put(files, segmentPath(0, "/sink"), join(header(0, 0), ...letters));
    const sink = new DeadLetterSink(files, codec, "/sink");
    const found = [...sink].map(({ record, reason }) => [record.offset, reason]);
    expect(found).toEqual([
      [0, "max-deliver-exceeded"],
      [2, "ttl-expired"],
    ]);
    expect(sink.losses()).toEqual([]);
    expect(countDeadLetters(files, codec, "/sink")).toBe(2);
    flip(files, segmentPath(0, "/sink"), 64 + letters[0].length + 40);
    const damaged = new DeadLetterSink(files, codec, "/sink");
    expect([...damaged].length).toBe(1);
    expect(damaged.losses()).toMatchObject([{ segmentId: 0, reason: "CorruptRecordBody" }]);
    expect(new DeadLetterSink(files, codec, "/nothing").losses()).toEqual([]);
    expect(countDeadLetters(files, codec, "/nothing")).toBe(0);
  });
});
