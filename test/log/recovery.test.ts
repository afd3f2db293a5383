import { describe, expect, it } from "vitest";
import { CURSOR_CAPACITY, type CursorState, encodeCursor } from "../../src/log/checkpoint-payloads.ts";
import { encodeSlot, slotLength } from "../../src/log/checkpoint-slots.ts";
import { parseLossReport } from "../../src/log/loss-report.ts";
import { type RecoveredLog, type RecoveryOptions, recoverLog } from "../../src/log/recovery.ts";
import { encodeSegmentFooter, encodeSegmentHeader, SegmentFlag } from "../../src/log/segment.ts";
import { StorageError } from "../../src/log/storage-error.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import {
  ascii,
  codec,
  EMPTY,
  flip,
  frame,
  get,
  header,
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
  thrown,
  tree,
} from "./fixtures.ts";
import { newDisk, TestLog } from "./open-log.ts";

const REPORT = `${ROOT}/recovery-report.json`;
/** Frame of a two-byte payload. */
const FRAME = 46;

function recover(files: FileSystem, options: Partial<RecoveryOptions> = {}): RecoveredLog {
  return recoverLog(files, codec, ROOT, { ...OPTIONS, ...options });
}

/** A cursor's checkpoint file after its first write. */
function cursorFile(state: CursorState): Uint8Array {
  const slots = new Uint8Array(2 * slotLength(CURSOR_CAPACITY));
  encodeSlot(slots.subarray(slotLength(CURSOR_CAPACITY)), 1, encodeCursor(state, codec), codec);
  return slots;
}

/** The kind and text of the error that refuses the directory, which stays as it was. */
function refused(files: FileSystem, options: Partial<RecoveryOptions> = {}): [string | undefined, string] {
  const before = tree(files);
  const error = thrown(() => recover(files, { recovery: "strict", ...options }));
  expect(error).toBeInstanceOf(StorageError);
  expect(tree(files)).toEqual(before);
  return [error.kind, error.message];
}

/** Positions in the segment file of three two-byte records: where record `i` starts. */
const at = (i: number): number => 64 + i * FRAME;

describe("recovery after a killed process", () => {
  it("makes durable what the process had left to the page cache: records, a footer, the file's name", () => {
    for (const sealed of [false, true]) {
      const files = newDisk();
      putSegment(files, { id: 0, base: 0, payloads: ["a", "b"], sealed });
      const log = new TestLog({}, files);
      expect(log.payloads()).toEqual(["a", "b"]);
      const unpublished = new TestLog({}, files.imageAfterPowerCut({ style: "lost" }));
      expect(unpublished.payloads()).toEqual(["a", "b"]);
      log.commit(["c"]);
      expect(new TestLog({}, files.cutPower({ style: "lost" })).payloads()).toEqual(["a", "b", "c"]);
    }
  });
});

describe("recovery of an orderly log", () => {
  it("an empty directory: the writer starts with segment 0", () => {
    const files = newFiles();
    expect(recover(files)).toMatchObject({
      segments: [],
      nextSegmentId: 0,
      nextOffset: 0,
      nextSequence: 0,
      earliestOffset: 0,
      durableBytes: 0,
      losses: [],
      problems: [],
    });
    expect(files.stat(REPORT)).toBeUndefined();
  });

  it("storage.md 26.13: a sealed segment alone is 234 bytes and rolls forward to segment 1 with bases 3/3", () => {
    const files = newFiles();
    const bytes = putSegment(files, { id: 0, base: 0, payloads: ["m0", "m1", "m2"], sealed: true });
    expect(bytes.length).toBe(234);
    const recovered = recover(files);
    expect(recovered).toMatchObject({ nextSegmentId: 1, nextOffset: 3, nextSequence: 3, durableBytes: 138 });
    expect(recovered.segments).toEqual([
      {
        id: 0,
        path: segmentPath(0),
        baseOffset: 0,
        baseSequence: 0,
        createdUnixMs: 0,
        recordCount: 3,
        endPosition: 202,
        sealed: true,
        holes: [],
      },
    ]);
    expect(hex(get(files, segmentPath(0)))).toBe(hex(bytes));
  });

  it("resumes an unsealed last segment behind its last record, cutting its preallocation silently", () => {
    const files = newFiles();
    putSegment(files, { id: 4, base: 100, payloads: ["m0"], sealed: true });
    const body = segmentBytes({ id: 5, base: 101, payloads: ["m1", "m2"] });
    put(files, segmentPath(5), join(body, new Uint8Array(1 << 20)));
    const recovered = recover(files);
    expect(recovered).toMatchObject({ nextSegmentId: 6, nextOffset: 103, earliestOffset: 100, losses: [] });
    expect(recovered.segments[1]).toMatchObject({ sealed: false, recordCount: 2, endPosition: body.length });
    expect(hex(get(files, segmentPath(5)))).toBe(hex(body));
  });

  it("offset and sequence may differ, and both go on", () => {
    const files = newFiles();
    const fields = { segmentId: 3, baseSequence: 7, baseOffset: 1000, createdUnixMs: 0 };
    put(
      files,
      segmentPath(3),
      join(encodeSegmentHeader(fields, codec), frame({ sequence: 7n }), frame({ sequence: 8n })),
    );
    expect(recover(files)).toMatchObject({ nextOffset: 1002, nextSequence: 9, earliestOffset: 1000, nextSegmentId: 4 });
  });

  it("records larger than the window, and windows full of small ones", () => {
    const payloads = [lcg(1, 3_000_000), ...Array.from({ length: 20_000 }, (_, i) => `${i}`), lcg(2, 700_000), "end"];
    const files = newFiles();
    const bytes = putSegment(files, { id: 0, base: 0, payloads });
    expect(recover(files)).toMatchObject({ nextOffset: payloads.length, losses: [] });
    expect(get(files, segmentPath(0)).length).toBe(bytes.length);
  });

  it("storage.md 26.16: foreign names are ignored and untouched", () => {
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: ["m0"] });
    const foreign = ["SEG-0000000000000001.log", "seg-000000000000001.log", "seg-00000000000000001.log"];
    foreign.push("seg-000000000000000A.log", "seg-0000000000000001.log.bak");
    for (const name of foreign) put(files, `${ROOT}/${name}`, ascii("foreign"));
    files.makeDirectory(`${ROOT}/seg-0000000000000099.log`);
    recover(files);
    for (const name of foreign) expect(get(files, `${ROOT}/${name}`)).toEqual(ascii("foreign"));
    expect(files.stat(`${ROOT}/seg-0000000000000099.log`)?.kind).toBe("directory");
  });

  it("a start costs the last segment: bodies of sealed ones are read by a full scan only", () => {
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: ["m0", "m1", "m2"], sealed: true });
    putSegment(files, { id: 1, base: 3, payloads: ["m3"] });
    flip(files, segmentPath(0), at(1) + 36);
    expect(recover(files)).toMatchObject({ nextOffset: 4, losses: [] });
    expect(refused(files, { fullScan: true })[0]).toBe("UnsealedPredecessor");
  });

  it("storage.md 26.15: a maximum segment size below 184 is refused", () => {
    expect(refused(newFiles(), { maxSegmentBytes: 183 })).toEqual([
      "InvalidMaxSegmentBytes",
      "max_segment_bytes 183 is below the minimum 184 (smaller caps make one-record segments)",
    ]);
    expect(recover(newFiles(), { maxSegmentBytes: 184 }).segments).toEqual([]);
  });
});

describe("recovery of the last segment's end", () => {
  it("storage.md 26.36: three bytes cut off: a torn tail, no data loss, nothing in quarantine", () => {
    const files = newFiles();
    const bytes = segmentBytes({ id: 0, base: 0, payloads: ["m0", "m1", "m2"] });
    put(files, segmentPath(0), bytes.subarray(0, bytes.length - 3));
    const recovered = recover(files);
    expect(recovered.losses).toEqual([
      { segmentId: 0, start: at(2), end: bytes.length - 3, recordsLostEstimate: 1, reason: "TornTail" },
    ]);
    expect(recovered).toMatchObject({ nextOffset: 2, nextSequence: 2, quarantined: [] });
    expect(files.stat(`${ROOT}/quarantine`)).toBeUndefined();
    expect(get(files, segmentPath(0)).length).toBe(at(2));
    expect(parseLossReport(new TextDecoder().decode(get(files, REPORT)))).toEqual(recovered.losses);
  });

  it("storage.md 18.2: fewer than 36 bytes are a torn tail", () => {
    for (const length of [1, 35]) {
      const files = newFiles();
      putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail: new Uint8Array(length).fill(7) });
      expect(recover(files).losses).toMatchObject([{ reason: "TornTail", start: at(1), end: at(1) + length }]);
    }
  });

  it("storage.md 26.37: a body byte in the middle: what is before stays, the rest is copied and cut", () => {
    const files = newFiles();
    const planted = join(ascii("xx"), new Uint8Array([0x42, 0x49, 1]), frame({ sequence: 2n, payload: ascii("trap") }));
    const body = segmentBytes({ id: 0, base: 0, payloads: ["m0", planted, "m2"] });
    const bytes = join(body, new Uint8Array(5000));
    bytes[at(1) + 36] ^= 1;
    put(files, segmentPath(0), bytes);
    const recovered = recover(files);
    // The last record's total length ends with zero bytes; the span goes to the last byte that is not zero.
    const end = body.length - 3;
    expect(body[end - 1]).not.toBe(0);
    expect(recovered.losses).toEqual([
      { segmentId: 0, start: at(1), end, recordsLostEstimate: 1, reason: "CorruptRecordBody" },
    ]);
    expect(recovered.quarantined).toEqual(recovered.losses);
    const blob = `${ROOT}/quarantine/q-0000000000000000-corrupt_record_body-${at(1)}-${end}.bin`;
    expect(hex(get(files, blob))).toBe(hex(bytes.subarray(at(1), end)));
    expect(get(files, segmentPath(0)).length).toBe(at(1));
    expect(recovered.nextOffset).toBe(1);
  });

  it("storage.md 26.38: a header byte is a corrupt header", () => {
    for (const position of [0, 2, 3, 10, 28, 32]) {
      const files = newFiles();
      putSegment(files, { id: 0, base: 0, payloads: ["m0", "m1", "m2"] });
      flip(files, segmentPath(0), at(1) + position, 4);
      expect(recover(files).losses, `byte ${position}`).toMatchObject([
        { reason: "CorruptRecordHeader", start: at(1), end: at(3) - 3 },
      ]);
    }
  });

  it("storage.md 18.2: contradictory flags and oversize are of the header, a wrong trailer is of the body", () => {
    const withHeader = (change: (bytes: Uint8Array) => void): Uint8Array => {
      const bytes = frame({ sequence: 1n, payload: ascii("m1") });
      change(bytes);
      new DataView(bytes.buffer).setUint32(32, codec.crc32c(bytes, 0, 32), true);
      return bytes;
    };
    const cases: [Uint8Array, string][] = [
      [withHeader((bytes) => bytes.fill(0x18, 3, 4)), "CorruptRecordHeader"],
      [withHeader((bytes) => bytes.fill(0x28, 3, 4)), "CorruptRecordHeader"],
      [withHeader((bytes) => bytes.fill(0xff, 28, 32)), "CorruptRecordHeader"],
      [withHeader((bytes) => bytes.fill(0x02, 3, 4)), "CorruptRecordBody"],
      [withHeader((bytes) => bytes.fill(9, bytes.length - 4, bytes.length - 3)), "CorruptRecordBody"],
    ];
    for (const [tail, reason] of cases) {
      const files = newFiles();
      putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail });
      expect(recover(files).losses).toMatchObject([{ reason, start: at(1) }]);
    }
  });

  it("storage.md 26.38: 64 MiB of zeros are no event and are cut; one byte in them is an event of one byte", () => {
    const files = newFiles();
    const body = segmentBytes({ id: 0, base: 0, payloads: ["m0"] });
    put(files, segmentPath(0), body);
    const grow = (): void => {
      const file = files.open(segmentPath(0), "write");
      file.allocate(64 * 1024 * 1024);
      file.close();
    };
    grow();
    expect(recover(files).losses).toEqual([]);
    expect(get(files, segmentPath(0)).length).toBe(body.length);
    grow();
    const file = files.open(segmentPath(0), "write");
    file.write(new Uint8Array([1]), 0, 1, body.length);
    file.close();
    expect(recover(files).losses).toEqual([
      {
        segmentId: 0,
        start: body.length,
        end: body.length + 1,
        recordsLostEstimate: 1,
        reason: "CorruptRecordHeader",
      },
    ]);
    expect(get(files, segmentPath(0)).length).toBe(body.length);
  });

  it("a claim that reaches beyond the file is a torn tail and takes no memory", () => {
    const bytes = new Uint8Array(36);
    bytes.set([0x42, 0x49, 1, 0]);
    const view = new DataView(bytes.buffer);
    view.setBigUint64(4, 1n, true);
    view.setUint32(28, 900_000_000, true);
    bytes[3] = 4;
    view.setUint32(32, codec.crc32c(bytes, 0, 32), true);
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail: join(bytes, new Uint8Array(100)) });
    expect(recover(files).losses).toMatchObject([{ reason: "TornTail", start: at(1) }]);
  });

  it("storage.md 26.43: the same image gives the same result twice, and a second start finds nothing", () => {
    const image = (): FileSystem => {
      const files = newFiles();
      putSegment(files, { id: 0, base: 0, payloads: ["m0", "m1"], sealed: true });
      putSegment(files, { id: 1, base: 2, payloads: ["m2", "m3", "m4"], tail: new Uint8Array(100) });
      flip(files, segmentPath(1), at(1) + 40);
      return files;
    };
    const first = image();
    const second = image();
    expect(recover(first)).toEqual(recover(second));
    expect(tree(first)).toEqual(tree(second));
    const after = tree(first);
    expect(recover(first)).toMatchObject({ losses: [], nextOffset: 3 });
    expect(tree(first)).toEqual(after);
  });

  it("storage.md 18.2: a footer whose cut to length is missing seals the segment, and nothing is reported", () => {
    for (const zeros of [1, 3, 40, 5000]) {
      const files = newFiles();
      const sealed = segmentBytes({ id: 0, base: 0, payloads: ["m0", "m1"], sealed: true });
      put(files, segmentPath(0), join(sealed, new Uint8Array(zeros)));
      const recovered = recover(files);
      expect(recovered).toMatchObject({ losses: [], nextSegmentId: 1, nextOffset: 2 });
      expect(recovered.segments[0].sealed).toBe(true);
      expect(hex(get(files, segmentPath(0)))).toBe(hex(sealed));
    }
  });

  it("storage.md 18.2: a footer that disagrees with the body is damage like any other", () => {
    const footer = (changes: object): Uint8Array =>
      encodeSegmentFooter({ segmentId: 0, lastSequence: 1, recordCount: 2, ...changes }, codec);
    const body = segmentBytes({ id: 0, base: 0, payloads: ["m0", "m1"] });
    const good = footer({});
    const torn = good.slice();
    torn[20] = 0;
    const cases = [
      join(footer({ recordCount: 3, lastSequence: 2 })),
      join(footer({ lastSequence: 7 })),
      join(footer({ version: 2 })),
      torn,
      join(good, new Uint8Array(10), new Uint8Array([1])),
      join(footer({ segmentId: 9 }), new Uint8Array(40)),
    ];
    for (const tail of cases) {
      const files = newFiles();
      put(files, segmentPath(0), join(body, tail));
      const recovered = recover(files);
      expect(recovered.losses).toMatchObject([{ start: body.length }]);
      expect(["CorruptRecordHeader", "TornTail"]).toContain(recovered.losses[0].reason);
      expect(recovered.segments[0]).toMatchObject({ sealed: false, recordCount: 2 });
    }
  });
});

describe("strict recovery refuses", () => {
  const three = (): FileSystem => {
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: ["m0", "m1"], sealed: true });
    putSegment(files, { id: 1, base: 2, payloads: ["m2", "m3"], sealed: true });
    putSegment(files, { id: 2, base: 4, payloads: ["m4"] });
    return files;
  };

  const sealedThree = (): FileSystem => {
    const files = three();
    putSegment(files, { id: 2, base: 4, payloads: ["m4"], sealed: true });
    return files;
  };

  it("storage.md 26.39: a flipped byte in a sealed segment that is not the last", () => {
    for (let position = 64; position < 64 + 2 * FRAME + 32; position++) {
      const files = three();
      flip(files, segmentPath(1), position);
      expect(refused(files, { fullScan: true })).toEqual([
        "UnsealedPredecessor",
        "predecessor segment 1 is not sealed",
      ]);
      // Without reading bodies, damage of the footer is still seen.
      if (position >= 64 + 2 * FRAME) expect(refused(files)[0]).toBe("UnsealedPredecessor");
    }
    const unsealed = three();
    putSegment(unsealed, { id: 1, base: 2, payloads: ["m2", "m3"] });
    expect(refused(unsealed)[0]).toBe("UnsealedPredecessor");
    const uncut = three();
    putSegment(uncut, { id: 1, base: 2, payloads: ["m2", "m3"], sealed: true, tail: new Uint8Array(9) });
    expect(refused(uncut)[0]).toBe("UnsealedPredecessor");
  });

  it("storage.md 26.40: a missing segment in the middle", () => {
    const files = three();
    files.remove(segmentPath(1));
    expect(refused(files)).toEqual(["SegmentChainBroken", "segment 2 base (4,4) does not continue from (2,2)"]);
    const sequence = three();
    const fields = { segmentId: 2, baseSequence: 9, baseOffset: 4, createdUnixMs: 0 };
    put(sequence, segmentPath(2), encodeSegmentHeader(fields, codec));
    expect(refused(sequence)[1]).toBe("segment 2 base (4,9) does not continue from (4,4)");
  });

  it("storage.md 18.1 step 6: the first retained segment may start anywhere", () => {
    const files = three();
    files.remove(segmentPath(0));
    expect(recover(files)).toMatchObject({ earliestOffset: 2, nextOffset: 5 });
  });

  it("storage.md 26.40: a segment under another id", () => {
    const files = three();
    files.rename(segmentPath(2), segmentPath(7));
    expect(refused(files)).toEqual(["SegmentIdMismatch", "segment file 7 holds a header for segment 2"]);
  });

  it("storage.md 26.40: an intact frame with another sequence", () => {
    const files = newFiles();
    for (const [sequence, text] of [
      [6n, "record 1 has sequence 6, expected 1"],
      [1n << 60n, `record 1 has sequence ${1n << 60n}, expected 1`],
    ] as const) {
      putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail: frame({ sequence, payload: ascii("m1") }) });
      expect(refused(files)).toEqual(["RecoveredSequenceMismatch", text]);
    }
  });

  it("storage.md 26.40: a footer of another segment that fits the body", () => {
    const footer = encodeSegmentFooter({ segmentId: 9, lastSequence: 1, recordCount: 2 }, codec);
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: ["m0", "m1"], tail: footer });
    expect(refused(files)).toEqual(["FooterSegmentMismatch", "footer segment_id 9 does not match header 0"]);
    const middle = three();
    putSegment(middle, {
      id: 1,
      base: 2,
      payloads: ["m2", "m3"],
      tail: encodeSegmentFooter({ segmentId: 9, lastSequence: 3, recordCount: 2 }, codec),
    });
    expect(refused(middle)[1]).toBe("footer segment_id 9 does not match header 1");
  });

  it("storage.md 26.41: one non-zero byte behind a header that is not there, and a sole segment without header", () => {
    const files = sealedThree();
    const bytes = new Uint8Array(200);
    bytes[100] = 1;
    put(files, segmentPath(3), bytes);
    expect(refused(files)[0]).toBe("SegmentDecode");
    const sole = newFiles();
    const body = segmentBytes({ id: 0, base: 0, payloads: ["m0"] });
    put(sole, segmentPath(0), body.fill(0, 0, 64));
    expect(refused(sole)[1]).toContain("segment decode error: segment header has a bad magic number");
    for (const [id, settled] of [
      [0, { committed: 1, runs: [] }],
      [0, { committed: 0, runs: [{ start: 3, end: 4 }] }],
      [1, undefined],
    ] as const) {
      const empty = newFiles();
      put(empty, segmentPath(id), new Uint8Array(64));
      if (settled !== undefined) put(empty, `${ROOT}/cursor.ckpt`, cursorFile(settled));
      expect(refused(empty)[0]).toBe("SegmentDecode");
    }
  });

  it("a header of a later version is refused even when nothing follows it", () => {
    const files = sealedThree();
    const later = header(3, 5);
    later[8] = 3;
    new DataView(later.buffer).setUint32(60, codec.crc32c(later, 0, 60), true);
    put(files, segmentPath(3), later);
    expect(refused(files)[1]).toContain("unsupported segment header version 3");
  });

  it("storage.md 26.42: a tail above the cap, the same on every start", () => {
    const files = newFiles();
    const tail = new Uint8Array(5000).fill(0xee);
    const bytes = putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail });
    const text =
      "recovery exceeded the bounded-loss cap: " +
      "a recovery loss event dropped 5000 bytes, over the per-event cap 4096";
    for (let start = 0; start < 2; start++) {
      expect(refused(files, { maxSegmentBytes: 4096 })).toEqual(["ExcessiveRecoveryLoss", text]);
      expect(get(files, segmentPath(0)).length).toBe(bytes.length);
    }
    expect(recover(files, { maxSegmentBytes: 5000 }).losses.length).toBe(1);
  });

  it("storage.md 19: a torn tail counts toward the cap as well", () => {
    const files = newFiles();
    const torn = frame({ sequence: 1n, payload: lcg(3, 5000) });
    putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail: torn.subarray(0, torn.length - 1) });
    expect(refused(files, { maxSegmentBytes: 4096 })[0]).toBe("ExcessiveRecoveryLoss");
  });

  it("what this build cannot read: compacted, encrypted, offloaded, beyond 2^53", () => {
    for (const flags of [SegmentFlag.Compacted, SegmentFlag.Encrypted]) {
      const files = sealedThree();
      const fields = { segmentId: 3, baseSequence: 5, baseOffset: 5, createdUnixMs: 0, flags };
      put(files, segmentPath(3), encodeSegmentHeader(fields, codec));
      expect(refused(files)[0]).toBe("UnsupportedFeature");
    }
    const encrypted = frame({ sequence: 1n, payload: ascii("m1") });
    encrypted[3] = 0x20;
    new DataView(encrypted.buffer).setUint32(32, codec.crc32c(encrypted, 0, 32), true);
    const record = newFiles();
    putSegment(record, { id: 0, base: 0, payloads: ["m0"], tail: encrypted });
    expect(refused(record)[0]).toBe("UnsupportedFeature");
    const cold = three();
    put(cold, `${ROOT}/cold-manifest.ckpt`, EMPTY);
    expect(refused(cold)[0]).toBe("UnsupportedFeature");
    const id = newFiles();
    put(id, `${ROOT}/seg-ffffffffffffffff.log`, EMPTY);
    expect(refused(id)[0]).toBe("OutOfRange");
    const noneBehind = newFiles();
    put(noneBehind, `${ROOT}/seg-001fffffffffffff.log`, ascii("of somebody else"));
    expect(refused(noneBehind)[0]).toBe("OutOfRange");
    const base = newFiles();
    put(base, segmentPath(0), join(header(0, Number.MAX_SAFE_INTEGER), new Uint8Array(100)));
    expect(refused(base)[0]).toBe("OutOfRange");
  });
});

describe("recovery of a cut creation", () => {
  it("storage.md 26.41: an empty or all-zero last segment is removed and its id used again", () => {
    for (const length of [0, 63, 64, 4096]) {
      for (const sealed of [true, false]) {
        const files = newFiles();
        putSegment(files, { id: 0, base: 0, payloads: ["m0", "m1"], sealed });
        put(files, segmentPath(1), new Uint8Array(length));
        const recovered = recover(files);
        expect(recovered.losses).toEqual([
          { segmentId: 1, start: 0, end: 0, recordsLostEstimate: 0, reason: "CorruptSegmentHeader" },
        ]);
        expect(recovered).toMatchObject({ nextSegmentId: 1, nextOffset: 2, quarantined: [] });
        expect(recovered.segments.length).toBe(1);
        expect(files.stat(segmentPath(1))).toBeUndefined();
      }
    }
  });

  it("the very first start, cut before its header was on disk, is started again", () => {
    for (const length of [0, 10, 64, 8192]) {
      const files = newFiles();
      put(files, segmentPath(0), new Uint8Array(length));
      expect(recover(files)).toMatchObject({ segments: [], nextSegmentId: 0, nextOffset: 0 });
      expect(files.stat(segmentPath(0))).toBeUndefined();
    }
  });

  it("checkpoints in which nothing is settled do not make records of a first segment that was cut", () => {
    for (const recovery of ["salvage", "strict"] as const) {
      for (const length of [0, 64, 8192]) {
        const begun = (committed: number): FileSystem => {
          const files = newFiles();
          put(files, segmentPath(0), new Uint8Array(length));
          put(files, `${ROOT}/counters.ckpt`, new Uint8Array(540));
          put(files, `${ROOT}/cursor.ckpt`, EMPTY);
          put(files, `${ROOT}/cursor-67.ckpt`, cursorFile({ committed, runs: [] }));
          return files;
        };
        const files = begun(0);
        const recovered = recover(files, { recovery });
        expect(recovered).toMatchObject({ segments: [], nextSegmentId: 0, nextOffset: 0, gaps: [] });
        expect(recovered.losses).toMatchObject([{ start: 0, end: 0, recordsLostEstimate: 0 }]);
        expect(files.stat(segmentPath(0))).toBeUndefined();

        if (recovery === "strict") expect(refused(begun(5))[0]).toBe("SegmentDecode");
        else expect(recover(begun(5)).nextOffset).toBeGreaterThanOrEqual(5);
      }
    }
  });

  it("a damaged cursor may have settled something", () => {
    const files = newFiles();
    put(files, segmentPath(0), EMPTY);
    put(files, `${ROOT}/cursor.ckpt`, cursorFile({ committed: 0, runs: [] }).fill(0xff));
    expect(refused(files)[0]).toBe("SegmentDecode");
  });

  it("a half-written header of a last segment without records goes too", () => {
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: ["m0"], sealed: true });
    put(files, segmentPath(1), join(header(1, 1).subarray(0, 40), new Uint8Array(1000)));
    expect(recover(files)).toMatchObject({ nextSegmentId: 1, nextOffset: 1 });
  });
});

describe("recovery and a failing disk", () => {
  /** A preallocated last segment with a corrupt tail, durable. */
  function damaged(): SimulatedFileSystem {
    const files = new SimulatedFileSystem({ seed: 11 });
    files.makeDirectory(ROOT);
    putSegment(files, { id: 0, base: 0, payloads: ["m0", "m1", "m2"], tail: new Uint8Array(3000) });
    flip(files, segmentPath(0), at(1) + 40);
    const file = files.open(segmentPath(0), "write");
    file.sync("full");
    file.close();
    files.syncDirectory(ROOT);
    files.syncDirectory("/");
    return files;
  }

  it("storage.md 14.5: after a cut of power at any step, recovery comes to the same end", () => {
    const files = damaged();
    const images: SimulatedFileSystem[] = [];
    files.onOperation = () => {
      for (let i = 0; i < 6; i++) images.push(files.imageAfterPowerCut({ seed: images.length + 1 }));
    };
    const recovered = recover(files);
    expect(images.length).toBeGreaterThan(60);
    for (const image of images) {
      const again = recover(image);
      expect(again.nextOffset).toBe(1);
      expect(get(image, segmentPath(0)).length).toBe(at(1));
      // Either the cut had not happened and the span is reported again, or its copy is there.
      if (again.losses.length === 0) expect(Object.keys(tree(image)).join(" ")).toContain("/quarantine/q-");
      else expect(again.losses).toEqual(recovered.losses);
    }
    const end = files.imageAfterPowerCut({ style: "lost" });
    expect(tree(end)).toEqual(tree(files));
  });

  it("storage.md 19: after a cut of power at any step, the loss is in the next report or in the one on the disk", () => {
    const files = damaged();
    const images: SimulatedFileSystem[] = [];
    files.onOperation = () => {
      for (let i = 0; i < 6; i++) images.push(files.imageAfterPowerCut({ seed: images.length + 1 }));
    };
    const { losses } = recover(files);
    let cutAlready = 0;
    for (const image of images) {
      if (recover(image).losses.length === 0) cutAlready++;
      expect(parseLossReport(new TextDecoder().decode(get(image, REPORT)))).toEqual(losses);
    }
    expect(cutAlready).toBeGreaterThan(5);
  });

  it("storage.md 19: a report for which the disk is too full is written once the cut has made room", () => {
    const files = damaged();
    files.fail({ operation: "write", path: /recovery-report/, code: "ENOSPC" });
    const { losses, problems } = recover(files);
    expect(problems).toEqual([]);
    expect(parseLossReport(new TextDecoder().decode(get(files, REPORT)))).toEqual(losses);
  });

  it("strict: a read error or a short read is an error and cuts nothing", () => {
    let failures = 0;
    for (let skip = 0; skip < 12; skip++) {
      for (const short of [false, true]) {
        const files = damaged();
        const before = hex(get(files, segmentPath(0)));
        const path = /seg-/;
        if (short) files.shortenReads({ path, skip, mostBytes: 20 });
        else files.fail({ operation: "read", path, skip, code: "EIO" });
        let error: unknown;
        try {
          recover(files, { recovery: "strict" });
        } catch (caught) {
          error = caught;
        }
        files.clearFaults();
        const after = get(files, segmentPath(0));
        if (error === undefined) {
          // Not hit, or hit while the copy was made, which recovery does not depend on.
          expect(after.length).toBe(at(1));
        } else {
          failures++;
          expect(error).toMatchObject({ name: "FileSystemError", code: "EIO" });
          expect(hex(after)).toBe(before);
        }
      }
    }
    expect(failures).toBeGreaterThanOrEqual(8);
  });

  it("a failed barrier after the cut fails the open", () => {
    const files = damaged();
    files.fail({ operation: "sync", path: /seg-/, code: "EIO" });
    expect(thrown(() => recover(files))).toMatchObject({ name: "FileSystemError", code: "EIO" });
  });

  it("storage.md 17: what the failed barrier of a start lost is not taken for durable by the next start", () => {
    for (const sealed of [false, true]) {
      for (let seed = 1; seed <= 20; seed++) {
        const files = newDisk(seed);
        const torn = sealed ? EMPTY : ascii("torn");
        putSegment(files, { id: 0, base: 0, payloads: ["a", lcg(seed, 3000), "c"], sealed, tail: torn });
        files.fail({ operation: "sync", path: /seg-/, code: "EIO" });
        expect(thrown(() => recover(files))).toMatchObject({ code: "EIO" });
        const next = files.kill({ turns: "manual" });
        expect(recover(next).nextOffset).toBe(3);
        expect(recover(next.cutPower({ style: "lost" })).nextOffset, `seed ${seed}`).toBe(3);
      }
    }
  });

  it("what an earlier start removed stays so, also when there is nothing else to do", () => {
    const files = newDisk();
    put(files, segmentPath(0), new Uint8Array(64));
    files.syncDirectory(ROOT);
    files.fail({ operation: "sync-directory", path: /data$/, code: "EIO", times: Number.POSITIVE_INFINITY });
    expect(thrown(() => recover(files))).toMatchObject({ code: "EIO" });
    const next = files.kill({ turns: "manual" });
    recover(next);
    expect(next.imageAfterPowerCut({ style: "lost" }).stat(segmentPath(0))).toBeUndefined();
  });

  it("storage.md 19: a report that cannot be written is a problem, not a failure", () => {
    const files = damaged();
    files.fail({ operation: "rename", code: "EIO" });
    const recovered = recover(files);
    expect(recovered.problems.map((error) => error.code)).toEqual(["EIO"]);
    expect(recovered.nextOffset).toBe(1);
  });
});
