import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ByteWindow } from "../../src/log/byte-window.ts";
import { CompressionError, decompressPayload } from "../../src/log/compressed-payload.ts";
import { claimAt } from "../../src/log/frame-claim.ts";
import {
  decodeRecord,
  encodeRecord,
  MAX_FRAME_LENGTH,
  MIN_FRAME_LENGTH,
  RecordError,
  type StoredRecord,
} from "../../src/log/record.ts";
import { FIELDS, ScanStop } from "../../src/runtime/codec.ts";
import { codec, EMPTY, hex } from "../log/fixtures.ts";
import { bounded, fuzz, hostile, outcome } from "./fuzzing.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

const part = fc.uint8Array({ maxLength: 60 });
const label = fc.uint8Array({ minLength: 1, maxLength: 40 });
const record: fc.Arbitrary<StoredRecord> = fc
  .record({
    sequence: fc.bigInt({ min: 0n, max: 2n ** 53n - 1n }),
    timestampMs: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    flags: fc.constantFrom(0, 1),
    key: part,
    headers: part,
    payload: fc.oneof({ weight: 9, arbitrary: part }, { weight: 1, arbitrary: fc.constant(new Uint8Array(70_000)) }),
  })
  .chain((fields) =>
    fc.oneof(
      fc.constant(fields),
      label.map((subject) => ({ ...fields, subject })),
      label.map((streamTag) => ({ ...fields, streamTag })),
    ),
  );
const frame = record.map((fields) => encodeRecord(fields, codec));

/** Puts the header's checksum right, so that what it says is looked at. */
function signHeader(bytes: Uint8Array): void {
  if (bytes.length >= 36) new DataView(bytes.buffer, bytes.byteOffset).setUint32(32, codec.crc32c(bytes, 0, 32), true);
}

describe("record frames", () => {
  it("round trip", () => {
    fuzz(record, (fields) => {
      const bytes = encodeRecord(fields, codec);
      const decoded = decodeRecord(bytes, codec);
      expect(decoded.lengthBytes).toBe(bytes.length);
      expect(hex(encodeRecord(decoded.record, codec))).toBe(hex(bytes));
      for (const part of ["key", "headers", "payload", "subject", "streamTag"] as const) {
        expect(hex(decoded.record[part] ?? EMPTY)).toBe(hex(fields[part] ?? EMPTY));
      }
      expect(decoded.record).toMatchObject({ sequence: fields.sequence, timestampMs: fields.timestampMs });
    });
  });

  it("anything else is a RecordError, or a frame that says what its bytes say; nothing is allocated for a claim", () => {
    fuzz(hostile(frame, signHeader), (bytes) => {
      const { value, error } = bounded(64 * KIB, () => outcome(RecordError, () => decodeRecord(bytes, codec)));
      if (value === undefined) {
        expect(error?.kind).toBeDefined();
        return;
      }
      expect(value.lengthBytes).toBeLessThanOrEqual(bytes.length);
      // Flag bits without a meaning are kept (storage.md 26.7).
      if ((bytes[3] & 0xc0) === 0)
        expect(hex(encodeRecord(value.record, codec))).toBe(hex(bytes.subarray(0, value.lengthBytes)));
    });
  });

  it("the codec that scans in bulk finds the same frames", () => {
    const table = new Int32Array(64 * FIELDS);
    const result = new Float64Array(4);
    const frames = fc.array(frame, { maxLength: 5 }).map((all) => new Uint8Array(Buffer.concat(all)));
    fuzz(hostile(frames, signHeader), (bytes) => {
      const found = bounded(64 * KIB, () => codec.scan(bytes, 0, bytes.length, table, 64, -1, result));
      let position = 0;
      for (let i = 0; i < found; i++) position += decodeRecord(bytes, codec, position).lengthBytes;
      expect(result[0]).toBe(position);
      const stop = result[1];
      expect(Object.values(ScanStop)).toContain(stop);
      if (found < 64 && position < bytes.length) {
        const { error } = outcome(RecordError, () => decodeRecord(bytes, codec, position));
        expect(error?.kind).toBe(Object.entries(ScanStop).find(([, value]) => value === stop)?.[0]);
      }
    });
  });

  it("a header's claim is within the format, and that of an intact frame is its length", () => {
    fuzz(hostile(frame, signHeader), (bytes) => {
      const window = new ByteWindow(readable(bytes));
      const claim = bounded(bytes.length + 512 * KIB, () => claimAt(window, 0, bytes.length, codec));
      const { value } = outcome(RecordError, () => decodeRecord(bytes, codec));
      if (value !== undefined) expect(claim).toMatchObject({ lengthBytes: value.lengthBytes, corrected: false });
      if (claim === undefined) return;
      expect(claim.lengthBytes).toBeGreaterThanOrEqual(MIN_FRAME_LENGTH);
      expect(claim.lengthBytes).toBeLessThanOrEqual(MAX_FRAME_LENGTH);
    });
  });
});

describe("compressed payloads", () => {
  const object = fc
    .tuple(
      fc.constantFrom(0, 1, 2, 3, 255),
      fc.constantFrom(0, 0, 0, 9),
      fc.constantFrom(0, 20, 64, 8 * MIB, 8 * MIB + 1, 0xffff_ffff),
      fc.uint8Array({ maxLength: 100 }),
    )
    .map(([codecId, dictionaryId, length, stream]) => {
      const bytes = new Uint8Array(9 + stream.length);
      const view = new DataView(bytes.buffer);
      view.setUint8(0, codecId);
      view.setUint32(1, dictionaryId, true);
      view.setUint32(5, length, true);
      bytes.set(stream, 9);
      return bytes;
    });

  it("decode to what they claim, or fail as CompressionError; 8 MiB is the most that is ever asked for", () => {
    fuzz(hostile(object), (bytes) => {
      const { value } = bounded(8 * MIB + KIB, () => outcome(CompressionError, () => decompressPayload(bytes, codec)));
      if (value === undefined) return;
      expect(value.length).toBe(new DataView(bytes.buffer, bytes.byteOffset).getUint32(5, true));
    });
  });
});

function readable(bytes: Uint8Array): ConstructorParameters<typeof ByteWindow>[0] {
  return {
    path: "bytes",
    read(buffer, offset, length, position) {
      const found = bytes.subarray(position, position + length);
      buffer.set(found, offset);
      return found.length;
    },
  };
}
