import { describe, expect, it } from "vitest";
import type { Gap } from "../../src/log/gap.ts";
import { Log } from "../../src/log/log.ts";
import type { LossEvent } from "../../src/log/loss-report.ts";
import { SEGMENT_HEADER_LENGTH } from "../../src/log/segment.ts";
import { SegmentEntry } from "../../src/log/segment-entry.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { FIELD_PAYLOAD, FIELD_PAYLOAD_LENGTH, FIELDS } from "../../src/runtime/codec.ts";
import type { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { codec, get, hex, putSegment, ROOT, segmentPath, thrown, tree } from "./fixtures.ts";
import { newDisk, numbered, publishes } from "./open-log.ts";

const FRAME = 46;
const at = (i: number): number => 64 + i * FRAME;

interface Opened {
  files: SimulatedFileSystem;
  log: Log;
  lost: { gaps: readonly Gap[]; losses: readonly LossEvent[] }[];
}

function open(files: SimulatedFileSystem, maxSegmentBytes = 64 * 1024 * 1024): Opened {
  const lost: Opened["lost"] = [];
  const log = Log.open(
    {
      root: ROOT,
      maxSegmentBytes,
      maxPendingBytes: 4 * 1024 * 1024,
      durability: { level: "sync", flushIntervalMs: 1000, flushMaxBytes: 1024 * 1024 },
    },
    { files, codec, clock: new SimulatedClock() },
    {
      advanced: () => {},
      rejected: () => {},
      froze: () => {},
      lost: (gaps, losses) => lost.push({ gaps, losses }),
    },
  );
  return { files, log, lost };
}

function commit({ log, files }: Opened, payloads: string[]): void {
  const { chunk, table } = publishes(payloads);
  for (let from = 0; from < payloads.length; ) {
    from += log.append(chunk, table, from, payloads.length);
    log.pump();
    files.runAll();
  }
}

/** What a consumer that goes through the log sees; a gap as the offsets it takes. */
function consumed(log: Log): string[] {
  const seen: string[] = [];
  for (let offset = log.earliestOffset; offset < log.visibleHead; ) {
    const window = log.read(offset, log.visibleHead);
    if (window === undefined) {
      const gap = log.gapAt(offset) as Gap;
      expect(gap.start).toBeLessThanOrEqual(offset);
      expect(gap.end).toBeGreaterThan(offset);
      seen.push(`[${gap.start}, ${gap.end})`);
      offset = gap.end;
      continue;
    }
    const row = (offset - window.firstOffset) * FIELDS;
    const start = window.rows[row + FIELD_PAYLOAD];
    seen.push(new TextDecoder().decode(window.buffer.slice(start, start + window.rows[row + FIELD_PAYLOAD_LENGTH])));
    offset++;
  }
  return seen;
}

describe("damage that is met while the log is open", () => {
  it("in a sealed segment that the start did not read: a gap, a copy, an event; everything else is served", () => {
    const files = newDisk();
    putSegment(files, { id: 0, base: 0, payloads: numbered(10), sealed: true });
    putSegment(files, { id: 1, base: 10, payloads: ["p0", "p1"] });
    for (const record of [3, 4, 7]) files.flipBit(segmentPath(0), at(record) + 37, 2);
    const bytes = get(files, segmentPath(0));
    const opened = open(files);
    expect(opened.log.gaps).toEqual([]);
    const expected = ["m0", "m1", "m2", "[3, 5)", "m5", "m6", "[7, 8)", "m8", "m9", "p0", "p1"];
    expect(consumed(opened.log)).toEqual(expected);
    expect(opened.log.gaps).toEqual([
      { start: 3, end: 5 },
      { start: 7, end: 8 },
    ]);
    expect(opened.lost).toMatchObject([
      {
        gaps: [
          { start: 3, end: 4 },
          { start: 4, end: 5 },
          { start: 7, end: 8 },
        ],
        losses: [
          { segmentId: 0, start: at(3), end: at(4), recordsLostEstimate: 1, reason: "CorruptRecordBody" },
          { start: at(4), end: at(5) },
          { start: at(7), end: at(8) },
        ],
      },
    ]);
    const blob = `${ROOT}/quarantine/q-0000000000000000-corrupt_record_body-${at(7)}-${at(8)}.bin`;
    expect(hex(get(files, blob))).toBe(hex(bytes.subarray(at(7), at(8))));
    expect(hex(get(files, segmentPath(0)))).toBe(hex(bytes));
    expect(consumed(opened.log)).toEqual(expected);
    expect(opened.lost.length).toBe(1);
  });

  it("in the active segment: only what is visible counts, and appending goes on behind it", () => {
    const opened = open(newDisk());
    commit(opened, numbered(10));
    opened.files.flipBit(segmentPath(0), at(5) + 2, 3);
    const { chunk, table } = publishes(["later"]);
    opened.log.append(chunk, table, 0, 1);
    expect(consumed(opened.log)).toEqual([...numbered(5), "[5, 6)", ...numbered(4, 6)]);
    opened.log.pump();
    opened.files.runAll();
    commit(opened, ["more"]);
    expect(consumed(opened.log)).toEqual([...numbered(5), "[5, 6)", ...numbered(4, 6), "later", "more"]);
    opened.files.flipBit(segmentPath(0), at(8) + 37, 3);
    const again = open(opened.files.imageAfterPowerCut({ style: "lost" }));
    expect(consumed(again.log).slice(0, 5)).toEqual(numbered(5));
  });

  it("a read error makes a gap of what cannot be read, and of nothing else", () => {
    const files = newDisk();
    putSegment(files, { id: 0, base: 0, payloads: numbered(300), sealed: true });
    putSegment(files, { id: 1, base: 300, payloads: ["p0"] });
    const opened = open(files);
    // The window, the walk's own read, and its second piece.
    for (const skip of [0, 0, 1]) files.fail({ operation: "read", path: /seg-0+0\.log/, skip, code: "EIO" });
    const seen = consumed(opened.log);
    expect(opened.log.gaps.length).toBe(1);
    const [{ start, end }] = opened.log.gaps;
    expect(end - start).toBeLessThanOrEqual(Math.ceil(4096 / FRAME) + 1);
    expect(seen).toEqual([...numbered(start), `[${start}, ${end})`, ...numbered(300 - end, end), "p0"]);
  });

  it("on a disk that has failed the writer, what cannot be read is not called lost", () => {
    const opened = open(newDisk());
    const { files, log, lost } = opened;
    commit(opened, numbered(3));
    files.fail({ operation: "sync", path: /seg-/, code: "EIO" });
    const { chunk, table } = publishes(["refused"]);
    log.append(chunk, table, 0, 1);
    log.pump();
    files.runAll();
    expect(log.frozen).toBeDefined();
    for (let i = 0; i < 8; i++) files.fail({ operation: "read", path: /seg-/, code: "EIO" });
    expect(thrown(() => log.read(1, log.visibleHead))).toMatchObject({ code: "EIO" });
    expect([log.gaps, lost]).toEqual([[], []]);
    files.clearFaults();
    expect(consumed(log)).toEqual(numbered(3));
  });

  it("a file that is not there is no damage: nothing is skipped", () => {
    const files = newDisk();
    putSegment(files, { id: 0, base: 0, payloads: numbered(3), sealed: true });
    putSegment(files, { id: 1, base: 3, payloads: ["p0"] });
    const { log, lost } = open(files);
    files.remove(segmentPath(0));
    expect(thrown(() => log.read(1, log.visibleHead))).toMatchObject({ code: "ENOENT" });
    expect([log.gaps, lost]).toEqual([[], []]);
  });

  it("gaps between segments and inside of them that touch are one", () => {
    const files = newDisk();
    for (const id of [0, 1, 2]) {
      const payloads = numbered(4, id * 4);
      putSegment(files, { id, base: id * 4, payloads, sealed: id < 2 });
    }
    files.remove(segmentPath(1));
    files.flipBit(segmentPath(0), at(3) + 37, 1);
    const { log } = open(files);
    expect(log.gapAt(4)).toEqual({ start: 4, end: 8 });
    expect(log.read(3, log.visibleHead)).toBeUndefined();
    for (const offset of [3, 4, 7]) expect(log.gapAt(offset)).toEqual({ start: 3, end: 8 });
    expect([log.gapAt(2), log.gapAt(8), log.gapAt(12)]).toEqual([undefined, undefined, undefined]);
    expect(log.gaps).toEqual([{ start: 3, end: 8 }]);
  });

  it("README ruling 1: above a cap the log is read-only and frozen, serves the rest, and changes nothing", async () => {
    const files = newDisk();
    putSegment(files, { id: 0, base: 0, payloads: numbered(3), tail: new Uint8Array(5000).fill(0xee) });
    const before = tree(files);
    const opened = open(files, 4096);
    const { log } = opened;
    expect(log.readOnly?.message).toContain("bounded-loss cap");
    expect(log.frozen).toBe(log.readOnly);
    const { chunk, table } = publishes(["no"]);
    expect(log.append(chunk, table, 0, 1)).toBe(0);
    log.pump();
    log.tick();
    expect(consumed(log)).toEqual(numbered(3));
    expect(log.losses.length).toBe(1);
    const closed = log.close();
    files.runAll();
    await closed;
    expect(tree(files)).toEqual(before);
  });
});

describe("storage.md 12.1: the sparse offset index", () => {
  it("is bounded whatever the size of the segment, and stays true", () => {
    const entry = new SegmentEntry(0, "/x", 0, 0, SEGMENT_HEADER_LENGTH);
    const position = (offset: number): number => SEGMENT_HEADER_LENGTH + offset * 70_000;
    for (let offset = 1; offset < 20_000; offset++) {
      entry.addAnchor(offset, position(offset));
      expect(entry.anchorCount).toBeLessThanOrEqual(1024);
    }
    expect(entry.anchorCount).toBeGreaterThan(500);
    for (const offset of [0, 1, 777, 12_345, 19_999]) {
      const [known, at] = entry.anchor(offset);
      expect(known).toBeLessThanOrEqual(offset);
      expect(at).toBe(position(known));
    }
  });
});
