import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { unacceptedLosses } from "../../src/log/accepted-losses.ts";
import {
  formatLossReport,
  LOSS_REASONS,
  type LossEvent,
  type LossReason,
  LossReportError,
  parseLossReport,
} from "../../src/log/loss-report.ts";
import { decodeTimeIndex, encodeTimeIndex, TimeIndexBuilder } from "../../src/log/time-index.ts";
import { decodeDeadLetter } from "../../src/offline/dead-letters.ts";
import { formatManifest, type Manifest, parseManifest } from "../../src/offline/manifest.ts";
import { OfflineError } from "../../src/offline/offline-error.ts";
import { codec, hex, newFiles, put, ROOT } from "../log/fixtures.ts";
import { bounded, fuzz, hostile, mutated, outcome } from "./fuzzing.ts";

const KIB = 1024;
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const utf8 = (value: string) => new TextEncoder().encode(value);

describe("loss reports", () => {
  const event: fc.Arbitrary<LossEvent> = fc
    .record({
      segmentId: fc.maxSafeNat(),
      start: fc.nat(2 ** 30),
      length: fc.nat(2 ** 30),
      recordsLostEstimate: fc.nat(),
      reason: fc.constantFrom(...(Object.keys(LOSS_REASONS) as LossReason[])),
    })
    .map(({ segmentId, start, length, recordsLostEstimate, reason }) => ({
      segmentId,
      start,
      end: start + length,
      recordsLostEstimate,
      reason,
    }));
  const report = fc.array(event, { maxLength: 4 });

  it("round trip", () => {
    fuzz(report, (events) => expect(parseLossReport(formatLossReport(events))).toEqual(events));
  });

  it("anything else is a LossReportError, or events of whole numbers", () => {
    const valid = report.map((events) => utf8(formatLossReport(events)));
    const shaped = fc
      .record({
        schema_version: fc.constantFrom(1, 1, 1, 2, "1"),
        events: fc.oneof(fc.array(fc.jsonValue()), fc.jsonValue()),
      })
      .map((value) => utf8(JSON.stringify(value)));
    const inputs = fc.oneof(hostile(valid), shaped, fc.json().map(utf8), fc.constant(utf8("[".repeat(100_000))));
    fuzz(inputs, (bytes) => {
      const { value } = bounded(KIB * KIB, () => outcome(LossReportError, () => parseLossReport(text(bytes))));
      for (const { segmentId, start, end, recordsLostEstimate, reason } of value ?? []) {
        expect([segmentId, start, end, recordsLostEstimate].every((n) => Number.isSafeInteger(n) && n >= 0)).toBe(true);
        expect(typeof reason).toBe("string");
      }
    });
  });

  it("whatever is in the list of accepted losses: what it does not name stays unaccepted", () => {
    fuzz(fc.tuple(report, hostile(report.map((events) => utf8(formatLossReport(events))))), ([losses, bytes]) => {
      const files = newFiles();
      put(files, `${ROOT}/repair-accepted.json`, bytes);
      const left = bounded(64 * KIB, () => unacceptedLosses(files, ROOT, losses));
      const { value: accepted = [] } = outcome(LossReportError, () => parseLossReport(text(bytes)));
      for (const each of losses) {
        const named = accepted.some(
          ({ segmentId, start, end }) => segmentId === each.segmentId && start <= each.start && each.end <= end,
        );
        expect(left.includes(each)).toBe(!named);
      }
    });
  });
});

describe("manifests of backups", () => {
  const name = fc.stringMatching(/^[a-z #\u00e9-]{1,8}$/).filter((each) => each !== "LOCK");
  const file = fc.record({
    crc: fc.nat(0xffff_ffff),
    lengthBytes: fc.maxSafeNat(),
    path: fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join("/")),
  });
  const manifest: fc.Arbitrary<Manifest> = fc
    .record({
      range: fc.tuple(fc.maxSafeNat(), fc.maxSafeNat()),
      cursors: fc.nat(),
      dlqRecords: fc.nat(),
      files: fc.uniqueArray(file, { maxLength: 5, selector: ({ path }) => path.split("/")[0] }),
    })
    .map(({ range: [a, b], ...rest }) => ({ earliestRetained: Math.min(a, b), durableHead: Math.max(a, b), ...rest }));

  it("round trip", () => {
    fuzz(manifest, (value) => expect(parseManifest(formatManifest(value))).toEqual(value));
  });

  it("anything else is refused as one, or says what its bytes say: there is one way to write each", () => {
    const line = fc.constantFrom(
      "files 1",
      "files 2",
      "0 0 a",
      "1 2 b/c",
      "0 0 a/..",
      "0 0 ../a",
      "range 0 1 cursors 0 dlq 0",
    );
    const lines = fc
      .array(line, { maxLength: 6 })
      .map((all) => utf8(`IBBKP 1\nrange 0 9 cursors 1 dlq 0\n${all.join("\n")}\n`));
    fuzz(fc.oneof(hostile(manifest.map(formatManifest)), lines, mutated(lines)), (bytes) => {
      const { value, error } = bounded(KIB * KIB, () => outcome(OfflineError, () => parseManifest(bytes)));
      if (value === undefined) {
        expect(error?.kind).toBe("InvalidManifest");
        return;
      }
      expect(hex(formatManifest(value))).toBe(hex(bytes));
      for (const { path } of value.files) {
        for (const part of path.split("/")) expect(["", ".", ".."]).not.toContain(part);
      }
    });
  });
});

describe("time indexes", () => {
  const index = fc
    .tuple(
      fc.nat(1000),
      fc.nat(1000),
      fc.array(fc.nat(1_000_000), { minLength: 1, maxLength: 40 }),
      fc.integer({ min: 1, max: 9 }),
    )
    .map(([segmentId, baseOffset, timestamps, stride]) => {
      const segment = { segmentId, baseOffset, recordCount: timestamps.length };
      const builder = new TimeIndexBuilder(segment, stride);
      for (const [i, timestamp] of timestamps.entries()) builder.add(baseOffset + i, BigInt(timestamp));
      return { segment, built: builder.finish() };
    });

  it("round trip", () => {
    fuzz(index, ({ segment, built }) =>
      expect(decodeTimeIndex(encodeTimeIndex(built, codec), segment, codec)).toEqual(built),
    );
  });

  it("anything else is none, or an index of that segment with the entries that its bytes hold", () => {
    const sign = (bytes: Uint8Array): void => {
      const end = bytes.length - 4;
      if (end >= 0) new DataView(bytes.buffer, bytes.byteOffset).setUint32(end, codec.crc32c(bytes, 0, end), true);
    };
    const attacked = index.chain(({ segment, built }) =>
      hostile(fc.constant(encodeTimeIndex(built, codec)), sign).map((bytes) => ({ segment, bytes })),
    );
    fuzz(attacked, ({ segment, bytes }) => {
      const decoded = bounded(64 * KIB, () => decodeTimeIndex(bytes, segment, codec));
      if (decoded === undefined) return;
      expect(decoded).toMatchObject(segment);
      expect(hex(encodeTimeIndex(decoded, codec))).toBe(hex(bytes));
    });
  });
});

describe("headers of dead letters", () => {
  const header = fc
    .tuple(fc.boolean(), fc.nat(3), fc.uint8Array({ maxLength: 20 }), fc.uint8Array({ maxLength: 20 }))
    .map(([second, reason, group, headers]) => {
      const lengths = Buffer.alloc(16);
      lengths.writeUInt16LE(group.length, 12);
      lengths.writeUInt16LE(headers.length, 14);
      const start = second ? Buffer.from([0x44, 0x4c, 0x51, 0x32, reason]) : Buffer.from("DLQ1");
      return new Uint8Array(Buffer.concat([start, lengths, group, headers]));
    });

  it("decode to no more than is there, or are foreign", () => {
    fuzz(hostile(header), (bytes) => {
      const decoded = bounded(64 * KIB, () => decodeDeadLetter(bytes));
      if (decoded === undefined) return;
      expect(decoded.attempt).toBeGreaterThanOrEqual(0);
      expect(decoded.group.length).toBeLessThanOrEqual(bytes.length);
    });
  });
});
