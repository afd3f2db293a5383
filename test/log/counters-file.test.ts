import { describe, expect, it } from "vitest";
import { encodeSlot, slotLength } from "../../src/log/checkpoint-slots.ts";
import { Counters, type Opening, recoveryOutcome } from "../../src/log/counters.ts";
import { CountersFile } from "../../src/log/counters-file.ts";
import { type LossEvent, writeLossReport } from "../../src/log/loss-report.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { codec, put, ROOT, tree } from "./fixtures.ts";

const PATH = `${ROOT}/counters.ckpt`;
const CLEAN = { losses: [], quarantined: [], repairs: 0, lossEnd: 0 };
const TORN: LossEvent = { segmentId: 0, start: 64, end: 164, recordsLostEstimate: 0, reason: "TornTail" };
const ROTTEN: LossEvent = { segmentId: 1, start: 64, end: 128, recordsLostEstimate: 2, reason: "CorruptRecordBody" };
const UNBORN: LossEvent = { segmentId: 2, start: 0, end: 0, recordsLostEstimate: 0, reason: "CorruptSegmentHeader" };
const MISSING: LossEvent = { segmentId: 3, start: 0, end: 0, recordsLostEstimate: 9, reason: "SequenceGap" };

function newDisk(): SimulatedFileSystem {
  const files = new SimulatedFileSystem({ turns: "manual" });
  files.makeDirectory(ROOT);
  files.syncDirectory("/");
  return files;
}

function open(files: SimulatedFileSystem, opening: Omit<Opening, "report"> = CLEAN, readOnly = false) {
  const counters = new Counters();
  const file = new CountersFile(counters, opening, { files, codec, queue: files.createQueue(), root: ROOT, readOnly });
  return { counters, file };
}

function putPayload(files: SimulatedFileSystem, payload: Uint8Array): void {
  const bytes = new Uint8Array(2 * slotLength(256));
  encodeSlot(bytes.subarray(slotLength(256)), 1, payload, codec);
  put(files, PATH, bytes);
}

function payloadOf(...values: number[]): Uint8Array {
  const payload = new Uint8Array(1 + values.length * 8);
  payload[0] = 1;
  const view = new DataView(payload.buffer);
  for (const [index, value] of values.entries()) view.setBigUint64(1 + index * 8, BigInt(value), true);
  return payload;
}

describe("counters.ckpt", () => {
  it("is there from the first opening on, durable, and carries the values over", async () => {
    let files = newDisk();
    const first = open(files);
    files.runAll();
    files = files.cutPower({ style: "lost" });
    expect(files.stat(PATH)?.size).toBe(540);
    const second = open(files);
    expect([first.counters.runsClean, second.counters.runsClean]).toEqual([1, 2]);
    second.counters.produced = 7;
    second.counters.filtered = 3;
    const closed = second.file.close();
    files.runAll();
    await closed;
    const { counters } = open(files.cutPower({ style: "lost" }));
    expect([counters.produced, counters.filtered, counters.runsClean]).toEqual([7, 3, 3]);
  });

  it("README ruling 4: the order of the fields", () => {
    const files = newDisk();
    putPayload(files, payloadOf(...Array.from({ length: 28 }, (_, index) => index + 1)));
    const { counters } = open(files);
    const inOrder = [
      counters.produced,
      counters.producedBytes,
      counters.produceRejected,
      counters.delivered,
      counters.redelivered,
      counters.deadLettered,
      counters.truncations,
      counters.truncatedRecords,
      counters.acks,
      counters.segmentsReaped,
      counters.segmentsForceReaped,
      counters.recordsSkipped,
      counters.bytesSkipped,
      counters.lastSkipOffset,
      counters.checkpointRepairs,
      counters.dedupHits,
      counters.dedupOutOfWindow,
      counters.runsClean - 1,
      counters.runsTornTailTruncated,
      counters.runsQuarantined,
      counters.runsDataLoss,
      counters.tornTailRepairs,
      counters.segmentRepairs,
      counters.cursorRepairs,
      counters.deadLetterRepairs,
      counters.expired,
      counters.producerOutOfOrder,
      counters.filtered,
    ];
    expect(inOrder).toEqual(Array.from({ length: 28 }, (_, index) => index + 1));
    expect(counters.encode().length).toBe(1 + 28 * 8);
  });

  it.each([
    ["17 fields", payloadOf(...Array(17).fill(5)), 5, 0],
    ["31 fields, as many as there is room for", payloadOf(...Array(31).fill(5)), 5, 5],
    ["version 9", new Uint8Array([9, ...payloadOf(5).subarray(1)]), 5, 0],
    ["an empty payload", new Uint8Array(0), 0, 0],
  ])("observability.md 13.34: %s is no error", (_name, payload, produced, filtered) => {
    const files = newDisk();
    putPayload(files, payload);
    const { counters } = open(files);
    expect([counters.produced, counters.filtered]).toEqual([produced, filtered]);
    expect(counters.checkpointRepairs).toBe(payload.length > 100 ? 5 : 0);
  });

  it("observability.md 13.34: 40 fields decode", () => {
    const counters = new Counters();
    counters.restore(payloadOf(...Array(40).fill(4)));
    expect([counters.produced, counters.filtered]).toEqual([4, 4]);
  });

  it.each([
    ["torn", new Uint8Array(100).fill(7)],
    ["zeroed", new Uint8Array(540)],
    ["rotten", new Uint8Array(540).fill(7)],
  ])("a %s file counts from zero and is written anew", (_name, bytes) => {
    const files = newDisk();
    put(files, PATH, bytes);
    const { counters } = open(files);
    expect(counters.produced).toBe(0);
    files.runAll();
    expect(open(files.cutPower({ style: "lost" })).counters.runsClean).toBe(2);
  });

  it("is saved five seconds after something was counted, and not without", () => {
    const files = newDisk();
    const { counters, file } = open(files);
    files.runAll();
    const operations = files.operations;
    for (let nowMs = 0; nowMs < 60_000; nowMs += 250) file.tick(nowMs);
    expect(files.operations).toBe(operations);
    counters.acks = 5;
    for (let nowMs = 60_000; nowMs < 65_000; nowMs += 250) file.tick(nowMs);
    expect(files.operations).toBe(operations);
    file.tick(65_000);
    files.runAll();
    expect(open(files.cutPower({ style: "lost" })).counters.acks).toBe(5);
  });

  it("storage.md 8.4: a save that fails stops nothing, and the next one is tried", async () => {
    const files = newDisk();
    const { counters, file } = open(files);
    files.runAll();
    files.fail({ operation: "write", code: "EIO" });
    counters.acks = 1;
    file.tick(0);
    file.tick(5_000);
    files.runAll();
    files.clearFaults();
    counters.acks = 2;
    const closed = file.close();
    files.runAll();
    await closed;
    expect(open(files).counters.acks).toBe(2);
  });

  it("a disk that is full, or a file that cannot be read, does not keep a broker from starting", () => {
    const full = newDisk();
    full.limitSpace(0);
    expect(open(full).counters.runsClean).toBe(1);
    const unreadable = newDisk();
    putPayload(unreadable, payloadOf(5));
    unreadable.fail({ operation: "open", path: /counters/, code: "EACCES", times: 10 });
    expect(open(unreadable).counters.produced).toBe(0);
  });

  it("a directory that was opened read-only stays as it is", async () => {
    const files = newDisk();
    putPayload(files, payloadOf(5));
    const before = tree(files);
    const { counters, file } = open(files, CLEAN, true);
    expect(counters.produced).toBe(5);
    counters.acks = 1;
    file.tick(0);
    file.tick(100_000);
    await file.close();
    expect(tree(files)).toEqual(before);
    const untouched = newDisk();
    open(untouched, CLEAN, true);
    expect(untouched.stat(PATH)).toBeUndefined();
  });
});

describe("losses", () => {
  it.each([
    ["clean", [], []],
    ["torn_tail_truncated", [TORN], []],
    ["torn_tail_truncated", [UNBORN], []],
    ["quarantined", [TORN, ROTTEN], [ROTTEN]],
    ["data_loss", [TORN, ROTTEN], []],
    ["data_loss", [ROTTEN, MISSING], [ROTTEN]],
  ] as const)("observability.md 2.2: outcome %s", (outcome, losses, quarantined) => {
    expect(recoveryOutcome({ losses, quarantined })).toBe(outcome);
  });

  it("observability.md 2.6: the loss report raises what the saved counters do not know, once", () => {
    const files = newDisk();
    const losses = [TORN, ROTTEN];
    writeLossReport(files, ROOT, losses);
    const { counters } = open(files, { losses, quarantined: [ROTTEN], repairs: 1, lossEnd: 40 });
    const values = (of: Counters) => [of.recordsSkipped, of.bytesSkipped, of.lastSkipOffset, of.checkpointRepairs];
    expect(values(counters)).toEqual([2, 164, 40, 1]);
    expect([counters.runsQuarantined, counters.tornTailRepairs, counters.segmentRepairs]).toEqual([1, 1, 1]);
    files.runAll();
    // The report stays on disk and is not news any more.
    expect(values(open(files, { ...CLEAN, lossEnd: 90 }).counters)).toEqual([2, 164, 40, 1]);
  });

  it("observability.md 13.33: without the counters, the report on disk is still known", () => {
    const files = newDisk();
    writeLossReport(files, ROOT, [ROTTEN]);
    open(files, { losses: [ROTTEN], quarantined: [ROTTEN], repairs: 1, lossEnd: 40 });
    files.runAll();
    files.remove(PATH);
    const { counters } = open(files, { ...CLEAN, lossEnd: 50 });
    expect([counters.recordsSkipped, counters.bytesSkipped, counters.checkpointRepairs]).toEqual([2, 64, 1]);
    expect(counters.lastSkipOffset).toBe(50);
  });

  it.each(["", "{", '{"schema_version":2,"events":[]}', '{"schema_version":1,"events":[{}]}'])(
    "a report that is none is passed over: %j",
    (text) => {
      const files = newDisk();
      put(files, `${ROOT}/recovery-report.json`, new TextEncoder().encode(text));
      expect(open(files).counters.checkpointRepairs).toBe(0);
    },
  );

  it("damage met while running adds up, and is not new when the next process meets it again", () => {
    const counters = new Counters();
    counters.opened({ ...CLEAN, losses: [TORN], report: { bytes: 100, records: 0 } });
    counters.lost([ROTTEN], 30);
    counters.lost([MISSING], 20);
    const values = (of: Counters) => [of.recordsSkipped, of.bytesSkipped, of.lastSkipOffset];
    expect(values(counters)).toEqual([11, 164, 30]);
    const next = new Counters();
    next.restore(counters.encode());
    next.opened({ ...CLEAN, report: { bytes: 100, records: 0 } });
    next.lost([ROTTEN], 30);
    expect(values(next)).toEqual([11, 164, 30]);
    expect(next.checkpointRepairs).toBe(counters.checkpointRepairs);
  });

  it("an opening that may not write its report counts its losses all the same", () => {
    const files = newDisk();
    const { counters } = open(files, { losses: [ROTTEN], quarantined: [], repairs: 0, lossEnd: 9 }, true);
    expect([counters.recordsSkipped, counters.bytesSkipped, counters.runsDataLoss]).toEqual([2, 64, 1]);
  });
});
