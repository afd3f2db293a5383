import { describe, expect, it } from "vitest";
import { CURSOR_CAPACITY, encodeCursor } from "../../src/log/checkpoint-payloads.ts";
import { encodeSlot, slotLength } from "../../src/log/checkpoint-slots.ts";
import { RESTORING_LAYOUT_VERSION, writeLayoutMarker } from "../../src/log/layout-marker.ts";
import { groupCheckpointName } from "../../src/log/names.ts";
import { formatVersion } from "../../src/offline/format-version.ts";
import { damageOf, scrub } from "../../src/offline/scrub.ts";
import { verify } from "../../src/offline/verify.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import {
  ascii,
  codec,
  flip,
  join,
  newFiles,
  put,
  putSegment,
  ROOT,
  segmentBytes,
  segmentPath,
  thrown,
  tree,
} from "../log/fixtures.ts";

const STREAM = "streams/6f7264657273";
const PAYLOAD = "x".repeat(56);
const FRAME = 36 + 56 + 8;

/** A default log of two segments, a named stream, its sink, and what is no log. */
function directory(): FileSystem & ReturnType<typeof newFiles> {
  const files = newFiles();
  putSegment(files, { id: 0, base: 0, payloads: [PAYLOAD, PAYLOAD, PAYLOAD], sealed: true });
  putSegment(files, { id: 1, base: 3, payloads: [PAYLOAD] });
  for (const root of [STREAM, `${STREAM}/dlq`, "quarantine", "dicts"]) files.makeDirectory(`${ROOT}/${root}`);
  const segment = segmentBytes({ id: 4, base: 10, payloads: [PAYLOAD, PAYLOAD] });
  for (const root of [STREAM, `${STREAM}/dlq`]) put(files, segmentPath(4, `${ROOT}/${root}`), segment);
  put(files, `${ROOT}/quarantine/q-0000000000000000-corrupt_record_body-64-70.bin`, ascii("damage"));
  put(files, segmentPath(0, `${ROOT}/quarantine`), ascii("no log is looked for here"));
  return files;
}

function putCursor(files: FileSystem, root: string, group: string, committed: number): void {
  const slot = new Uint8Array(slotLength(CURSOR_CAPACITY));
  encodeSlot(slot, 1, encodeCursor({ committed, runs: [] }, codec), codec);
  put(files, `${root}/${groupCheckpointName("cursor", group)}`, join(new Uint8Array(slot.length), slot));
}

const salvage = { dataDirectory: ROOT, recovery: "salvage" } as const;

describe("scrub", () => {
  it("reads every log below the directory, and tells how far it is", () => {
    const files = directory();
    const seen: number[][] = [];
    const logs = scrub(files, codec, { ...salvage, progress: (...progress) => seen.push(progress) });
    expect(logs.map(({ root }) => root)).toEqual(["", STREAM, `${STREAM}/dlq`]);
    expect(damageOf(logs)).toMatchObject({ segments: 4, spans: [], lost: false, gaps: [] });
    const total = [
      segmentPath(0),
      segmentPath(1),
      segmentPath(4, `${ROOT}/${STREAM}`),
      segmentPath(4, `${ROOT}/${STREAM}/dlq`),
    ]
      .map((path) => files.stat(path)!.size)
      .reduce((sum, size) => sum + size);
    expect(seen.every(([done, of], index) => of === total && done <= of && done >= (seen[index - 1]?.[0] ?? 0))).toBe(
      true,
    );
    expect(seen.at(-1)).toEqual([total, total]);
  });

  it("counts loss and torn tail apart, each with the log that it is in", () => {
    const files = directory();
    flip(files, segmentPath(0), 64 + FRAME + 50);
    const stream = segmentPath(4, `${ROOT}/${STREAM}`);
    put(files, stream, segmentBytes({ id: 4, base: 10, payloads: [PAYLOAD], tail: ascii("torn") }));
    const before = tree(files);
    const damage = damageOf(scrub(files, codec, salvage));
    expect(damage).toMatchObject({
      dataLossSpans: 1,
      dataLossBytes: FRAME,
      tornTailBytes: 4,
      lost: true,
      gaps: [{ root: "", gap: { start: 1, end: 2 } }],
    });
    expect(damage.spans).toEqual([
      {
        root: "",
        event: {
          segmentId: 0,
          start: 64 + FRAME,
          end: 64 + 2 * FRAME,
          recordsLostEstimate: 1,
          reason: "CorruptRecordBody",
        },
      },
      {
        root: STREAM,
        event: { segmentId: 4, start: 64 + FRAME, end: 64 + FRAME + 4, recordsLostEstimate: 1, reason: "TornTail" },
      },
    ]);
    expect(tree(files)).toEqual(before);
  });

  it("a missing segment is a loss although no byte of it is left", () => {
    const files = directory();
    putSegment(files, { id: 1, base: 3, payloads: [PAYLOAD], sealed: true });
    putSegment(files, { id: 2, base: 4, payloads: [PAYLOAD] });
    files.remove(segmentPath(1));
    const damage = damageOf(scrub(files, codec, salvage));
    expect(damage).toMatchObject({ dataLossBytes: 0, lost: true, gaps: [{ root: "", gap: { start: 3, end: 4 } }] });
  });

  it("strict recovery refuses what it would refuse to open", () => {
    const files = directory();
    flip(files, segmentPath(0), 64 + FRAME + 50);
    expect(thrown(() => scrub(files, codec, { ...salvage, recovery: "strict" }))).toMatchObject({
      kind: "UnsealedPredecessor",
      message: "predecessor segment 0 is not sealed",
    });
  });

  it("an empty directory is a clean log without segments", () => {
    expect(damageOf(scrub(newFiles(), codec, salvage))).toMatchObject({ segments: 0, spans: [], lost: false });
  });
});

describe("verify", () => {
  it("checks every cursor against its own log, skips unreadable ones, and counts quarantined bytes", () => {
    const files = directory();
    putCursor(files, ROOT, "", 4);
    putCursor(files, ROOT, "ahead", 5);
    putCursor(files, `${ROOT}/${STREAM}`, "behind", 9);
    putCursor(files, `${ROOT}/${STREAM}`, "start", 10);
    put(files, `${ROOT}/${groupCheckpointName("cursor", "torn")}`, new Uint8Array(156).fill(0xee));
    const found = verify(files, codec, salvage);
    expect(found.cursors).toEqual([
      { root: "", group: "ahead", committed: 5, inRange: false },
      { root: "", group: "", committed: 4, inRange: true },
      { root: STREAM, group: "behind", committed: 9, inRange: false },
      { root: STREAM, group: "start", committed: 10, inRange: true },
    ]);
    expect(found).toMatchObject({ dlqRecords: 0, quarantineBytes: 6, layoutVersion: undefined });
  });
});

describe("the format version", () => {
  it("is the first segment's, read raw", () => {
    const files = directory();
    expect(formatVersion(files, codec, ROOT)).toBe(1);
    const bytes = segmentBytes({ id: 0, base: 0, payloads: [] });
    bytes[8] = 3;
    put(files, segmentPath(0), bytes);
    expect(formatVersion(files, codec, ROOT)).toBe(3);
    put(files, segmentPath(0), bytes.subarray(0, 63));
    expect(thrown(() => formatVersion(files, codec, ROOT)).kind).toBe("SegmentDecode");
    expect(formatVersion(newFiles(), codec, ROOT)).toBe(undefined);
  });

  it("is not told of a directory that no start opens: a restore that did not finish, a layout of the future", () => {
    for (const layout of [RESTORING_LAYOUT_VERSION, 2]) {
      const files = newFiles();
      writeLayoutMarker(files, ROOT, codec, layout);
      expect(thrown(() => formatVersion(files, codec, ROOT)).kind).toBe("IncompatibleLayoutVersion");
    }
  });
});
