import { describe, expect, it } from "vitest";
import { ACCEPTED_LOSSES_FILE, unacceptedLosses, writeAcceptedLosses } from "../../src/log/accepted-losses.ts";
import type { LossEvent } from "../../src/log/loss-report.ts";
import { recoverLog } from "../../src/log/recovery.ts";
import { repair } from "../../src/offline/repair.ts";
import { damageOf } from "../../src/offline/scrub.ts";
import type { MemoryFileSystem } from "../../src/runtime/file-system-memory.ts";
import {
  ascii,
  codec,
  get,
  newFiles,
  put,
  putSegment,
  ROOT,
  segmentBytes,
  segmentPath,
  thrown,
  tree,
} from "../log/fixtures.ts";
import { newDisk } from "../log/open-log.ts";

const PAYLOAD = "x".repeat(456);
const FRAME = 500;
/** One record above is lost, two are not. */
const CAPS = { maxSegmentBytes: 600, fullScan: true };
const options = { dataDirectory: ROOT, recovery: "salvage" } as const;

/** Three sealed segments of four records and an open one; records 1 and 2 of the first and 2 of the second are bad. */
function damaged(): MemoryFileSystem {
  const files = newFiles();
  for (let id = 0; id < 3; id++) {
    putSegment(files, { id, base: id * 4, payloads: [PAYLOAD, PAYLOAD, PAYLOAD, PAYLOAD], sealed: true });
  }
  putSegment(files, { id: 3, base: 12, payloads: [PAYLOAD] });
  for (const [id, record] of [
    [0, 1],
    [0, 2],
    [1, 2],
  ]) {
    const bytes = get(files, segmentPath(id));
    bytes[64 + record * FRAME + 100] ^= 1;
    put(files, segmentPath(id), bytes);
  }
  return files;
}

const segmentsOf = (files: MemoryFileSystem) => [0, 1, 2, 3].map((id) => get(files, segmentPath(id)));

describe("repair", () => {
  it("README ruling 1: is the way out of a log that is read-only, without an edit of a sealed segment", () => {
    const files = damaged();
    const before = tree(files);
    expect(recoverLog(files, codec, ROOT, CAPS).readOnly).toMatchObject({ kind: "ExcessiveRecoveryLoss" });
    expect(tree(files)).toEqual(before);
    const segments = segmentsOf(files);

    const { logs, problems } = repair(files, codec, options);
    expect(problems).toEqual([]);
    expect(damageOf(logs)).toMatchObject({ dataLossBytes: 3 * FRAME, lost: true });
    expect(segmentsOf(files)).toEqual(segments);
    expect(files.list(`${ROOT}/quarantine`).length).toBeGreaterThan(0);
    expect(files.stat(`${ROOT}/${ACCEPTED_LOSSES_FILE}`)?.kind).toBe("file");

    const recovered = recoverLog(files, codec, ROOT, CAPS);
    expect(recovered.readOnly).toBe(undefined);
    expect(recovered.nextOffset).toBe(13);
    // Accepted is not forgotten.
    expect(damageOf(repair(files, codec, options).logs)).toMatchObject({ dataLossBytes: 3 * FRAME });
  });

  it("accepts what was found, and no damage that comes later", () => {
    const files = damaged();
    repair(files, codec, options);
    const bytes = get(files, segmentPath(2));
    for (const record of [0, 1]) bytes[64 + record * FRAME + 100] ^= 1;
    put(files, segmentPath(2), bytes);
    expect(recoverLog(files, codec, ROOT, CAPS).readOnly?.message).toContain(`would drop ${2 * FRAME} bytes total`);
    repair(files, codec, options);
    expect(recoverLog(files, codec, ROOT, CAPS).readOnly).toBe(undefined);
  });

  it("cuts the end of the log whatever its length, and accepts nothing there", () => {
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: ["m0"], tail: new Uint8Array(5000).fill(0x55) });
    expect(recoverLog(files, codec, ROOT, { maxSegmentBytes: 4096 }).readOnly).toBeDefined();
    repair(files, codec, options);
    expect(get(files, segmentPath(0))).toEqual(segmentBytes({ id: 0, base: 0, payloads: ["m0"] }));
    expect(files.list(`${ROOT}/quarantine`).length).toBe(1);
    expect(files.stat(`${ROOT}/${ACCEPTED_LOSSES_FILE}`)).toBe(undefined);
    expect(damageOf(repair(files, codec, options).logs)).toMatchObject({ spans: [] });
  });

  it("forgets what it had accepted once that is gone", () => {
    const files = damaged();
    repair(files, codec, options);
    for (const id of [0, 1]) files.remove(segmentPath(id));
    repair(files, codec, options);
    expect(files.stat(`${ROOT}/${ACCEPTED_LOSSES_FILE}`)).toBe(undefined);
  });

  it("goes through the logs beside the default one", () => {
    const files = damaged();
    files.makeDirectory(`${ROOT}/dlq`);
    put(files, segmentPath(0, `${ROOT}/dlq`), segmentBytes({ id: 0, base: 0, payloads: ["m0"], tail: ascii("torn") }));
    const { logs } = repair(files, codec, options);
    expect(damageOf(logs).spans.at(-1)).toMatchObject({ root: "dlq", event: { reason: "TornTail" } });
    expect(get(files, segmentPath(0, `${ROOT}/dlq`))).toEqual(segmentBytes({ id: 0, base: 0, payloads: ["m0"] }));
  });

  it("tells how far it is over all of its passes", () => {
    const files = damaged();
    const seen: [number, number][] = [];
    repair(files, codec, { ...options, progress: (done, total) => seen.push([done, total]) });
    const total = 3 * segmentsOf(files).reduce((sum, bytes) => sum + bytes.length, 0);
    expect(seen.every(([done, of]) => of === total && done <= total)).toBe(true);
    expect(seen.at(-1)).toEqual([total, total]);
  });

  it("refuses a directory that is in use, and in strict mode what recovery refuses, unchanged", () => {
    const files = damaged();
    const lock = files.lock(`${ROOT}/LOCK`)!;
    expect(thrown(() => repair(files, codec, options))).toMatchObject({
      kind: "LockHeld",
      message: "cannot repair /data: a broker holds its exclusive lock (stop the broker first)",
    });
    lock.release();
    const before = tree(files);
    expect(thrown(() => repair(files, codec, { ...options, recovery: "strict" })).kind).toBe("UnsealedPredecessor");
    expect(tree(files)).toEqual(before);
  });
});

describe("accepted losses", () => {
  const event = (start: number, end: number, segmentId = 1): LossEvent => ({
    segmentId,
    start,
    end,
    recordsLostEstimate: 1,
    reason: "CorruptRecordBody",
  });

  it("cover an event that lies within one of them, in the same segment", () => {
    const files = newFiles();
    const events = [event(100, 200), event(100, 201), event(99, 200), event(120, 130), event(100, 200, 2)];
    expect(unacceptedLosses(files, ROOT, events)).toEqual(events);
    writeAcceptedLosses(files, ROOT, [event(100, 200)]);
    expect(unacceptedLosses(files, ROOT, events)).toEqual([events[1], events[2], events[4]]);
    expect(unacceptedLosses(files, ROOT, [])).toEqual([]);
    writeAcceptedLosses(files, ROOT, []);
    expect(files.list(ROOT)).toEqual([]);
  });

  it("cover any number of events, each by one look", () => {
    const files = newFiles();
    const events = Array.from({ length: 60_000 }, (_, index) => event(100_000 + index * 1000, 100_128 + index * 1000));
    writeAcceptedLosses(files, ROOT, events);
    expect(unacceptedLosses(files, ROOT, events)).toEqual([]);
    const longer = { ...events[30_000], end: events[30_000].end + 1 };
    expect(unacceptedLosses(files, ROOT, [...events.slice(0, 100), longer])).toEqual([longer]);
  });

  it("none are left after a power cut once they are taken back, though an earlier repair was killed before its barrier", () => {
    const killed = newDisk();
    writeAcceptedLosses(killed, ROOT, [
      { segmentId: 0, start: 0, end: 100, recordsLostEstimate: 1, reason: "CorruptRecordBody" },
    ]);
    let next = killed;
    killed.onOperation = (operation) => {
      if (operation === "remove") next = killed.kill({ turns: "manual" });
    };
    expect(() => writeAcceptedLosses(killed, ROOT, [])).toThrow();
    writeAcceptedLosses(next, ROOT, []);
    expect(next.imageAfterPowerCut({ style: "lost" }).stat(`${ROOT}/${ACCEPTED_LOSSES_FILE}`)).toBeUndefined();
  });

  it("a file that is none of ours accepts nothing", () => {
    const files = newFiles();
    for (const text of ["", "{}", '{"schema_version":2,"events":[]}', '{"schema_version":1,"events":[{}]}', "\u0000"]) {
      put(files, `${ROOT}/${ACCEPTED_LOSSES_FILE}`, ascii(text));
      expect(unacceptedLosses(files, ROOT, [event(1, 2)])).toEqual([event(1, 2)]);
    }
    put(files, `${ROOT}/${ACCEPTED_LOSSES_FILE}`, new Uint8Array(65 * 1024 * 1024).fill(0x20));
    expect(unacceptedLosses(files, ROOT, [event(1, 2)])).toEqual([event(1, 2)]);
  });
});
