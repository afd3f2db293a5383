import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { inspectLog } from "../../src/log/inspection.ts";
import { Log } from "../../src/log/log.ts";
import type { LossEvent } from "../../src/log/loss-report.ts";
import { readLog } from "../../src/log/offline-reader.ts";
import { type RecoveredLog, recoverLog } from "../../src/log/recovery.ts";
import { StorageError, type StorageErrorKind } from "../../src/log/storage-error.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { FIELD_PAYLOAD, FIELD_PAYLOAD_LENGTH, FIELDS } from "../../src/runtime/codec.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { codec, hex, lcg, put, ROOT, segmentBytes, segmentPath } from "../log/fixtures.ts";
import { bounded, fuzz, type Mutation, mutate, mutations, outcome } from "./fuzzing.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
/** Windows of the readers, and room for what is around them. */
const WINDOWS_BYTES = MIB;

const RECORDS = 24;
const PER_SEGMENT = 8;
const PAYLOADS = Array.from({ length: RECORDS }, (_, i) => lcg(i, (i * 53) % 230));
const IMAGE = [0, 1, 2].map((id) => {
  const base = id * PER_SEGMENT;
  const body = segmentBytes({ id, base, payloads: PAYLOADS.slice(base, base + PER_SEGMENT), sealed: id < 2 });
  return id < 2 ? body : new Uint8Array(Buffer.concat([body, new Uint8Array(300)]));
});

/** What a mode may refuse to open, however the bytes came about. */
const NOT_OURS: readonly StorageErrorKind[] = ["SegmentDecode", "UnsupportedFeature", "OutOfRange"];

/** Places whose checksum is put right after the changes. */
type Signed = "header" | "record" | "footer";

interface Attack {
  readonly segment: number;
  readonly steps: readonly Mutation[];
  readonly signed: readonly Signed[];
}

const changes = fc.array(
  fc.record({ segment: fc.nat(2), steps: mutations, signed: fc.constant<readonly Signed[]>([]) }),
  { minLength: 1, maxLength: 3 },
);
const signedChanges = fc.array(
  fc.record({ segment: fc.nat(2), steps: mutations, signed: fc.subarray<Signed>(["header", "record", "footer"]) }),
  { minLength: 1, maxLength: 2 },
);

function sign(bytes: Uint8Array, start: number, covered: number): void {
  if (start < 0 || start + covered + 4 > bytes.length) return;
  new DataView(bytes.buffer).setUint32(start + covered, codec.crc32c(bytes, start, start + covered), true);
}

function disk(segments: readonly Uint8Array[]): SimulatedFileSystem {
  const files = new SimulatedFileSystem({ turns: "manual" });
  files.makeDirectory(ROOT);
  for (const [id, bytes] of segments.entries()) put(files, segmentPath(id), bytes);
  return files;
}

function attacked(attacks: readonly Attack[]): Uint8Array[] {
  const segments = IMAGE.map((bytes): Uint8Array => bytes.slice());
  for (const { segment, steps, signed } of attacks) {
    const changed = mutate(segments[segment], steps);
    if (signed.includes("header")) sign(changed, 0, 60);
    if (signed.includes("record")) sign(changed, 64, 32);
    if (signed.includes("footer")) sign(changed, changed.length - 32, 28);
    segments[segment] = changed;
  }
  return segments;
}

function sizeOf(segments: readonly Uint8Array[]): number {
  return Math.max(...segments.map(({ length }) => length));
}

/** What is read offline, by offset. */
function read(files: FileSystem): Map<number, string> {
  const found = new Map<number, string>();
  let previous = -1;
  for (const { offset, payload } of readLog(files, codec, ROOT)) {
    expect(offset).toBeGreaterThan(previous);
    previous = offset;
    found.set(offset, hex(payload));
  }
  return found;
}

function checkGaps({ gaps, earliestOffset, nextOffset }: RecoveredLog): void {
  let end = earliestOffset;
  for (const gap of gaps) {
    expect(gap.start).toBeGreaterThanOrEqual(end);
    expect(gap.end).toBeGreaterThan(gap.start);
    end = gap.end;
  }
  expect(end).toBeLessThanOrEqual(nextOffset);
}

function checkLosses(losses: readonly LossEvent[]): void {
  for (const { segmentId, start, end, recordsLostEstimate } of losses) {
    for (const value of [segmentId, start, end, recordsLostEstimate]) expect(Number.isSafeInteger(value)).toBe(true);
    expect(start).toBeGreaterThanOrEqual(0);
    expect(end).toBeGreaterThanOrEqual(start);
  }
}

/** Opens the log in mode `salvage` as every tool does; what they say has to fit together. */
function salvage(segments: readonly Uint8Array[]): RecoveredLog {
  const limit = sizeOf(segments) + WINDOWS_BYTES;
  const files = disk(segments);
  const inspection = bounded(limit, () => inspectLog(files, codec, ROOT, { fullScan: true }));
  const before = bounded(limit, () => read(files));
  const recovered = bounded(limit, () => recoverLog(files, codec, ROOT, { maxSegmentBytes: MIB, fullScan: true }));
  expect(recovered.losses).toEqual(inspection.losses);
  expect(recovered.gaps).toEqual(inspection.gaps);
  checkGaps(recovered);
  checkLosses(recovered.losses);
  expect(read(files)).toEqual(before);
  const inGaps = recovered.gaps.reduce((sum, { start, end }) => sum + end - start, 0);
  expect(before.size + inGaps).toBe(recovered.nextOffset - recovered.earliestOffset);
  expect(running(segments, limit)).toEqual(before);
  return recovered;
}

/** What the broker's log gives, opened without a look at the bodies. */
function running(segments: readonly Uint8Array[], limit: number): Map<number, string> {
  const files = disk(segments);
  return bounded(limit, () => {
    const log = Log.open(
      {
        root: ROOT,
        maxSegmentBytes: MIB,
        maxPendingBytes: 64 * KIB,
        durability: { level: "sync", flushIntervalMs: 1000, flushMaxBytes: MIB },
      },
      { files, codec, clock: new SimulatedClock() },
      { advanced() {}, rejected() {}, froze() {} },
    );
    const found = new Map<number, string>();
    for (let offset = log.earliestOffset; offset < log.visibleHead; ) {
      const window = log.read(offset, log.visibleHead);
      if (window === undefined) {
        const gap = log.gapAt(offset);
        expect(gap?.end).toBeGreaterThan(offset);
        offset = gap?.end ?? log.visibleHead;
        continue;
      }
      const row = (offset - window.firstOffset) * FIELDS;
      const start = window.rows[row + FIELD_PAYLOAD];
      found.set(offset, hex(window.buffer.subarray(start, start + window.rows[row + FIELD_PAYLOAD_LENGTH])));
      offset += 1;
    }
    return found;
  });
}

describe("logs", () => {
  it("damaged in any way: mode salvage opens them and gives nothing that was not written under that offset", () => {
    fuzz(
      changes,
      (attacks) => {
        const segments = attacked(attacks);
        salvage(segments);
        for (const [offset, payload] of read(disk(segments))) expect(payload).toBe(hex(PAYLOADS[offset]));
      },
      3,
    );
  });

  it("of nothing but noise: mode salvage opens them", () => {
    const noise = fc.array(fc.uint8Array({ maxLength: 600 }), { minLength: 1, maxLength: 3 });
    fuzz(noise, (segments) => void salvage(segments), 3);
  });

  it("forged with checksums that hold: the tools agree, and what is refused is refused by its name", () => {
    fuzz(
      signedChanges,
      (attacks) => {
        const segments = attacked(attacks);
        const { error } = outcome(StorageError, () => salvage(segments));
        if (error !== undefined) expect(NOT_OURS).toContain(error.kind);
      },
      3,
    );
  });

  it("mode strict opens them or says why not, in the words of the contract", () => {
    fuzz(
      fc.oneof(changes, signedChanges),
      (attacks) => {
        const segments = attacked(attacks);
        const files = disk(segments);
        const options = { maxSegmentBytes: MIB, fullScan: true, recovery: "strict" } as const;
        const limit = sizeOf(segments) + WINDOWS_BYTES;
        const { value, error } = bounded(limit, () =>
          outcome(StorageError, () => recoverLog(files, codec, ROOT, options)),
        );
        if (value === undefined) {
          expect(error?.message).not.toBe("");
          for (const [id, bytes] of segments.entries()) {
            expect(files.stat(segmentPath(id))?.size).toBe(bytes.length);
          }
          return;
        }
        expect(value.gaps).toEqual([]);
        checkLosses(value.losses);
      },
      3,
    );
  });
});
