import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodePubBatchRecords, encodePubBatchRecord } from "../../src/wire/extension.ts";
import { MAX_FRAME_LENGTH } from "../../src/wire/limits.ts";
import {
  decodeBody,
  encodeBody,
  encodeFrame,
  type Message,
  type MessageKind,
  tagOf,
  writeFrame,
} from "../../src/wire/message.ts";
import { decodeStoredRecords } from "../../src/wire/stored-record.ts";
import { isKnownTag, Tag } from "../../src/wire/tags.ts";
import { Writer } from "../../src/wire/writer.ts";
import { bodyArbitraries } from "./messages.ts";
import { bytes, checksums, hex, kindOf, wireErrorOf } from "./support.ts";

const KINDS = Object.keys(bodyArbitraries) as MessageKind[];
const senderOf = (kind: MessageKind): "client" | "server" => (kind.endsWith("Response") ? "server" : "client");
const messageOf = (kind: MessageKind, body: unknown): Message => ({ kind, body }) as Message;

/**
 * What a decoded value holds, in bytes: views, text, and 64 for every object and array entry. Views must be of `source`:
 * anything else would be a copy whose size somebody chose.
 */
function footprint(value: unknown, source: Uint8Array): number {
  if (value instanceof Uint8Array) {
    expect(value.buffer).toBe(source.buffer);
    return value.length;
  }
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce((sum: number, field) => sum + 8 + footprint(field, source), 64);
}

/** Decodes bytes of unknown origin: a value of bounded size, or a WireError. */
function decodeUntrusted(tag: number, body: Uint8Array, sender: "client" | "server"): Message | undefined {
  let message: Message | undefined;
  const error = wireErrorOf(() => {
    message = decodeBody(tag, body, sender);
  });
  expect(message === undefined).toBe(error !== undefined);
  expect(footprint(message, body)).toBeLessThanOrEqual(512 + 16 * body.length);
  return message;
}

describe("messages", () => {
  it("has a body for every tag that is ever sent", () => {
    const covered = new Set<number>(KINDS.map(tagOf));
    const registered = [...Array(256).keys()].filter((tag) => isKnownTag(tag) && tag !== Tag.Nack);
    expect([...covered].sort((a, b) => a - b)).toEqual(registered);
  });

  it("refuses a tag without a body", () => {
    for (const tag of [0, Tag.Nack, 53, 191, 201, 255]) {
      expect(kindOf(() => decodeBody(tag, new Uint8Array(0)))).toBe("unknown-tag");
    }
  });

  it.each(KINDS)("reads back every %s", (kind) => {
    fc.assert(
      fc.property(bodyArbitraries[kind], (body) => {
        const message = messageOf(kind, body);
        const encoded = encodeBody(message);
        expect(decodeBody(tagOf(kind), encoded, senderOf(kind))).toEqual(message);
        const frame = encodeFrame(message);
        expect([frame[4], hex(frame.subarray(5))]).toEqual([tagOf(kind), hex(encoded)]);
      }),
    );
  });

  it.each(KINDS)("takes any part of a %s as a value or a WireError", (kind) => {
    fc.assert(
      fc.property(bodyArbitraries[kind], (body) => {
        const encoded = encodeBody(messageOf(kind, body));
        const step = Math.max(1, Math.floor(encoded.length / 100));
        for (let length = 0; length < encoded.length; length += step) {
          decodeUntrusted(tagOf(kind), encoded.slice(0, length), senderOf(kind));
        }
      }),
      { numRuns: 40 },
    );
  });

  it.each(KINDS)("takes a damaged %s as a value or a WireError, and a value has one meaning", (kind) => {
    const damage = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(bodyArbitraries[kind], damage, (body, hits) => {
        const encoded = encodeBody(messageOf(kind, body));
        for (const [at, value] of hits) if (encoded.length > 0) encoded[at % encoded.length] = value;
        const message = decodeUntrusted(tagOf(kind), encoded, senderOf(kind));
        if (message === undefined) return;
        expect(decodeBody(tagOf(kind), encodeBody(message), senderOf(kind))).toEqual(message);
      }),
    );
  });

  it("takes random bytes under any tag as a value or a WireError", () => {
    const sender = fc.constantFrom("client" as const, "server" as const);
    const block = fc.uint8Array({ maxLength: 80 }).map((fields) => {
      const length = fields.length;
      return new Uint8Array([1, length & 0xff, length >> 8, ...fields]);
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 255 }),
        fc.oneof(fc.uint8Array({ maxLength: 120 }), block),
        sender,
        (tag, body, from) => {
          decodeUntrusted(tag, body, from);
        },
      ),
      { numRuns: 5000 },
    );
  });

  it("takes random bytes as the records of a batch, or a WireError", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(0xffff_ffff), (region, recordCount) => {
        for (const count of [recordCount, recordCount % 4]) {
          wireErrorOf(() => {
            expect(decodePubBatchRecords(region, count)).toHaveLength(count);
          });
          wireErrorOf(() => {
            const batch = { firstOffset: 0n, generation: 0n, recordCount: count, frames: region };
            expect(decodeStoredRecords(batch, checksums)).toHaveLength(count);
          });
        }
      }),
      { numRuns: 1000 },
    );
  });

  it("reads back the records of a batch, and no other count of them", () => {
    const record = fc.record({
      flags: fc.constantFrom(0, 1),
      timestampDeltaMs: fc.integer(),
      key: fc.uint8Array({ maxLength: 20 }),
      headers: fc.uint8Array({ maxLength: 20 }),
      payload: fc.uint8Array({ maxLength: 20 }),
    });
    fc.assert(
      fc.property(fc.array(record, { maxLength: 8 }), (records) => {
        const writer = new Writer(16);
        for (const each of records) encodePubBatchRecord(writer, each);
        const region = writer.toBytes();
        expect(decodePubBatchRecords(region, records.length)).toEqual(records);
        expect(kindOf(() => decodePubBatchRecords(region, records.length + 1))).toBe("truncated");
        if (records.length > 0) {
          expect(kindOf(() => decodePubBatchRecords(region, records.length - 1))).toBe("trailing-bytes");
        }
      }),
    );
  });

  it("refuses a batch record whose inner lengths do not fit it, whatever follows", () => {
    const kindOfRegion = (...records: string[]) => kindOf(() => decodePubBatchRecords(bytes(records.join("")), 2));
    const intact = `0d000000${"00".repeat(9)}01020304`;
    expect(kindOfRegion(intact, intact)).toBeUndefined();
    expect(kindOfRegion("0d0000000000000000050000000000aaaa", intact)).toBe("length-exceeds");
    expect(kindOfRegion("0d0000000000000000030002000000aaaa", intact)).toBe("length-exceeds");
    expect(kindOfRegion("080000000000000000000000", intact)).toBe("length-exceeds");
    expect(kindOfRegion("0d0000000200000000000000000000aaaa", intact)).toBe("unknown-kind");
    expect(kindOfRegion("ffffffff00000000000000000000000000", intact)).toBe("truncated");
  });

  it("refuses a frame above the cap and writes nothing of it", () => {
    const key = new Uint8Array(0);
    const pub = (payload: Uint8Array): Message => ({
      kind: "pub",
      body: { flags: 0, fireAndForget: false, timestampMs: 0n, key, headers: key, payload },
    });
    const writer = new Writer();
    writeFrame(writer, { kind: "ping", body: {} });
    expect(kindOf(() => writeFrame(writer, pub(new Uint8Array(MAX_FRAME_LENGTH - 13))))).toBe("frame-too-large");
    expect(hex(writer.toBytes())).toBe("0100000003");
    expect(encodeFrame(pub(new Uint8Array(MAX_FRAME_LENGTH - 14)))).toHaveLength(MAX_FRAME_LENGTH + 4);
  });

  it("refuses a field that does not fit and writes nothing of the frame", () => {
    const long = new Uint8Array(65_536);
    const none = new Uint8Array(0);
    const writer = new Writer();
    const kindOfWriting = (message: Message) => kindOf(() => writeFrame(writer, message));
    const pub = { flags: 0, fireAndForget: false, timestampMs: 0n, key: long, headers: none, payload: none };
    expect(kindOfWriting({ kind: "pub", body: pub })).toBe("var-too-long");
    expect(kindOfWriting({ kind: "subTo", body: { streamId: none, group: long, subFlags: 0 } })).toBe("var-too-long");
    const group = new Uint8Array(65_535);
    expect(kindOfWriting({ kind: "subTo", body: { streamId: none, group, subFlags: 0 } })).toBe("var-too-long");
    expect(kindOfWriting({ kind: "txnCommit", body: { txnId: new Uint8Array(257) } })).toBe("length-exceeds");
    expect(kindOfWriting({ kind: "streamInfoRequest", body: { streamId: new Uint8Array(1025) } })).toBe(
      "length-exceeds",
    );
    for (const credit of [-1, 0.5, 2 ** 32, Number.NaN]) {
      expect(kindOfWriting({ kind: "flow", body: { credit } })).toBe("out-of-range");
    }
    for (const offset of [-1n, 2n ** 64n]) {
      expect(kindOfWriting({ kind: "pubAck", body: { offset } })).toBe("out-of-range");
    }
    expect(writer.position).toBe(0);
  });
});
