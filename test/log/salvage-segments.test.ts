import { describe, expect, it } from "vitest";

import { encodeSegmentFooter } from "../../src/log/segment.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import {
  ascii,
  codec,
  flip,
  frame,
  get,
  hex,
  lcg,
  newFiles,
  put,
  putSegment,
  ROOT,
  segmentBytes,
  segmentPath,
  tree,
} from "./fixtures.ts";

import { ALL, at, healthy, recover, salvaged, texts, without } from "./salvage-fixtures.ts";

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

  it("a file with the name of a segment that no log can have is left alone, whatever is in it", () => {
    for (const name of ["seg-ffffffffffffffff.log", "seg-001fffffffffffff.log", "seg-0010000000000000.log"]) {
      for (const content of [new Uint8Array(0), ascii("of somebody else"), new Uint8Array(1000).fill(0x78)]) {
        const files = healthy();
        const path = `${ROOT}/${name}`;
        put(files, path, content);
        const recovered = salvaged(files);
        expect(recovered).toMatchObject({ foreign: [path], losses: [], gaps: [], resumable: true });
        expect(recovered.nextSegmentId).toBe(4);
        expect(texts(files)).toEqual(ALL);
        expect(get(files, path)).toEqual(content);
      }
    }
    expect(salvaged(healthy()).foreign).toEqual([]);
  });

  it("a segment behind which there are no ids is an error, not a log to go on with", () => {
    for (const name of [segmentPath(2 ** 53 - 1), segmentPath(7)]) {
      const files = healthy();
      put(files, name, segmentBytes({ id: 2 ** 53 - 1, base: 11, payloads: ["m"] }));
      expect(() => recover(files)).toThrow(expect.objectContaining({ name: "StorageError", kind: "OutOfRange" }));
    }
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
