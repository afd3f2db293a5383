import { CURSOR_CAPACITY, decodeCursor } from "../../src/log/checkpoint-payloads.ts";
import { readCheckpoint } from "../../src/log/checkpoint-slots.ts";
import { LOSS_REASONS, type LossEvent, skippedBytes } from "../../src/log/loss-report.ts";
import { parseGroupCheckpointName, segmentName } from "../../src/log/names.ts";
import { readLog } from "../../src/log/offline-reader.ts";
import { type RecoveredLog, recoverLog } from "../../src/log/recovery.ts";
import { SEGMENT_FOOTER_LENGTH } from "../../src/log/segment.ts";
import type { Codec } from "../../src/runtime/codec.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import type { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { type Content, contentOfParts, sameContent } from "./contents.ts";
import type { Model } from "./model.ts";
import type { End } from "./process.ts";
import { ROOT, type Setup } from "./setup.ts";
import { digestOf, readFile } from "./tree.ts";
import { demand } from "./violation.ts";

export interface Examiner {
  readonly setup: Setup;
  readonly codec: Codec;
  /** The file system as the broker sees it. */
  readonly seenBy: (files: SimulatedFileSystem) => FileSystem;
}

/**
 * Looks at the disk that a process left, on copies of it, and holds it against the model: storage.md 23, I1 to I6. After a
 * power cut the model then goes on from what is there. Throws Violation.
 */
export function examine(end: End, model: Model, examiner: Examiner): void {
  const { setup, codec, seenBy } = examiner;
  const found = copyOf(end.files);
  if (found.stat(ROOT) === undefined) {
    demand(model.durable === 0, "I2", () => "the data directory is gone");
    if (end.kind === "cut") model.recovered(0, 0, true);
    return;
  }
  const before = digestOf(found);
  const offline = readOffline(found, codec);
  demand(digestOf(found) === before, "18.4", () => "reading the stopped log changed it");

  // I4: the same bytes give the same result, and a second recovery finds nothing to do.
  const first = copyOf(found);
  const second = copyOf(found);
  const recovered = recover(seenBy(first), examiner);
  const again = recover(seenBy(second), examiner);
  demand(JSON.stringify(recovered) === JSON.stringify(again), "I4", () => "two recoveries of one disk differ");
  const after = digestOf(first);
  demand(digestOf(second) === after, "I4", () => "two recoveries of one disk leave different bytes");
  checkLosses(end, recovered.losses, setup);
  demand(recovered.gaps.length === 0, "I3", () => `gaps: ${JSON.stringify(recovered.gaps)}`);
  demand(recovered.readOnly === undefined, "19", () => `read-only: ${recovered.readOnly?.message}`);
  const repeated = recover(seenBy(first), examiner);
  demand(digestOf(first) === after, "I4", () => "a second recovery changes the disk");
  demand(repeated.losses.length === 0, "I4", () => `a second recovery loses more: ${JSON.stringify(repeated.losses)}`);
  demand(sameExtent(recovered, repeated), "I4", () => "a second recovery finds other records");

  // What recovery found is visible at once: no power cut may take it any more.
  const cut = first.imageAfterPowerCut({ style: "lost", seed: 1, turns: "manual" });
  demand(sameExtent(recovered, recover(seenBy(cut), examiner)), "I2", () => "a power cut undoes a recovery");
  demand(sameRecords(offline, readOffline(first, codec)), "18.4", () => "recovery and the offline reader differ");
  demand(sameRecords(offline, readOffline(cut, codec)), "I2", () => "a power cut after recovery changes records");

  checkRecords(end, model, recovered, offline);
  checkCursors(found, model, recovered, codec);
  if (end.kind === "cut") model.recovered(recovered.earliestOffset, recovered.nextOffset, true);
}

/** A disk at rest with the same bytes. */
function copyOf(files: SimulatedFileSystem): SimulatedFileSystem {
  return files.copyAsSeen({ seed: 1, turns: "manual" });
}

function recover(files: FileSystem, { codec, setup }: Examiner): RecoveredLog {
  return recoverLog(files, codec, ROOT, { maxSegmentBytes: setup.maxSegmentBytes, recovery: "salvage" });
}

function sameExtent(left: RecoveredLog, right: RecoveredLog): boolean {
  const extent = ({ segments, nextOffset, nextSequence }: RecoveredLog): string =>
    JSON.stringify([segments.map((each) => [each.id, each.baseOffset, each.recordCount]), nextOffset, nextSequence]);
  return extent(left) === extent(right);
}

interface StoredRecord {
  readonly offset: number;
  readonly sequence: number;
  readonly content: Content;
}

function readOffline(files: FileSystem, codec: Codec): StoredRecord[] {
  const records: StoredRecord[] = [];
  for (const record of readLog(files, codec, ROOT)) {
    const { offset, sequence, flags } = record;
    const content = contentOfParts(flags, record.key.slice(), record.headers.slice(), record.payload.slice(), codec);
    records.push({ offset, sequence, content });
  }
  return records;
}

function sameRecords(left: readonly StoredRecord[], right: readonly StoredRecord[]): boolean {
  return (
    left.length === right.length &&
    left.every((record, index) => {
      const other = right[index];
      return record.offset === other.offset && sameContent(record.content, other.content);
    })
  );
}

function checkRecords(end: End, model: Model, recovered: RecoveredLog, records: readonly StoredRecord[]): void {
  const { earliestOffset, nextOffset } = recovered;
  demand(records.length === nextOffset - earliestOffset, "I1", () => {
    return `${records.length} records are there, recovery says [${earliestOffset}, ${nextOffset})`;
  });
  for (const [index, { offset, sequence, content }] of records.entries()) {
    demand(offset === earliestOffset + index, "I1", () => `offset ${offset} follows ${earliestOffset + index - 1}`);
    demand(sequence === offset, "I5", () => `offset ${offset} has sequence ${sequence}`);
    model.seen(offset, content);
  }
  const floor = end.kind === "cut" ? model.durable : model.visible;
  demand(nextOffset >= floor, "I2", () => `the log ends at ${nextOffset} after a ${end.kind}, ${floor} was promised`);
  demand(nextOffset <= model.next, "I5", () => `the log ends at ${nextOffset}, ${model.next} was never reached`);
  demand(earliestOffset >= model.removedBelow, "I5", () => {
    return `the log begins at ${earliestOffset}, everything below ${model.removedBelow} was removed`;
  });
  demand(earliestOffset <= Math.max(model.removedBelow, model.removingBelow), "I1", () => {
    return `the log begins at ${earliestOffset}, nothing from ${model.removingBelow} on was to be removed`;
  });
}

/** I3: a healthy disk loses nothing but the unsynced end of the last segment. */
function checkLosses(end: End, losses: readonly LossEvent[], setup: Setup): void {
  for (const loss of losses) {
    const text = `${JSON.stringify(loss)} after a ${end.kind}`;
    const bytes = skippedBytes(loss);
    if (loss.reason === "CorruptSegmentHeader") {
      demand(bytes === 0, "I3", () => `a segment with content lost its header: ${text}`);
      continue;
    }
    const path = `${ROOT}/${segmentName(loss.segmentId)}`;
    demand(LOSS_REASONS[loss.reason].code <= 3, "I3", () => `no power cut leaves this: ${text}`);
    // A segment can overshoot by its last record, which is smaller than a segment.
    demand(bytes < 2 * setup.maxSegmentBytes + SEGMENT_FOOTER_LENGTH, "I3", () => `more than a segment: ${text}`);
    if (!end.started || end.disturbed) continue;
    demand(end.cached.stat(path) !== undefined, "I3", () => `of a segment that was not there: ${text}`);
    // What an earlier recovery cut off must not be back.
    const cached = readFile(end.cached, path);
    let written = cached.length;
    while (written > 0 && cached[written - 1] === 0) written--;
    demand(loss.end <= written, "I3", () => `only ${written} bytes were ever written: ${text}`);
  }
  if (!end.started || end.disturbed || losses.every((loss) => skippedBytes(loss) === 0)) return;
  demand(digestOf(end.cached) !== digestOf(end.durableOnly), "I3", () => {
    return `everything was synced, and yet: ${JSON.stringify(losses)}`;
  });
}

/** I5b, and that what was saved stays. */
function checkCursors(files: FileSystem, model: Model, recovered: RecoveredLog, codec: Codec): void {
  const seen = new Set<string>();
  for (const { name } of files.list(ROOT)) {
    const parsed = parseGroupCheckpointName(name);
    if (parsed?.kind !== "cursor") continue;
    const content = readCheckpoint(files, `${ROOT}/${name}`, CURSOR_CAPACITY, codec);
    const damaged = content?.state === "damaged" && model.syncedCheckpoints.has(`${ROOT}/${name}`);
    demand(!damaged, "I4", () => `checkpoint ${name} is damaged`);
    const cursor = content?.payload === undefined ? undefined : decodeCursor(content.payload, codec);
    if (cursor === undefined) continue;
    seen.add(parsed.group);
    const { settled, savedFloor } = model.group(parsed.group);
    const committed = Math.min(cursor.committed, recovered.nextOffset);
    demand(committed >= Math.min(savedFloor, recovered.nextOffset), "I4", () => {
      return `group ${JSON.stringify(parsed.group)} is back at ${committed}, ${savedFloor} was saved`;
    });
    for (const { start, end } of [{ start: recovered.earliestOffset, end: committed }, ...cursor.runs]) {
      for (let offset = start; offset < Math.min(end, recovered.nextOffset); offset++) {
        demand(settled.has(offset), "I5b", () => {
          return `group ${JSON.stringify(parsed.group)} is at ${cursor.committed}, nobody settled ${offset}`;
        });
      }
    }
  }
  for (const [name, { savedFloor }] of model.groups) {
    demand(savedFloor === 0 || seen.has(name), "I4", () => `group ${JSON.stringify(name)} lost its checkpoint`);
  }
}
