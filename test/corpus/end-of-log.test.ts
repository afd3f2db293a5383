import { describe, it } from "vitest";
import { segmentName } from "../../src/log/names.ts";
import { examine } from "./examine.ts";
import { smallText } from "./images.ts";

const SMALL = Array.from({ length: 11 }, (_, offset) => smallText(offset));

describe("the end of the log", () => {
  it("nothing is wrong: the preallocated end is cut, nothing is reported", async () => {
    await examine("healthy", { served: SMALL });
  });

  it("storage.md 26.36: a record of which three bytes are missing is a torn tail", async () => {
    await examine("torn-tail", {
      served: SMALL.slice(0, 10),
      losses: ["3 [135, 201) TornTail 1"],
      next: 10,
      cut: { [segmentName(3)]: 135 },
      again: { losses: [] },
    });
  });

  it("storage.md 26.38: a record that was half written into preallocated space is a bad header up to its last byte", async () => {
    await examine("torn-record-before-zeros", {
      served: SMALL.slice(0, 10),
      losses: ["3 [135, 170) CorruptRecordHeader 1"],
      next: 10,
      cut: { [segmentName(3)]: 135 },
      quarantine: { "q-0000000000000003-corrupt_record_header-135-170.bin": [segmentName(3), 135, 170] },
      again: { losses: [] },
    });
  });

  it("storage.md 26.42: a tail above the cap opens read-only, or not at all in mode strict", async () => {
    const message =
      "recovery exceeded the bounded-loss cap: a recovery loss event dropped 5000 bytes, over the per-event cap 4096";
    await examine("tail-above-a-cap", {
      served: ["0:p0", "1:p1"],
      losses: ["0 [156, 5156) CorruptRecordHeader 1"],
      next: 2,
      nextSegment: 1,
      maxSegmentBytes: 4096,
      readOnly: message,
      segments: 1,
      cursors: [["", 0, true]],
      resumesAt: 0,
      strict: { kind: "ExcessiveRecoveryLoss", message },
    });
  });

  it("storage.md 18.2: a footer that the power cut left before zeros seals the segment, and costs nothing", async () => {
    await examine("footer-not-yet-cut", {
      served: SMALL.slice(0, 9),
      next: 9,
      nextSegment: 3,
      resumed: false,
      cut: { [segmentName(2)]: 319 },
      segments: 3,
    });
  });

  it("storage.md 26.41: a last segment without a byte never came to be, and is made again", async () => {
    await examine("unborn-segment", {
      served: SMALL,
      losses: ["4 [0, 0) CorruptSegmentHeader 0"],
      removed: [segmentName(4)],
      again: { losses: [] },
    });
  });

  it("storage.md 26.41: so did one of zeros", async () => {
    await examine("unborn-segment-of-zeros", {
      served: SMALL,
      losses: ["4 [0, 0) CorruptSegmentHeader 0"],
      removed: [segmentName(4)],
      again: { losses: [] },
    });
  });

  it("storage.md 26.41: a byte at position 100 of it may have been a record", async () => {
    await examine("byte-behind-no-header", {
      served: SMALL,
      losses: ["4 [0, 64) CorruptSegmentHeader 0", "4 [64, 101) CorruptRecordHeader 1"],
      nextSegment: 5,
      resumed: false,
      cut: {},
      quarantine: {
        "q-0000000000000004-corrupt_segment_header-0-64.bin": [segmentName(4), 0, 64],
        "q-0000000000000004-corrupt_record_header-64-101.bin": [segmentName(4), 64, 101],
      },
      segments: 5,
      strict: { kind: "UnsealedPredecessor", message: "predecessor segment 3 is not sealed" },
    });
  });
});
