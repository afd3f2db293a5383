import { describe, expect, it } from "vitest";
import { inspectLog } from "../../src/log/inspection.ts";
import { segmentName } from "../../src/log/names.ts";
import { recoverLog } from "../../src/log/recovery.ts";
import { codec, lcg } from "../log/fixtures.ts";
import { examine, inMemory, served } from "./examine.ts";
import { lossText } from "./expected-output.ts";
import { captureImage, DIRECTORIES, readImage, shown } from "./image.ts";
import { smallText } from "./images.ts";

const SMALL = Array.from({ length: 11 }, (_, offset) => smallText(offset));
const without = (...offsets: number[]) => SMALL.filter((text) => !offsets.includes(Number.parseInt(text, 10)));

const WITHOUT_SEGMENT_1 = {
  served: without(3, 4, 5),
  gaps: [[3, 6]],
  segments: 3,
} as const;

describe("segment headers and footers", () => {
  const HEADER_LOST = {
    served: SMALL,
    losses: ["1 [0, 64) CorruptSegmentHeader 0"],
    quarantine: { "q-0000000000000001-corrupt_segment_header-0-64.bin": [segmentName(1), 0, 64] },
  } as const;

  it("README ruling 1: a flipped byte in a header costs no record", async () => {
    await examine("bad-segment-header", {
      ...HEADER_LOST,
      strict: {
        kind: "SegmentDecode",
        message: "segment decode error: segment header CRC mismatch (segment 1)",
      },
    });
  });

  it("README ruling 1: neither does a header of zeros", async () => {
    await examine("zeroed-segment-header", {
      ...HEADER_LOST,
      strict: {
        kind: "SegmentDecode",
        message: "segment decode error: segment header has a bad magic number (segment 1)",
      },
    });
  });

  it("storage.md 26.41: a sole segment without a header is served, and the log goes on behind it", async () => {
    await examine("sole-segment-without-header", {
      served: ["0:p0", "1:p1"],
      losses: ["0 [0, 64) CorruptSegmentHeader 0"],
      next: 2,
      nextSegment: 1,
      resumed: false,
      cut: {},
      quarantine: { "q-0000000000000000-corrupt_segment_header-0-64.bin": [segmentName(0), 0, 64] },
      segments: 1,
      cursors: [["", 0, true]],
      resumesAt: 0,
      strict: {
        kind: "SegmentDecode",
        message: "segment decode error: segment header has a bad magic number (segment 0)",
      },
    });
  });

  const FOOTER_LOST = {
    served: SMALL,
    losses: ["1 [287, 319) CorruptRecordHeader 0"],
    quarantine: { "q-0000000000000001-corrupt_record_header-287-319.bin": [segmentName(1), 287, 319] },
  } as const;

  it("storage.md 6.2: a broken footer costs no record", async () => {
    await examine("broken-footer", {
      ...FOOTER_LOST,
      strict: { kind: "UnsealedPredecessor", message: "predecessor segment 1 is not sealed" },
    });
  });

  it("storage.md 26.40: neither does the footer of another segment", async () => {
    await examine("foreign-footer", {
      ...FOOTER_LOST,
      strict: { kind: "FooterSegmentMismatch", message: "footer segment_id 9 does not match header 1" },
    });
  });
});

describe("segments of which there is nothing, or not all", () => {
  it("README ruling 1: an empty file between others is a gap of the records that are missing", async () => {
    await examine("empty-segment", {
      ...WITHOUT_SEGMENT_1,
      losses: ["1 [0, 0) CorruptSegmentHeader 3"],
      strict: { kind: "SegmentDecode", message: "segment decode error: segment header is truncated (segment 1)" },
    });
  });

  it("README ruling 1: noise in place of a segment is a gap, copied whole", async () => {
    await examine("noise-for-a-segment", {
      ...WITHOUT_SEGMENT_1,
      losses: ["1 [0, 319) CorruptSegmentHeader 3"],
      quarantine: { "q-0000000000000001-corrupt_segment_header-0-319.bin": [segmentName(1), 0, 319] },
      strict: {
        kind: "SegmentDecode",
        message: "segment decode error: segment header has a bad magic number (segment 1)",
      },
    });
  });

  it("README ruling 1: a segment cut within its second record keeps the first", async () => {
    await examine("cut-segment", {
      served: without(4, 5),
      losses: ["1 [135, 150) CorruptRecordBody 2"],
      gaps: [[4, 6]],
      quarantine: { "q-0000000000000001-corrupt_record_body-135-150.bin": [segmentName(1), 135, 150] },
      strict: { kind: "UnsealedPredecessor", message: "predecessor segment 1 is not sealed" },
    });
  });

  it("storage.md 26.40: a missing segment is a gap", async () => {
    await examine("missing-middle-segment", {
      ...WITHOUT_SEGMENT_1,
      losses: ["1 [0, 0) SequenceGap 3"],
      strict: {
        kind: "SegmentChainBroken",
        message: "segment 2 base (6,6) does not continue from (3,3)",
      },
    });
  });

  it("storage.md 18.1 step 6: a log may begin anywhere: a missing first segment looks as retention does", async () => {
    await examine("missing-first-segment", { served: SMALL.slice(3), earliest: 3, segments: 3 });
  });

  it("README ruling 1: a segment that the medium does not give back is a gap, for as long as that lasts", () => {
    const image = readImage(`${DIRECTORIES}/healthy`);
    const files = inMemory(image);
    files.fail({ operation: "read", path: /seg-0000000000000001/, code: "EIO", times: 1_000_000 });
    expect(served(files, "/data")).toEqual(without(3, 4, 5));
    const inspection = inspectLog(files, codec, "/data", { fullScan: true });
    for (let start = 0; start < 2; start++) {
      const recovered = recoverLog(files, codec, "/data", { maxSegmentBytes: 1024, fullScan: true });
      expect(recovered.losses.map(lossText)).toEqual(["1 [0, 319) CorruptSegmentHeader 3"]);
      expect(recovered.losses).toEqual(inspection.losses);
      expect(recovered).toMatchObject({ gaps: [{ start: 3, end: 6 }], nextOffset: 11, resumable: true });
      // The copy that could not be made is the only thing that went wrong.
      expect(recovered.problems).toMatchObject([{ code: "EIO", operation: "read" }]);
    }
    files.clearFaults();
    expect(served(files, "/data")).toEqual(SMALL);
    const after = captureImage(files, "/data");
    expect([...after.keys()].filter((path) => !image.has(path))).toEqual(["recovery-report.json"]);
    after.delete("recovery-report.json");
    image.set(segmentName(3), (image.get(segmentName(3)) as Uint8Array).subarray(0, 204));
    expect(shown(after)).toEqual(shown(image));
  });
});

describe("segments under other names", () => {
  it("README ruling 1: of swapped files each is read as what it says it is", async () => {
    await examine("swapped-segments", {
      served: SMALL,
      losses: ["0 [0, 0) CorruptSegmentHeader 0", "2 [0, 0) CorruptSegmentHeader 0"],
      strict: { kind: "SegmentIdMismatch", message: "segment file 0 holds a header for segment 2" },
    });
  });

  it("README ruling 1: a copy under another name is left alone, and its name not used", async () => {
    await examine("duplicate-segment", {
      served: SMALL,
      losses: ["7 [0, 0) CorruptSegmentHeader 0"],
      nextSegment: 8,
      resumed: false,
      cut: {},
      strict: { kind: "UnsealedPredecessor", message: "predecessor segment 3 is not sealed" },
    });
  });
});

describe("losses above a cap", () => {
  it("README ruling 1, storage.md 26.42: the log is read-only, serves what is intact, and nothing on the disk changes", async () => {
    const text = (offset: number) => `${offset}:${Buffer.from(lcg(offset, 200)).toString("hex")}`;
    await examine("above-a-cap", {
      served: [...Array(85).keys()].filter((offset) => offset < 16 || offset > 53).map(text),
      losses: ["0 [3968, 13240) CorruptRecordHeader 38"],
      gaps: [[16, 54]],
      next: 85,
      nextSegment: 2,
      maxSegmentBytes: 4096,
      readOnly:
        "recovery exceeded the bounded-loss cap: a recovery loss event dropped 9272 bytes, over the per-event cap 4096",
      segments: 2,
      cursors: [["", 0, true]],
      resumesAt: 0,
      strict: { kind: "UnsealedPredecessor", message: "predecessor segment 0 is not sealed" },
    });
  });
});
