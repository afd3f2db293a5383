import { describe, expect, it } from "vitest";
import { Log } from "../../src/log/log.ts";
import type { LossEvent } from "../../src/log/loss-report.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import type { File } from "../../src/runtime/file-system.ts";
import type { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { codec, lcg, ROOT, segmentPath } from "./fixtures.ts";
import { TestLog } from "./open-log.ts";

const OPTIONS = { maxSegmentBytes: 2 * 1024 * 1024 };
const RECORD_BYTES = 16_000;
const HEADER_BYTES = 64;
const FOOTER_BYTES = 32;
/** One read of the walk: what it brought from behind the last record is looked at for its end as well. */
const WALK_READ_BYTES = 512 * 1024;

interface Range {
  readonly start: number;
  readonly end: number;
}

/** Every range that is read from now on, by path. */
function watchReads(files: SimulatedFileSystem): Map<string, Range[]> {
  const reads = new Map<string, Range[]>();
  const open = files.open.bind(files);
  files.open = (path, mode): File => {
    const file = open(path, mode);
    const read = file.read.bind(file);
    file.read = (buffer, offset, length, position) => {
      const count = read(buffer, offset, length, position);
      if (count > 0) reads.set(path, [...(reads.get(path) ?? []), { start: position, end: position + count }]);
      return count;
    };
    return file;
  };
  return reads;
}

/** How many bytes of [0, size) were read so and so often. */
function timesRead(ranges: readonly Range[], size: number): Record<number, number> {
  const bytes: Record<number, number> = {};
  const bounds = [...new Set([0, size, ...ranges.flatMap(({ start, end }) => [start, end])])].sort((a, b) => a - b);
  for (const [index, from] of bounds.slice(0, -1).entries()) {
    const times = ranges.filter(({ start, end }) => start <= from && from < end).length;
    bytes[times] = (bytes[times] ?? 0) + bounds[index + 1] - from;
  }
  return bytes;
}

/** The disk of a log with so many sealed segments and a last one that is about half full. */
async function stoppedLog(sealedSegments: number): Promise<SimulatedFileSystem> {
  const world = new TestLog(OPTIONS);
  const batch = Array.from({ length: 8 }, (_, index) => lcg(index, RECORD_BYTES));
  while (world.log.segments.length <= sealedSegments) world.commit(batch);
  for (let index = 0; index < 7; index++) world.commit(batch);
  expect(world.log.segments.length).toBe(sealedSegments + 1);
  await world.close();
  return world.files;
}

/** A log that was opened, and the losses that it told of later. */
function open(files: SimulatedFileSystem, fullScan: boolean): { log: Log; lost: LossEvent[] } {
  const lost: LossEvent[] = [];
  const log = Log.open(
    {
      ...OPTIONS,
      root: ROOT,
      maxPendingBytes: 4 * 1024 * 1024,
      durability: { level: "sync", flushIntervalMs: 1000, flushMaxBytes: 1024 * 1024 },
      fullScan,
    },
    { files, codec, clock: new SimulatedClock() },
    { advanced: () => {}, rejected: () => {}, froze: () => {}, lost: (_, losses) => lost.push(...losses) },
  );
  return { log, lost };
}

function segmentSizes(files: SimulatedFileSystem, count: number): number[] {
  return Array.from({ length: count }, (_, id) => files.stat(segmentPath(id))?.size as number);
}

describe("what opening a log reads (storage.md 12.1, 18.1)", () => {
  it("header and footer of a sealed segment, all of the last one, however long the log is", async () => {
    for (const sealed of [2, 5]) {
      const files = await stoppedLog(sealed);
      const sizes = segmentSizes(files, sealed + 1);
      const reads = watchReads(files);
      open(files, false);
      for (let id = 0; id < sealed; id++) {
        const times = timesRead(reads.get(segmentPath(id)) as Range[], sizes[id]);
        expect(times[0]).toBe(sizes[id] - HEADER_BYTES - FOOTER_BYTES);
      }
      const { 1: once, 2: twice, ...others } = timesRead(reads.get(segmentPath(sealed)) as Range[], sizes[sealed]);
      expect(once).toBeGreaterThan(0);
      expect(twice).toBeLessThanOrEqual(WALK_READ_BYTES + HEADER_BYTES + FOOTER_BYTES);
      expect(others).toEqual({});
    }
  });

  it("with fullScan every record once", async () => {
    const files = await stoppedLog(4);
    const sizes = segmentSizes(files, 5);
    const reads = watchReads(files);
    open(files, true);
    for (let id = 0; id < 4; id++) {
      const ranges = reads.get(segmentPath(id)) as Range[];
      const isBody = ({ start, end }: Range) => end > HEADER_BYTES && start < sizes[id] - FOOTER_BYTES;
      const bodyBytes = sizes[id] - HEADER_BYTES - FOOTER_BYTES;
      expect(timesRead(ranges.filter(isBody), sizes[id])).toEqual({ 0: HEADER_BYTES + FOOTER_BYTES, 1: bodyBytes });
    }
  });

  it("a flip in a sealed segment is told at opening with fullScan, and without it once it is read", async () => {
    const damaged = async (): Promise<SimulatedFileSystem> => {
      const files = await stoppedLog(3);
      files.flipBit(segmentPath(1), HEADER_BYTES + 500, 3);
      return files;
    };
    const found = open(await damaged(), true);
    const offset = found.log.segments[1].baseOffset;
    const gaps = [{ start: offset, end: offset + 1 }];
    expect(found.log.losses).toMatchObject([{ segmentId: 1, recordsLostEstimate: 1, reason: "CorruptRecordBody" }]);
    expect(found.log.gaps).toEqual(gaps);

    const { log, lost } = open(await damaged(), false);
    expect([log.losses, log.gaps, lost]).toEqual([[], [], []]);
    expect(log.read(offset, log.visibleHead)).toBeUndefined();
    expect(lost).toEqual(found.log.losses);
    expect(log.gaps).toEqual(gaps);
  });
});
