import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ACK_FRAME_BYTES,
  ACK_STATUS_FRAME_BYTES,
  AckView,
  BACKOFF_DELAY_MS,
  copyBytes,
  DEAD_LETTER_FRAME_BYTES,
  DELIVER_FRAME_OVERHEAD_BYTES,
  DeliverView,
  EMPTY_FRAME_BYTES,
  FLOW_END_FRAME_BYTES,
  FLOW_FRAME_BYTES,
  GAP_MARKER_FRAME_BYTES,
  isU64Max,
  PUB_ACK_FRAME_BYTES,
  PUB_FRAME_OVERHEAD_BYTES,
  readAck,
  readAckStatus,
  readDeliver,
  readFlow,
  readFlowEnd,
  readPubAck,
  readU64,
  readU64Exact,
  TRUNCATED_FRAME_BYTES,
  writeAck,
  writeAckStatus,
  writeDeadLetter,
  writeDeliverHeader,
  writeEmpty,
  writeFlow,
  writeFlowEnd,
  writeGapMarker,
  writePub,
  writePubAck,
  writePubAckDuplicate,
  writeTruncated,
  writeU16,
  writeU64,
  writeU64Exact,
} from "../../src/wire/hot.ts";
import { decodeBody, encodeBody, encodeFrame, type Message } from "../../src/wire/message.ts";
import { Tag } from "../../src/wire/tags.ts";
import { bodyArbitraries } from "./messages.ts";
import { hex, kindOf } from "./support.ts";

const safe = fc.oneof(fc.maxSafeNat(), fc.constantFrom(0, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1));
const u32 = fc.integer({ min: 0, max: 0xffff_ffff });
const u8 = fc.integer({ min: 0, max: 0xff });
const MAX_U64 = 2n ** 64n - 1n;

/** Writes at position 3 of a dirty buffer and expects exactly the frame that the codec of `message` gives. */
function expectFrame(write: (out: Uint8Array, at: number) => number, frameBytes: number, message: Message): void {
  const out = new Uint8Array(frameBytes + 10).fill(0xee);
  expect(write(out, 3)).toBe(3 + frameBytes);
  expect(hex(out.subarray(3, 3 + frameBytes))).toBe(hex(encodeFrame(message)));
  expect(hex(out.subarray(0, 3)) + hex(out.subarray(3 + frameBytes))).toBe("ee".repeat(10));
}

describe("messages in place", () => {
  it("reads and writes u64 as numbers, exactly up to 2^53-1", () => {
    const out = new Uint8Array(8);
    fc.assert(
      fc.property(safe, (value) => {
        expect(writeU64(out, 0, value)).toBe(8);
        expect(readU64(out, 0)).toBe(value);
        expect(readU64Exact(out, 0)).toBe(BigInt(value));
      }),
    );
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: MAX_U64 }), (value) => {
        writeU64Exact(out, 0, value);
        expect(readU64Exact(out, 0)).toBe(value);
        expect(readU64(out, 0)).toBe(value > BigInt(Number.MAX_SAFE_INTEGER) ? -1 : Number(value));
        expect(isU64Max(out, 0)).toBe(value === MAX_U64);
      }),
    );
    writeU64Exact(out, 0, 2n ** 53n);
    expect(readU64(out, 0)).toBe(-1);
    writeU64Exact(out, 0, MAX_U64);
    expect([readU64(out, 0), isU64Max(out, 0)]).toEqual([-1, true]);
  });

  it("writes the frames of a server as the codecs do", () => {
    fc.assert(
      fc.property(safe, safe, safe, u32, u8, (a, b, c, count, small) => {
        const [offset, to, bytesSkipped] = [BigInt(a), BigInt(b), BigInt(c)];
        expectFrame((out, at) => writePubAck(out, at, a), PUB_ACK_FRAME_BYTES, { kind: "pubAck", body: { offset } });
        expectFrame((out, at) => writePubAckDuplicate(out, at, a), PUB_ACK_FRAME_BYTES, {
          kind: "pubAckDuplicate",
          body: { offset },
        });
        expectFrame((out, at) => writeAckStatus(out, at, small), ACK_STATUS_FRAME_BYTES, {
          kind: "ackStatus",
          body: { status: small },
        });
        expectFrame((out, at) => writeFlowEnd(out, at, count), FLOW_END_FRAME_BYTES, {
          kind: "flowEnd",
          body: { delivered: count },
        });
        expectFrame((out, at) => writeDeadLetter(out, at, a, small), DEAD_LETTER_FRAME_BYTES, {
          kind: "deadLetter",
          body: { offset, reason: small },
        });
        expectFrame((out, at) => writeTruncated(out, at, a, b), TRUNCATED_FRAME_BYTES, {
          kind: "truncated",
          body: { earliestRetained: offset, skipped: to },
        });
        expectFrame((out, at) => writeGapMarker(out, at, a, b, c, small), GAP_MARKER_FRAME_BYTES, {
          kind: "gapMarker",
          body: { from: offset, to, bytesSkipped, reason: small },
        });
      }),
    );
    expectFrame((out, at) => writeEmpty(out, at, Tag.Pong), EMPTY_FRAME_BYTES, { kind: "pong", body: {} });
  });

  it("writes the frames of a client as the codecs do", () => {
    const op = fc.constantFrom(0 as const, 1 as const, 2 as const, 3 as const);
    const delay = fc.oneof(safe, fc.constant(BACKOFF_DELAY_MS));
    fc.assert(
      fc.property(op, safe, safe, delay, u32, (code, offset, generation, delayMs, credit) => {
        expectFrame((out, at) => writeAck(out, at, code, offset, generation, delayMs), ACK_FRAME_BYTES, {
          kind: "ack",
          body: {
            op: code,
            offset: BigInt(offset),
            generation: BigInt(generation),
            delayMs: delayMs === BACKOFF_DELAY_MS ? MAX_U64 : BigInt(delayMs),
          },
        });
        expectFrame((out, at) => writeFlow(out, at, credit), FLOW_FRAME_BYTES, { kind: "flow", body: { credit } });
      }),
    );
    const blob = fc.uint8Array({ maxLength: 80 });
    fc.assert(
      fc.property(safe, u8, blob, blob, blob, (timestampMs, low, key, headers, payload) => {
        const flags = low & 0x1f;
        const size = PUB_FRAME_OVERHEAD_BYTES + key.length + headers.length + payload.length;
        expectFrame((out, at) => writePub(out, at, flags, timestampMs, key, headers, payload), size, {
          kind: "pub",
          body: { flags, fireAndForget: false, timestampMs: BigInt(timestampMs), key, headers, payload },
        });
      }),
    );
  });

  it("writes and reads Deliver frames as the codec does", () => {
    const view = new DeliverView();
    fc.assert(
      fc.property(bodyArbitraries.deliver, safe, safe, (body, offset, generation) => {
        const message: Message = {
          kind: "deliver",
          body: { ...body, offset: BigInt(offset), generation: BigInt(generation) },
        };
        const { key, headers, payload, flags, timestampMs } = message.body;
        const stamp = new Uint8Array(11);
        writeU64Exact(stamp, 3, timestampMs);
        const size = DELIVER_FRAME_OVERHEAD_BYTES + key.length + headers.length + payload.length;
        expectFrame(
          (out, at) => {
            const lengths = [key.length, headers.length, payload.length] as const;
            let next = writeDeliverHeader(out, at, offset, generation, flags, stamp, 3, ...lengths);
            next = copyBytes(out, next, key, 0, key.length);
            next = copyBytes(out, writeU16(out, next, headers.length), headers, 0, headers.length);
            return copyBytes(out, next, payload, 0, payload.length);
          },
          size,
          message,
        );
        const frame = encodeFrame(message);
        readDeliver(frame, 5, frame.length, view);
        expect([view.offset, view.generation, view.flags]).toEqual([offset, generation, flags]);
        expect(readU64Exact(frame, view.bodyStart + 17)).toBe(timestampMs);
        expect(view.timestampMs).toBe(readU64(stamp, 3));
        const part = (start: number, length: number) => hex(frame.subarray(start, start + length));
        expect(part(view.keyStart, view.keyLength)).toBe(hex(key));
        expect(part(view.headersStart, view.headersLength)).toBe(hex(headers));
        expect(part(view.payloadStart, view.payloadLength)).toBe(hex(payload));
      }),
    );
  });

  it("reads an Ack as the codec does, and what numbers cannot hold as a stand-in", () => {
    const view = new AckView();
    const numberOf = (value: bigint, otherwise: number) => (value < 2n ** 53n ? Number(value) : otherwise);
    fc.assert(
      fc.property(bodyArbitraries.ack, (ack) => {
        const body = encodeBody({ kind: "ack", body: ack });
        readAck(body, 0, body.length, view);
        expect(view).toEqual({
          op: ack.op,
          offset: numberOf(ack.offset, -1),
          generation: numberOf(ack.generation, -1),
          delayMs: ack.delayMs === MAX_U64 ? BACKOFF_DELAY_MS : numberOf(ack.delayMs, Number.MAX_SAFE_INTEGER),
        });
      }),
    );
  });

  it("refuses the bodies that the codecs refuse, for the same reason", () => {
    const padded = fc.tuple(fc.uint8Array({ maxLength: 60 }), fc.uint8Array({ maxLength: 5 }));
    const ackView = new AckView();
    const deliverView = new DeliverView();
    const readers: readonly [Tag, (buffer: Uint8Array, start: number, end: number) => unknown][] = [
      [Tag.PubAck, readPubAck],
      [Tag.AckStatus, readAckStatus],
      [Tag.Flow, readFlow],
      [Tag.FlowEnd, readFlowEnd],
      [Tag.Ack, (buffer, start, end) => readAck(buffer, start, end, ackView)],
      [Tag.Deliver, (buffer, start, end) => readDeliver(buffer, start, end, deliverView)],
    ];
    fc.assert(
      fc.property(padded, fc.constantFrom(...readers), ([body, around], [tag, read]) => {
        const buffer = new Uint8Array([...around, ...body, ...around]);
        const start = around.length;
        expect(kindOf(() => read(buffer, start, start + body.length))).toBe(kindOf(() => decodeBody(tag, body)));
      }),
      { numRuns: 3000 },
    );
    fc.assert(
      fc.property(bodyArbitraries.deliver, bodyArbitraries.ack, (deliver, ack) => {
        const messages: Message[] = [
          { kind: "deliver", body: deliver },
          { kind: "ack", body: ack },
        ];
        for (const message of messages) {
          const body = encodeBody(message);
          const [tag, read] = readers[message.kind === "ack" ? 4 : 5];
          for (let end = 0; end <= body.length; end++) {
            expect(kindOf(() => read(body, 0, end))).toBe(kindOf(() => decodeBody(tag, body.subarray(0, end))));
          }
        }
      }),
    );
    const exact = encodeBody({ kind: "pubAck", body: { offset: 2n ** 60n } });
    expect(readPubAck(exact, 0, 8)).toBe(-1);
    expect(readFlow(encodeBody({ kind: "flow", body: { credit: 64 } }), 0, 4)).toBe(64);
    expect(readFlowEnd(encodeBody({ kind: "flowEnd", body: { delivered: 3 } }), 0, 4)).toBe(3);
    expect(readAckStatus(new Uint8Array([2]), 0, 1)).toBe(2);
  });

  it("copies any length", () => {
    const out = new Uint8Array(300);
    const source = new Uint8Array(300).map((_, index) => index);
    for (const length of [0, 1, 32, 33, 250]) {
      out.fill(0);
      expect(copyBytes(out, 7, source, 11, length)).toBe(7 + length);
      expect(hex(out.subarray(7, 7 + length))).toBe(hex(source.subarray(11, 11 + length)));
      expect(out[7 + length]).toBe(0);
    }
  });
});
