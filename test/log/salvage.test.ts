import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Gap } from "../../src/log/gap.ts";
import { inspectLog } from "../../src/log/inspection.ts";
import { parseLossReport } from "../../src/log/loss-report.ts";
import { readLog } from "../../src/log/offline-reader.ts";
import { type RecoveredLog, recoverLog } from "../../src/log/recovery.ts";
import { encodeSegmentFooter, encodeSegmentHeader } from "../../src/log/segment.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import {
  ascii,
  codec,
  flip,
  frame,
  get,
  hex,
  join,
  lcg,
  newFiles,
  OPTIONS,
  put,
  putSegment,
  ROOT,
  segmentBytes,
  segmentPath,
  tree,
} from "./fixtures.ts";

/** Frame of a two-byte payload. */
const FRAME = 46;

/** Position of record `i` in a segment of two-byte payloads. */
const at = (i: number): number => 64 + i * FRAME;

function recover(files: FileSystem, maxSegmentBytes = OPTIONS.maxSegmentBytes): RecoveredLog {
  return recoverLog(files, codec, ROOT, { maxSegmentBytes, fullScan: true });
}

/** Offsets with their payloads, as an offline reader gives them. */
function texts(files: FileSystem): string[] {
  const found: string[] = [];
  for (const { offset, payload } of readLog(files, codec, ROOT)) {
    found.push(`${offset}:${new TextDecoder().decode(payload)}`);
  }
  return found;
}

/** Three sealed segments of three records and an active one of two. */
function healthy(files: FileSystem = newFiles()): FileSystem {
  for (let id = 0; id < 3; id++) {
    const payloads = [0, 1, 2].map((i) => `m${id * 3 + i}`);
    putSegment(files, { id, base: id * 3, payloads, sealed: true });
  }
  putSegment(files, { id: 3, base: 9, payloads: ["x9", "xa"], tail: new Uint8Array(500) });
  return files;
}

const ALL = ["0:m0", "1:m1", "2:m2", "3:m3", "4:m4", "5:m5", "6:m6", "7:m7", "8:m8", "9:x9", "10:xa"];

function without(...offsets: number[]): string[] {
  return ALL.filter((text) => !offsets.includes(Number.parseInt(text, 10)));
}

/** What recovery and the offline reader agree on; nothing but the report and copies may be new on the disk. */
function salvaged(files: FileSystem): RecoveredLog {
  const before = tree(files);
  const inspection = inspectLog(files, codec, ROOT, { fullScan: true });
  const read = texts(files);
  expect(tree(files)).toEqual(before);
  const recovered = recover(files);
  expect(recovered.losses).toEqual(inspection.losses);
  expect(recovered.gaps).toEqual(inspection.gaps);
  for (const { start, end } of recovered.gaps) {
    for (const text of read) {
      const offset = Number.parseInt(text, 10);
      expect(offset < start || offset >= end).toBe(true);
    }
  }
  return recovered;
}

/** Every segment but the last is byte for byte what it was. */
function unchanged(files: FileSystem, before: Record<string, string>): void {
  const after = tree(files);
  for (const [path, bytes] of Object.entries(before)) {
    if (/seg-000000000000000[0-2]\.log$/.test(path)) expect(after[path], path).toBe(bytes);
  }
}

describe("damage in a sealed segment", () => {
  it("storage.md 26.39, salvage: any flipped byte costs at most its own record, and no offset changes", () => {
    for (let position = 0; position < at(3) + 32; position++) {
      const files = healthy();
      flip(files, segmentPath(1), position, position % 8);
      const before = tree(files);
      const recovered = salvaged(files);
      unchanged(files, before);
      const record = position < 64 || position >= at(3) ? undefined : Math.floor((position - 64) / FRAME);
      expect(texts(files), `byte ${position}`).toEqual(record === undefined ? ALL : without(3 + record));
      expect(recovered).toMatchObject({ nextOffset: 11, nextSegmentId: 4, resumable: true, readOnly: undefined });
      const gaps: Gap[] = record === undefined ? [] : [{ start: 3 + record, end: 4 + record }];
      expect(recovered.gaps).toEqual(gaps);
      expect(recovered.losses.length).toBe(1);
      const [loss] = recovered.losses;
      expect(loss.segmentId).toBe(1);
      if (position < 64) {
        expect(loss).toMatchObject({ start: 0, end: 64, recordsLostEstimate: 0, reason: "CorruptSegmentHeader" });
      } else if (record === undefined) {
        expect(loss).toMatchObject({ start: at(3), recordsLostEstimate: 0, reason: "CorruptRecordHeader" });
      } else {
        expect(loss).toMatchObject({ start: at(record), end: at(record + 1), recordsLostEstimate: 1 });
        const inHeader = position < at(record) + 36;
        expect(loss.reason).toBe(inHeader ? "CorruptRecordHeader" : "CorruptRecordBody");
      }
      const label = loss.reason.replace(/(?<!^)([A-Z])/g, "_$1").toLowerCase();
      const blob = `${ROOT}/quarantine/q-0000000000000001-${label}-${loss.start}-${loss.end}.bin`;
      expect(hex(get(files, blob))).toBe(hex(get(files, segmentPath(1)).subarray(loss.start, loss.end)));
      expect(parseLossReport(new TextDecoder().decode(get(files, `${ROOT}/recovery-report.json`)))).toEqual(
        recovered.losses,
      );
    }
  });

  it("is reported again by every start that reads it, the copy is made once, and nothing else changes", () => {
    const files = healthy();
    flip(files, segmentPath(1), at(1) + 37);
    const first = recover(files);
    const after = tree(files);
    expect(recover(files)).toEqual(first);
    expect(tree(files)).toEqual(after);
  });

  it("a destroyed header: the frames behind it are found from the segment's end", () => {
    const files = healthy();
    const bytes = get(files, segmentPath(1));
    put(files, segmentPath(1), bytes.fill(0xa5, at(1), at(1) + 36));
    expect(salvaged(files).losses).toMatchObject([{ start: at(1), end: at(2), reason: "CorruptRecordHeader" }]);
    expect(texts(files)).toEqual(without(4));
  });

  it("two destroyed headers: what lies between them is found too", () => {
    const payloads = Array.from({ length: 9 }, (_, i) => `p${i}`);
    const files = newFiles();
    const bytes = putSegment(files, { id: 0, base: 0, payloads, sealed: true });
    for (const i of [2, 6]) bytes.fill(0x5a, at(i), at(i) + 36);
    put(files, segmentPath(0), bytes);
    putSegment(files, { id: 1, base: 9, payloads: ["end"] });
    const recovered = salvaged(files);
    expect(recovered.gaps).toEqual([
      { start: 2, end: 3 },
      { start: 6, end: 7 },
    ]);
    expect(texts(files).length).toBe(8);
  });

  it("zeroed pages: what overlaps them is lost, all the rest is served", () => {
    const payloads = Array.from({ length: 400 }, (_, i) => lcg(i, 100));
    const files = newFiles();
    const bytes = putSegment(files, { id: 0, base: 0, payloads, sealed: true });
    bytes.fill(0, 8192, 12_288);
    bytes.fill(0, 40_960, 45_056);
    put(files, segmentPath(0), bytes);
    putSegment(files, { id: 1, base: 400, payloads: ["end"] });
    const { gaps, losses } = salvaged(files);
    const hit = (from: number, to: number): Gap => ({
      start: Math.floor((from - 64) / 144),
      end: Math.ceil((to - 64) / 144),
    });
    // What lies between two spans without framing cannot be reached from either end.
    expect(gaps).toEqual([{ start: hit(8192, 0).start, end: hit(0, 45_056).end }]);
    expect(losses[0].start).toBe(64 + gaps[0].start * 144);
    expect(losses.at(-1)?.end).toBe(64 + gaps[0].end * 144);
    for (const record of readLog(files, codec, ROOT)) {
      if (record.offset < 400) expect(record.payload).toEqual(payloads[record.offset]);
    }
  });

  it("a cut file: the records whose bytes are gone are lost, under their offsets", () => {
    for (let length = 0; length < at(3) + 32; length += 7) {
      const files = healthy();
      put(files, segmentPath(1), get(files, segmentPath(1)).subarray(0, length));
      const whole = length < 64 ? 0 : Math.floor((length - 64) / FRAME);
      const { gaps, nextOffset } = salvaged(files);
      const lost = [0, 1, 2].filter((i) => i >= whole).map((i) => 3 + i);
      expect(texts(files), `length ${length}`).toEqual(without(...lost));
      expect(gaps).toEqual(lost.length === 0 ? [] : [{ start: lost[0], end: 6 }]);
      expect(nextOffset).toBe(11);
    }
  });

  it("a segment that was never sealed, or whose footer is followed by something, keeps its records", () => {
    for (const fields of [{}, { tail: new Uint8Array(900) }, { sealed: true, tail: new Uint8Array(9) }]) {
      const files = healthy();
      putSegment(files, { id: 1, base: 3, payloads: ["m3", "m4", "m5"], ...fields });
      expect(salvaged(files).gaps).toEqual([]);
      expect(texts(files)).toEqual(ALL);
    }
  });
});

describe("frames inside of a payload", () => {
  /** Frames of plausible sequences, up to the payload's end; `forge` may add to them. */
  function trap(sequence: number, forge: (frames: Uint8Array) => Uint8Array = (frames) => frames): Uint8Array {
    const frames = Array.from({ length: 5 }, (_, i) =>
      frame({ sequence: BigInt(sequence + i), payload: ascii(`trap${i}`) }),
    );
    return forge(join(...frames));
  }

  function withTrap(payload: Uint8Array, sealed = true): { files: FileSystem; bytes: Uint8Array; start: number } {
    const files = newFiles();
    const payloads = ["m0", "m1", payload, "m3", "m4"];
    const bytes = putSegment(files, { id: 0, base: 0, payloads, sealed });
    putSegment(files, { id: 1, base: 5, payloads: ["m5"] });
    return { files, bytes, start: at(2) };
  }

  function honest(files: FileSystem): number {
    salvaged(files);
    let read = 0;
    for (const { offset, payload } of readLog(files, codec, ROOT)) {
      const text = new TextDecoder().decode(payload);
      if (offset !== 2) expect(text).toBe(`m${offset}`);
      else expect(text.length).toBeGreaterThan(100);
      read++;
    }
    return read;
  }

  it("are never taken for records, whatever of the record around them is destroyed", () => {
    for (const first of [1, 2, 3]) {
      const { bytes, start } = withTrap(trap(first));
      const end = start + 44 + trap(first).length;
      for (const [from, to] of [
        [start, start + 36],
        [start, start + 60],
        [start - 20, start + 36],
        [end - 8, end],
        [end - 4, end],
        [end - 8, end + 36],
        [start, end],
      ]) {
        for (const fill of [0, 0xff, 0x42]) {
          const { files } = withTrap(trap(first));
          put(files, segmentPath(0), bytes.slice().fill(fill, from, to));
          // The records m1 and m3 go with the trap when bytes of theirs are destroyed.
          expect(honest(files)).toBeGreaterThanOrEqual(3);
        }
      }
    }
  });

  it("a forged trailer at the payload's end does not lead into it", () => {
    // Says that a frame begins where the trap's third frame does.
    const forged = trap(2, (frames) => {
      const trailer = new Uint8Array(8);
      new DataView(trailer.buffer).setUint32(4, frames.length - 2 * 49 + 8, true);
      return join(frames, trailer);
    });
    const { files, bytes, start } = withTrap(forged);
    put(files, segmentPath(0), bytes.slice().fill(0, start, start + 36));
    expect(honest(files)).toBe(5);
  });

  it("two faults that fit each other: a wrong length behind a record whose neighbour lost its header", () => {
    // The planted frame has the record's own sequence and ends where it ends; the flipped length points at it.
    for (const planted of [60, 76, 108, 172]) {
      const inner = new Uint8Array(planted);
      inner.set(frame({ sequence: 2n, payload: new Uint8Array(planted - 44 + 8) }).subarray(0, 36));
      const { files, bytes, start } = withTrap(join(lcg(9, 130), inner));
      const length = 44 + 130 + planted;
      const view = new DataView(bytes.buffer, bytes.byteOffset);
      expect(view.getUint32(start + length - 4, true)).toBe(length);
      view.setUint32(start + length - 4, planted + 8, true);
      bytes.fill(0x11, at(1), at(1) + 36);
      put(files, segmentPath(0), bytes);
      for (const { offset, payload } of readLog(files, codec, ROOT)) {
        expect(new TextDecoder().decode(payload)).toBe(`m${offset}`);
      }
    }
  });

  it("a file cut right behind a planted footer: the footer counts for nothing", () => {
    const footer = encodeSegmentFooter({ segmentId: 0, lastSequence: 4, recordCount: 5 }, codec);
    const forged = join(trap(2).subarray(0, 3 * 49), footer, lcg(1, 300));
    const { files, bytes, start } = withTrap(forged);
    put(files, segmentPath(0), bytes.slice(0, start + 36 + 3 * 49 + 32));
    expect(honest(files)).toBe(3);
    put(files, segmentPath(0), bytes.slice(0, start + 36 + 3 * 49 + 32).fill(0, at(1), at(1) + 36));
    for (const { offset } of readLog(files, codec, ROOT)) expect([0, 1, 5]).toContain(offset);
  });
});

describe("segments that are missing, misnamed or foreign", () => {
  it("storage.md 26.40, salvage: a missing segment is a gap", () => {
    const files = healthy();
    files.remove(segmentPath(1));
    const recovered = salvaged(files);
    expect(recovered.losses).toEqual([
      { segmentId: 1, start: 0, end: 0, recordsLostEstimate: 3, reason: "SequenceGap" },
    ]);
    expect(recovered.gaps).toEqual([{ start: 3, end: 6 }]);
    expect(texts(files)).toEqual(without(3, 4, 5));
  });

  it("storage.md 26.40, salvage: a segment under another name is read as what it is, and its name not used again", () => {
    const files = healthy();
    files.rename(segmentPath(1), segmentPath(9));
    const recovered = salvaged(files);
    expect(texts(files)).toEqual(ALL);
    expect(recovered).toMatchObject({ nextSegmentId: 10, gaps: [], resumable: false });
    expect(recovered.losses).toMatchObject([{ segmentId: 9, start: 0, end: 0, recordsLostEstimate: 0 }]);
  });

  it("swapped files keep their offsets", () => {
    const files = healthy();
    files.rename(segmentPath(0), `${ROOT}/aside`);
    files.rename(segmentPath(2), segmentPath(0));
    files.rename(`${ROOT}/aside`, segmentPath(2));
    const recovered = salvaged(files);
    expect(texts(files)).toEqual(ALL);
    expect(recovered.losses.map(({ segmentId }) => segmentId)).toEqual([0, 2]);
  });

  it("of two files that say they are the same segment, the one with its name counts", () => {
    const files = healthy();
    const copy = get(files, segmentPath(1));
    put(files, segmentPath(7), copy);
    flip(files, segmentPath(7), at(1) + 37);
    const recovered = salvaged(files);
    expect(texts(files)).toEqual(ALL);
    expect(recovered).toMatchObject({ nextSegmentId: 8, gaps: [] });
    expect(get(files, segmentPath(7)).length).toBe(copy.length);
  });

  it("a segment whose offsets another one has is left alone", () => {
    const files = healthy();
    putSegment(files, { id: 4, base: 7, payloads: ["zz", "zz"] });
    const recovered = salvaged(files);
    expect(texts(files).slice(0, 9)).toEqual(ALL.slice(0, 9));
    expect(recovered.nextSegmentId).toBe(5);
    expect(recovered.nextOffset).toBe(11);
    expect(recovered.losses.length).toBe(1);
  });

  it("a header that is gone: its place follows from its frames, its footer, or its neighbours", () => {
    for (const [from, to] of [
      [0, 64],
      [0, 64 + 36],
    ]) {
      for (const id of [0, 1, 2, 3]) {
        const files = healthy();
        put(files, segmentPath(id), get(files, segmentPath(id)).fill(0, from, to));
        const { nextOffset, nextSegmentId } = salvaged(files);
        const lost = to > 64 ? (id === 3 ? [9, 10] : [id * 3]) : [];
        expect(texts(files), `segment ${id} [${from}, ${to})`).toEqual(without(...lost));
        expect(nextSegmentId).toBe(4);
        expect(nextOffset).toBeGreaterThanOrEqual(id === 3 && to > 64 ? 9 : 11);
      }
    }
  });

  it("storage.md 26.41, salvage: a byte behind a header that is not there is lost, and the log goes on in a new segment", () => {
    const files = healthy();
    const bytes = new Uint8Array(200);
    bytes[100] = 1;
    put(files, segmentPath(4), bytes);
    const recovered = salvaged(files);
    expect(texts(files)).toEqual(ALL);
    expect(recovered).toMatchObject({ nextSegmentId: 5, resumable: false });
    expect(hex(get(files, segmentPath(4)))).toBe(hex(bytes));
  });

  it("storage.md 26.41, salvage: a sole segment whose header is gone is served", () => {
    const files = newFiles();
    put(files, segmentPath(0), segmentBytes({ id: 0, base: 0, payloads: ["m0", "m1"] }).fill(0, 0, 64));
    expect(salvaged(files)).toMatchObject({ nextOffset: 2, nextSegmentId: 1, resumable: false });
    expect(texts(files)).toEqual(["0:m0", "1:m1"]);
  });

  it("storage.md 26.40, salvage: a frame of another sequence, and a footer of another segment, are damage", () => {
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail: frame({ sequence: 6n, payload: ascii("m1") }) });
    expect(salvaged(files).losses).toMatchObject([{ start: at(1), reason: "SequenceGap" }]);
    const sealed = healthy();
    const footer = encodeSegmentFooter({ segmentId: 9, lastSequence: 5, recordCount: 3 }, codec);
    putSegment(sealed, { id: 1, base: 3, payloads: ["m3", "m4", "m5"], tail: footer });
    salvaged(sealed);
    expect(texts(sealed)).toEqual(ALL);
  });
});

describe("the last segment", () => {
  const KIB = 1024;
  /** Records of 1 KiB payload, `count` of them. */
  const large = (count: number): Uint8Array[] => Array.from({ length: count }, (_, i) => lcg(i, KIB));
  const start = (i: number): number => 64 + i * (KIB + 44);

  it("bad frames that lie below a completed barrier become gaps: no acknowledged record behind them goes", () => {
    for (const sealed of [false, true]) {
      for (const position of [40, 2, 5]) {
        const files = newFiles();
        const payloads = large(1500);
        const bytes = putSegment(files, { id: 0, base: 0, payloads, sealed });
        flip(files, segmentPath(0), start(10) + position);
        const recovered = salvaged(files);
        expect(recovered.gaps).toEqual([{ start: 10, end: 11 }]);
        expect(recovered).toMatchObject({ nextOffset: 1500, nextSegmentId: 1, resumable: false });
        expect(get(files, segmentPath(0)).length).toBe(bytes.length);
        expect(recover(files).gaps).toEqual(recovered.gaps);
      }
    }
  });

  it("a bad frame that one write could have torn is cut off with all behind it", () => {
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: large(1500) });
    flip(files, segmentPath(0), start(600) + 40);
    const recovered = salvaged(files);
    expect(recovered).toMatchObject({ nextOffset: 600, resumable: true, gaps: [] });
    expect(get(files, segmentPath(0)).length).toBe(start(600));
  });

  it("a doubtful frame behind a proven one is not cut: the next start would judge the first one anew", () => {
    const files = newFiles();
    const bytes = putSegment(files, { id: 0, base: 0, payloads: large(1500) });
    for (const i of [10, 600]) flip(files, segmentPath(0), start(i) + 40);
    const first = salvaged(files);
    expect(first).toMatchObject({ nextOffset: 600, resumable: false, gaps: [{ start: 10, end: 11 }] });
    expect(get(files, segmentPath(0)).length).toBe(bytes.length);
    putSegment(files, { id: 1, base: 600, payloads: ["next"] });
    const second = salvaged(files);
    expect(second).toMatchObject({ nextOffset: 601, gaps: [{ start: 10, end: 11 }] });
  });

  it("a destroyed header is skipped only if what follows reaches further than any record", () => {
    for (const [count, kept] of [
      [1500, 10],
      [18_000, 18_000],
    ]) {
      const files = newFiles();
      const bytes = putSegment(files, { id: 0, base: 0, payloads: large(count) });
      put(files, segmentPath(0), bytes.fill(0, start(10), start(10) + 36));
      const recovered = salvaged(files);
      expect(recovered.nextOffset).toBe(kept);
      expect(recovered.gaps).toEqual(kept === 10 ? [] : [{ start: 10, end: 11 }]);
    }
  });
});

describe("loss caps and unreadable files", () => {
  it("storage.md 26.42, salvage: above a cap the log is read-only, serves what is intact, and nothing is changed", () => {
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail: new Uint8Array(5000).fill(0xee) });
    const before = tree(files);
    for (let start = 0; start < 2; start++) {
      const recovered = recover(files, 4096);
      expect(recovered.readOnly).toMatchObject({ kind: "ExcessiveRecoveryLoss" });
      expect(recovered.readOnly?.message).toContain("dropped 5000 bytes, over the per-event cap 4096");
      expect(recovered).toMatchObject({ quarantined: [], nextOffset: 1, losses: [{ reason: "CorruptRecordHeader" }] });
      expect(tree(files)).toEqual(before);
    }
  });

  it("one segment that is lost as a whole is below the cap, whatever its last record added to its size", () => {
    const files = newFiles();
    const payloads = Array.from({ length: 10 }, (_, i) => lcg(i, 500));
    const bytes = putSegment(files, { id: 0, base: 0, payloads, sealed: true });
    putSegment(files, { id: 1, base: 10, payloads, sealed: true });
    put(files, segmentPath(1), new Uint8Array(bytes.length).fill(0x77));
    putSegment(files, { id: 2, base: 20, payloads: ["end"] });
    const recovered = recover(files, bytes.length - 100);
    expect(recovered.readOnly).toBeUndefined();
    expect(recovered.gaps).toEqual([{ start: 10, end: 20 }]);
  });

  it("a segment that cannot be read at all is one gap, and one that cannot be read in part loses that part", () => {
    const build = (): SimulatedFileSystem => {
      const files = new SimulatedFileSystem();
      files.makeDirectory(ROOT);
      const payloads = Array.from({ length: 300 }, (_, i) => lcg(i, 100));
      putSegment(files, { id: 0, base: 0, payloads: payloads.slice(0, 100), sealed: true });
      putSegment(files, { id: 1, base: 100, payloads: payloads.slice(100, 200), sealed: true });
      putSegment(files, { id: 2, base: 200, payloads: payloads.slice(200) });
      return files;
    };
    const path = /seg-0000000000000001/;
    const whole = build();
    for (let i = 0; i < 40; i++) whole.fail({ operation: "read", path, code: "EIO" });
    const recovered = recover(whole);
    expect(recovered.gaps).toEqual([{ start: 100, end: 200 }]);
    expect(recovered).toMatchObject({ nextOffset: 300, resumable: true });
    expect(recovered.losses).toMatchObject([{ segmentId: 1, start: 0, recordsLostEstimate: 100 }]);

    const part = build();
    // The header, its look at the footer, then the first read of the body and its first piece.
    part.fail({ operation: "read", path, skip: 2, code: "EIO" });
    part.fail({ operation: "read", path, skip: 2, code: "EIO" });
    const gaps = recover(part).gaps;
    expect(gaps).toEqual([{ start: 100, end: 100 + Math.ceil((4096 - 64) / 144) }]);
  });

  it("a last segment that cannot be read is not cut, and its offsets are not used again", () => {
    const files = new SimulatedFileSystem();
    files.makeDirectory(ROOT);
    healthy(files);
    const bytes = hex(get(files, segmentPath(3)));
    for (let i = 0; i < 40; i++) files.fail({ operation: "read", path: /seg-0000000000000003/, code: "EIO" });
    const recovered = recover(files);
    files.clearFaults();
    expect(recovered).toMatchObject({ resumable: false, nextSegmentId: 4 });
    expect(recovered.nextOffset).toBeGreaterThanOrEqual(11);
    expect(hex(get(files, segmentPath(3)))).toBe(bytes);
    putSegment(files, { id: 4, base: recovered.nextOffset, payloads: ["new"] });
    expect(texts(files)).toEqual([...ALL, `${recovered.nextOffset}:new`]);
  });
});

describe("any damage", () => {
  interface Damage {
    segment: number;
    kind: "flip" | "cut" | "noise" | "zero" | "remove" | "swap";
    position: number;
    length: number;
    noise: Uint8Array;
  }
  const damage: fc.Arbitrary<Damage> = fc.record({
    segment: fc.nat(3),
    kind: fc.constantFrom("flip", "flip", "flip", "cut", "noise", "zero", "remove", "swap"),
    position: fc.nat(),
    length: fc.integer({ min: 1, max: 300 }),
    noise: fc.uint8Array({ minLength: 300, maxLength: 300 }),
  });

  it("what is read was written under that offset; what is not read lies in a gap or behind the end; starts agree", () => {
    const payloads = Array.from({ length: 40 }, (_, i) => {
      // Some payloads are frames with sequences that could come next.
      if (i % 7 !== 3) return lcg(i, (i * 37) % 190);
      return join(...[0, 1, 2].map((k) => frame({ sequence: BigInt(i + k), payload: lcg(k, 20) })));
    });
    const shift = 1000;
    const image = [0, 1, 2, 3].map((id) => {
      const base = id * 10;
      const fields = { segmentId: id, baseSequence: base, baseOffset: base + shift, createdUnixMs: 0 };
      const body = segmentBytes({ id, base, payloads: payloads.slice(base, base + 10), sealed: id < 3 });
      body.set(encodeSegmentHeader(fields, codec));
      return id < 3 ? body : join(body, new Uint8Array(200));
    });
    fc.assert(
      fc.property(fc.array(damage, { minLength: 1, maxLength: 4 }), (damages) => {
        const files = newFiles();
        for (const [id, bytes] of image.entries()) put(files, segmentPath(id), bytes);
        for (const { segment, kind, position, length, noise } of damages) {
          const path = segmentPath(segment);
          if (files.stat(path) === undefined) continue;
          const bytes = get(files, path);
          const from = bytes.length === 0 ? 0 : position % bytes.length;
          if (kind === "remove") files.remove(path);
          else if (kind === "cut") put(files, path, bytes.subarray(0, from));
          else if (kind === "swap") {
            const other = segmentPath((segment + 1) % 4);
            if (files.stat(other) === undefined) continue;
            const theirs = get(files, other);
            put(files, other, bytes);
            put(files, path, theirs);
          } else if (bytes.length > 0) {
            if (kind === "flip") bytes[from] ^= 1 << (length % 8);
            else if (kind === "zero") bytes.fill(0, from, from + length);
            else bytes.set(noise.subarray(0, Math.min(length, bytes.length - from)), from);
            put(files, path, bytes);
          }
        }
        const before = recoverable(files, payloads, shift);
        const recovered = recover(files);
        expect(recovered.readOnly).toBeUndefined();
        expect(recoverable(files, payloads, shift)).toEqual(before);
        const again = recover(files);
        expect(again.gaps).toEqual(recovered.gaps);
        expect(again.nextOffset).toBe(recovered.nextOffset);
        // Everything between the ends is either read or in a gap.
        const inGaps = recovered.gaps.reduce((sum, { start, end }) => sum + end - start, 0);
        expect(before.length + inGaps).toBe(recovered.nextOffset - recovered.earliestOffset);
      }),
      { numRuns: 800 },
    );
  });

  /** The offsets read, each of them checked. */
  function recoverable(files: FileSystem, payloads: readonly Uint8Array[], shift: number): number[] {
    const offsets: number[] = [];
    for (const { offset, payload } of readLog(files, codec, ROOT)) {
      expect(hex(payload)).toBe(hex(payloads[offset - shift]));
      offsets.push(offset);
    }
    return offsets;
  }
});
