import { describe, expect, it } from "vitest";
import { segmentName } from "../../src/log/names.ts";
import { World } from "../broker/world.ts";
import { lcg } from "../log/fixtures.ts";
import { consume, type Expected, examine, inMemory } from "./examine.ts";
import { DIRECTORIES, readImage } from "./image.ts";
import { smallText } from "./images.ts";

const SMALL = Array.from({ length: 11 }, (_, offset) => smallText(offset));
const without = (...offsets: number[]) => SMALL.filter((text) => !offsets.includes(Number.parseInt(text, 10)));

/** Record 4 of the small image, which lies at [135, 203) of segment 1, is lost. */
function withoutRecord4(label: string, reason: string): Expected {
  return {
    served: without(4),
    losses: [`1 [135, 203) ${reason} 1`],
    gaps: [[4, 5]],
    quarantine: { [`q-0000000000000001-${label}-135-203.bin`]: [segmentName(1), 135, 203] },
    strict: { kind: "UnsealedPredecessor", message: "predecessor segment 1 is not sealed" },
  };
}

/** What directories of two segments without a settled record have in common. */
const TWO_SEGMENTS = { segments: 2, nextSegment: 2, cursors: [["", 0, true]], resumesAt: 0 } as const;

const plain = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => `${from + index}:p${from + index}`);

const noise = (offset: number) => `${offset}:${Buffer.from(lcg(offset, 200)).toString("hex")}`;

describe("records", () => {
  it("storage.md 26.10: payloads that cannot be decoded are no damage to the log; consumers are led around them", async () => {
    await examine("poison-records", {
      served: [
        "0:before",
        "1!unknown-codec:9",
        "2!missing-dict:9",
        "3!corrupt-stream",
        "4!decompressed-too-large:8388609",
        "5:kept",
        "6:behind",
      ],
      next: 7,
      cut: { [segmentName(1)]: 230 },
      ...TWO_SEGMENTS,
    });
  });

  it("storage.md 26.10: each of them is reported, with the reason that belongs to it", async () => {
    const world = await World.start({ files: inMemory(readImage(`${DIRECTORIES}/poison-records`)) });
    expect(consume(world, "g")).toEqual([0, 5, 6]);
    const told = (record: number, why: string, place: string, reason: string) =>
      `record ${record} is intact and cannot be decompressed (${why}), so consumers of plain payloads go on without it: ` +
      `segment ${place}, reason=${reason}`;
    expect(world.warnings).toEqual([
      told(1, "unknown-codec:9", "0 bytes [114, 180)", "corrupt_record_body"),
      told(2, "missing-dict:9", "0 bytes [180, 251)", "unresolved_dict_id"),
      told(3, "corrupt-stream", "0 bytes [251, 320)", "corrupt_record_body"),
      told(4, "decompressed-too-large:8388609", "1 bytes [64, 123)", "corrupt_record_body"),
    ]);
    await world.stop();
  });

  it("storage.md 26.37, 26.39: a flipped byte in a body costs that record", async () => {
    await examine("bad-body", withoutRecord4("corrupt_record_body", "CorruptRecordBody"));
  });

  it("storage.md 26.38, 26.39: a flipped byte in a header costs that record: its length is known all the same", async () => {
    await examine("bad-record-header", withoutRecord4("corrupt_record_header", "CorruptRecordHeader"));
  });

  it("README ruling 1: a header of which nothing is left costs that record: the frames behind it lead back to it", async () => {
    await examine("destroyed-record-header", withoutRecord4("corrupt_record_header", "CorruptRecordHeader"));
  });

  it("README ruling 1: two destroyed headers in one segment cost two records, not what lies between them", async () => {
    await examine("two-destroyed-headers", {
      served: [...plain(0, 2), ...plain(3, 6), ...plain(7, 10)],
      losses: ["0 [156, 202) CorruptRecordHeader 1", "0 [340, 386) CorruptRecordHeader 1"],
      gaps: [
        [2, 3],
        [6, 7],
      ],
      next: 10,
      cut: { [segmentName(1)]: 110 },
      quarantine: {
        "q-0000000000000000-corrupt_record_header-156-202.bin": [segmentName(0), 156, 202],
        "q-0000000000000000-corrupt_record_header-340-386.bin": [segmentName(0), 340, 386],
      },
      strict: { kind: "UnsealedPredecessor", message: "predecessor segment 0 is not sealed" },
      ...TWO_SEGMENTS,
    });
  });

  it("README ruling 1: a zeroed page of 4 KiB costs the records that it touches", async () => {
    // Record n lies at [64 + 244 n, 64 + 244 (n + 1)); the page is [8192, 12288).
    await examine("zeroed-page", {
      served: [...Array(85).keys()].filter((offset) => offset < 33 || offset > 50).map(noise),
      losses: ["0 [8116, 8360) CorruptRecordBody 1", "0 [8360, 12508) CorruptRecordHeader 17"],
      gaps: [[33, 51]],
      next: 85,
      cut: { [segmentName(1)]: 308 },
      quarantine: {
        "q-0000000000000000-corrupt_record_body-8116-8360.bin": [segmentName(0), 8116, 8360],
        "q-0000000000000000-corrupt_record_header-8360-12508.bin": [segmentName(0), 8360, 12_508],
      },
      strict: { kind: "UnsealedPredecessor", message: "predecessor segment 0 is not sealed" },
      ...TWO_SEGMENTS,
    });
  });

  it("README ruling 1, storage.md 26.37: frames inside of a payload are never records, whatever became of the one around them", async () => {
    await examine("planted-frames", {
      served: [...plain(0, 2), ...plain(3, 6)],
      losses: ["0 [156, 420) CorruptRecordHeader 1"],
      gaps: [[2, 3]],
      next: 6,
      cut: { [segmentName(1)]: 110 },
      quarantine: { "q-0000000000000000-corrupt_record_header-156-420.bin": [segmentName(0), 156, 420] },
      strict: { kind: "UnsealedPredecessor", message: "predecessor segment 0 is not sealed" },
      ...TWO_SEGMENTS,
    });
  });

  it("README ruling 1: frames that are not where the ones before them end are not told from a payload's, and not taken", async () => {
    await examine("doubled-bytes", {
      served: without(3, 4, 5),
      losses: ["1 [64, 135) CorruptRecordBody 1", "1 [135, 377) CorruptRecordHeader 2"],
      gaps: [[3, 6]],
      quarantine: {
        "q-0000000000000001-corrupt_record_body-64-135.bin": [segmentName(1), 64, 135],
        "q-0000000000000001-corrupt_record_header-135-377.bin": [segmentName(1), 135, 377],
      },
      strict: { kind: "UnsealedPredecessor", message: "predecessor segment 1 is not sealed" },
    });
  });

  it("storage.md 26.40: an intact frame five sequences ahead is not the log's next record", async () => {
    await examine("wrong-sequence", {
      served: ["0:p0"],
      losses: ["0 [110, 153) SequenceGap 1"],
      next: 1,
      nextSegment: 1,
      segments: 1,
      cursors: [["", 0, true]],
      resumesAt: 0,
      cut: { [segmentName(0)]: 110 },
      quarantine: { "q-0000000000000000-sequence_gap-110-153.bin": [segmentName(0), 110, 153] },
      again: { losses: [] },
      strict: { kind: "RecoveredSequenceMismatch", message: "record 1 has sequence 6, expected 1" },
    });
  });
});
