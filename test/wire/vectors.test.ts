import { describe, expect, it } from "vitest";
import type { DeliverBatch } from "../../src/wire/deliver.ts";
import { frameBytesNeeded } from "../../src/wire/envelope.ts";
import { ErrorCode, isErrorCode } from "../../src/wire/error-body.ts";
import type { WireErrorKind } from "../../src/wire/errors.ts";
import { decodePubBatchRecords, type PubBatch } from "../../src/wire/extension.ts";
import { readCorrelationId, readHeaderBlocks } from "../../src/wire/header-blocks.ts";
import { decodeBody, encodeFrame, type Message } from "../../src/wire/message.ts";
import type { Pub } from "../../src/wire/pub.ts";
import { publishLevel } from "../../src/wire/pub-table.ts";
import { decodeStoredRecords } from "../../src/wire/stored-record.ts";
import { SubFlag } from "../../src/wire/stream.ts";
import { encodeUtf8 } from "../../src/wire/utf8.ts";
import golden from "../vectors/golden_vectors.json" with { type: "json" };
import derived from "../vectors/wire_derived_vectors.json" with { type: "json" };
import { bytes, checksums, hex, lz4Block, wireErrorOf } from "./support.ts";

interface Vector {
  readonly name: string;
  readonly kind: string;
  readonly tag: number;
  readonly reencode: boolean;
  readonly frame_hex: string;
  readonly fields: Record<string, unknown>;
}

const SERVER_KINDS = new Set(["stream_info_response", "ext_hello_response"]);

const MALFORMED_CLASSES: Record<string, WireErrorKind> = {
  truncated: "truncated",
  bad_length: "length-exceeds",
  bad_ack_op: "unknown-ack-op",
  trailing_bytes: "trailing-bytes",
  bad_version: "unknown-version",
};

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** An object in the notation of the vectors: snake case, bytes in hex, u64 as decimal strings. */
function inVectorNotation(value: object): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(value)) {
    if (field instanceof Uint8Array) out[`${snake(name)}_hex`] = hex(field);
    else if (typeof field === "bigint") out[snake(name)] = field.toString();
    else if (typeof field === "object" && field !== null) out[snake(name)] = inVectorNotation(field);
    else out[snake(name)] = field;
  }
  return out;
}

function pubFields(pub: Pub): Record<string, unknown> {
  const blocks = readHeaderBlocks(pub.headers);
  const dedup = pub.dedup && { seq: null, ...inVectorNotation(pub.dedup) };
  if (dedup && dedup.seq === undefined) dedup.seq = null;
  return {
    ...inVectorNotation(pub),
    dedup,
    ack_level: publishLevel(pub.flags),
    ttl_ms: blocks.ttlMs?.toString(),
    delay_ms: blocks.delayMs?.toString(),
    user_headers_hex: hex(pub.headers.subarray(blocks.userHeadersAt)),
    correlation_id_hex: readCorrelationId(pub.headers),
    expect_err: blocks.dueUnixMs === undefined ? undefined : ErrorCode.InvalidDelayHeader,
  };
}

function batchRecords(batch: DeliverBatch): object[] {
  return decodeStoredRecords(batch, checksums).map((record) => {
    const { frame, label, ...fields } = record;
    expect(label.length).toBe(0);
    return { ...inVectorNotation(fields), record_hex: hex(frame) };
  });
}

function pubBatchFields(batch: PubBatch): Record<string, unknown> {
  const records = decodePubBatchRecords(batch.region, batch.recordCount).map((record) => ({
    rflags: record.flags,
    ts_delta_ms: record.timestampDeltaMs,
    key_hex: hex(record.key),
    headers_hex: hex(record.headers),
    payload_hex: hex(record.payload),
  }));
  return { ...inVectorNotation(batch), dedup: batch.producer && inVectorNotation(batch.producer), records };
}

/** Every field that a vector of this kind can name. */
function fieldsOf(message: Message): Record<string, unknown> {
  switch (message.kind) {
    case "connect":
      return {
        ...inVectorNotation(message.body),
        auth_mechanism: message.body.auth?.mechanism,
        auth_material_hex: message.body.auth && hex(message.body.auth.material),
      };
    case "pub":
      return pubFields(message.body);
    case "pubTo":
    case "pubSubject":
    case "txnPrepare": {
      const frame = encodeFrame({ kind: "pub", body: message.body.pub });
      return { ...inVectorNotation(message.body), pub_body_hex: hex(frame.subarray(5)) };
    }
    case "deliver": {
      const { flags, payload } = message.body;
      const claim = Number(Buffer.from(payload).readUInt32LE(5));
      return {
        ...inVectorNotation(message.body),
        payload_uncompressed_hex: flags & 1 ? hex(lz4Block(payload.subarray(9), claim)) : undefined,
      };
    }
    case "deliverBatch":
      return { ...inVectorNotation(message.body), records: batchRecords(message.body) };
    case "pubBatch":
      return pubBatchFields(message.body);
    case "flowEnd":
      return { count: message.body.delivered };
    case "subTo":
      return { ...inVectorNotation(message.body), ephemeral: (message.body.subFlags & SubFlag.Ephemeral) !== 0 };
    case "err":
      return {
        ...message.body,
        message_hex: hex(encodeUtf8(message.body.message)),
        typed_code: isErrorCode(message.body.code) ? message.body.code : undefined,
      };
    default:
      return inVectorNotation(message.body);
  }
}

function decodeVector(vector: Vector): Message {
  const frame = bytes(vector.frame_hex);
  expect(frameBytesNeeded(frame, 0, frame.length)).toBe(frame.length);
  expect(frame[4]).toBe(vector.tag);
  return decodeBody(frame[4], frame.subarray(5), SERVER_KINDS.has(vector.kind) ? "server" : "client");
}

function checkVector(vector: Vector): void {
  const message = decodeVector(vector);
  const found = fieldsOf(message);
  const named = Object.fromEntries(Object.keys(vector.fields).map((name) => [name, found[name] ?? null]));
  expect(named).toEqual(vector.fields);
  if (vector.reencode) expect(hex(encodeFrame(message))).toBe(vector.frame_hex);
}

describe("vectors", () => {
  it("covers the 47 golden and the 69 derived frames", () => {
    expect([golden.length, derived.length]).toEqual([47, 69]);
  });

  it.each(golden as unknown as Vector[])("wire.md 22.1: $name", checkVector);

  const wellFormed = (derived as unknown as Vector[]).filter((vector) => vector.kind !== "malformed");
  it.each(wellFormed)("wire.md 22.2: $name", checkVector);

  const malformed = (derived as unknown as Vector[]).filter((vector) => vector.kind === "malformed");
  it.each(malformed)("wire.md 22.2: $name is refused", (vector) => {
    const error = wireErrorOf(() => decodeVector(vector));
    const expected = vector.fields.expect as string;
    if (expected in MALFORMED_CLASSES) expect(error?.kind).toBe(MALFORMED_CLASSES[expected]);
    else expect(error?.message).toBe(expected);
  });
});
