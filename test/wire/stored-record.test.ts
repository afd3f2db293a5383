import { describe, expect, it } from "vitest";
import { decodeStoredRecords, type StoredRecord } from "../../src/wire/stored-record.ts";
import vectors from "../vectors/record_vectors.json" with { type: "json" };
import { bytes, checksums, hex, wireErrorOf } from "./support.ts";

const decode = (frames: Uint8Array, recordCount = 1): StoredRecord[] =>
  decodeStoredRecords({ firstOffset: 7n, generation: 0n, recordCount, frames }, checksums);

const MESSAGES: Record<string, string> = {
  Truncated: "record frame is truncated",
  BadMagic: "record frame has a bad magic number",
  "UnsupportedVersion(9)": "unsupported record format version 9",
  BadHeaderCrc: "record header CRC mismatch",
  BadLength: "record frame has inconsistent length fields",
  BadSubjectCrc: "record stored-subject CRC mismatch",
  BadStreamTagCrc: "record stored-stream-tag CRC mismatch",
  BadBodyCrc: "record body CRC mismatch",
  BadXxh3: "record body xxh3-64 mismatch",
  Encrypted: "record frame is encrypted",
  TooLarge: "record frame exceeds the maximum size",
};

interface RecordVector {
  readonly name: string;
  readonly seq: string;
  readonly timestamp_ms: string;
  readonly flags_stored: number;
  readonly key_hex: string;
  readonly headers_hex: string;
  readonly payload: { hex?: string };
  readonly subject_hex: string;
  readonly stream_tag_hex: string;
  readonly frame_hex?: string;
}

interface DamagedVector {
  readonly name: string;
  readonly error: string;
  readonly frame_hex?: string;
}

const whole = (vectors.records as RecordVector[]).filter((vector) => vector.frame_hex);
const damaged = (vectors.damaged as DamagedVector[]).filter((vector) => vector.frame_hex);

describe("stored records", () => {
  it.each(whole)("reads upstream's record $name", (vector) => {
    const [record] = decode(bytes(vector.frame_hex as string));
    expect(record).toMatchObject({
      offset: 7n,
      seq: BigInt(vector.seq),
      flags: vector.flags_stored,
      timestampMs: BigInt(vector.timestamp_ms),
    });
    expect(hex(record.key)).toBe(vector.key_hex);
    expect(hex(record.headers)).toBe(vector.headers_hex);
    expect(hex(record.label)).toBe(vector.subject_hex + vector.stream_tag_hex);
    expect(hex(record.frame)).toBe(vector.frame_hex);
    if (vector.payload.hex !== undefined) expect(hex(record.payload)).toBe(vector.payload.hex);
  });

  it.each(damaged)("gives the damaged record $name the verdict $error", (vector) => {
    const error = wireErrorOf(() => decode(bytes(vector.frame_hex as string)));
    expect(error?.message).toBe(vector.error === "ok" ? undefined : MESSAGES[vector.error]);
    expect(error?.kind).toBe(vector.error === "ok" ? undefined : "bad-record");
  });

  it("refuses an encrypted record", () => {
    expect(wireErrorOf(() => decode(bytes(vectors.encrypted_frame.frame_hex)))?.message).toBe(
      "record frame is encrypted",
    );
  });

  it("reads all of them in one batch, and refuses any other count and any flipped bit", () => {
    const small = whole.filter((vector) => (vector.frame_hex as string).length < 300);
    const frames = bytes(small.map((vector) => vector.frame_hex).join(""));
    const records = decode(frames, small.length);
    expect(records.map((record) => record.offset)).toEqual(small.map((_, index) => 7n + BigInt(index)));
    expect(wireErrorOf(() => decode(frames, small.length - 1))?.kind).toBe("bad-record");
    expect(wireErrorOf(() => decode(frames, small.length + 1))?.kind).toBe("bad-record");
    expect(wireErrorOf(() => decode(frames, 0xffff_ffff))?.kind).toBe("bad-record");
    for (let at = 0; at < frames.length; at++) {
      frames[at] ^= 0x10;
      expect([at, wireErrorOf(() => decode(frames, small.length))?.kind]).toEqual([at, "bad-record"]);
      frames[at] ^= 0x10;
    }
  });

  it("checks the hash of a body of 64 KiB, and wants it from there on", () => {
    const frame = largeRecord(65_536);
    expect(decode(frame)[0].payload).toHaveLength(65_536);
    frame[frame.length - 9] ^= 1;
    expect(wireErrorOf(() => decode(frame))?.message).toBe("record body xxh3-64 mismatch");
    frame[frame.length - 9] ^= 1;
    const unhashed = largeRecord(65_535);
    expect(wireErrorOf(() => decode(unhashed))?.message).toBe("record frame has inconsistent length fields");
  });
});

/** A record with a hash, whether its length wants one or not. */
function largeRecord(payloadLength: number): Uint8Array {
  const frame = Buffer.alloc(36 + payloadLength + 16, 5);
  frame.writeUInt16LE(0x4942, 0);
  frame.set([1, 0x04], 2);
  frame.fill(0, 4, 28);
  frame.writeUInt32LE(payloadLength, 28);
  frame.writeUInt32LE(checksums.crc32c(frame, 0, 32), 32);
  const bodyEnd = 36 + payloadLength;
  frame.writeBigUInt64LE(checksums.xxh3(frame, 36, bodyEnd), bodyEnd);
  frame.writeUInt32LE(checksums.crc32c(frame, 36, bodyEnd), bodyEnd + 8);
  frame.writeUInt32LE(frame.length, bodyEnd + 12);
  return new Uint8Array(frame);
}
