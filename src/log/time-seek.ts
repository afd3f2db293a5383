import { type Codec, FIELD_TIMESTAMP, FIELDS } from "../runtime/codec.ts";
import { type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import type { Log } from "./log.ts";
import { timeIndexName } from "./names.ts";
import type { SegmentEntry } from "./segment-entry.ts";
import {
  decodeTimeIndex,
  encodeTimeIndex,
  lastEntryBefore,
  type TimeIndex,
  TimeIndexBuilder,
  timeIndexLength,
} from "./time-index.ts";
import { viewOf } from "./u64.ts";
import { readWhole, writeWhole } from "./whole-file.ts";

export interface TimeSeekWorld {
  readonly files: FileSystem;
  readonly codec: Codec;
  /** Of the log. */
  readonly root: string;
}

/**
 * Offset of the first visible record whose timestamp is `timestampMs` (u64, Unix ms) or later, the visible head when there
 * is none; the same as a look at every record would give. Runs to its end on this thread; see seekTimeSteps(). Throws
 * what Log.read throws.
 */
export function seekTime(log: Log, timestampMs: bigint, world: TimeSeekWorld): number {
  const steps = seekTimeSteps(log, timestampMs, world);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/**
 * seekTime() in steps of one read window each, for a caller with other things to do in between. The first search of a
 * sealed segment reads it once and leaves a time index beside it. Segments that are removed meanwhile are passed over: the
 * answer is never below the earliest offset.
 */
export function* seekTimeSteps(
  log: Log,
  timestampMs: bigint,
  { files, codec, root }: TimeSeekWorld,
): Generator<void, number> {
  const head = log.visibleHead;
  for (const segment of [...log.segments]) {
    const end = Math.min(segment.endOffset, head);
    let from = Math.max(segment.baseOffset, log.earliestOffset);
    // An index of records that are partly lost would not fit the ones that are left.
    if (segment.sealed && segment.holes.length === 0 && segment.count > 0) {
      const path = `${root}/${timeIndexName(segment.id)}`;
      let index = storedIndex(files, codec, path, segment);
      if (index === undefined) {
        const builder = new TimeIndexBuilder(identityOf(segment));
        for (let offset = from; offset < end; ) {
          const { next } = eachRecord(log, offset, end, head, (at, timestamp) => {
            builder.add(at, timestamp);
            return true;
          });
          yield;
          from = Math.max(from, log.earliestOffset);
          offset = Math.max(next, from);
        }
        index = builder.finish();
        if (mayStoreIndex(log, segment)) store(files, codec, root, path, index);
      }
      from = Math.max(from, lastEntryBefore(index, timestampMs));
    }
    while (from < end) {
      const { next, found } = eachRecord(log, from, end, head, (_, timestamp) => timestamp < timestampMs);
      if (found !== undefined) return found;
      yield;
      from = Math.max(next, log.earliestOffset);
    }
  }
  return Math.max(head, log.earliestOffset);
}

/** Not beside a segment whose removal has begun: nothing would ever remove the index. */
function mayStoreIndex(log: Log, segment: SegmentEntry): boolean {
  const stays = !segment.unlinked && log.segments.includes(segment);
  return stays && segment.holes.length === 0 && log.readOnly === undefined && log.isInPlace();
}

/** Visits the records of one window from `offset` on while `goOn`; lost ones are passed over. */
function eachRecord(
  log: Log,
  offset: number,
  end: number,
  head: number,
  goOn: (offset: number, timestampMs: bigint) => boolean,
): { next: number; found?: number } {
  const window = log.read(offset, head);
  if (window === undefined) return { next: log.gapAt(offset)?.end ?? offset + 1 };
  const view = viewOf(window.buffer);
  const windowEnd = Math.min(end, window.firstOffset + window.count);
  for (let at = offset; at < windowEnd; at++) {
    const row = (at - window.firstOffset) * FIELDS;
    if (!goOn(at, view.getBigUint64(window.rows[row + FIELD_TIMESTAMP], true))) return { next: at, found: at };
  }
  return { next: windowEnd };
}

function identityOf(segment: SegmentEntry): { segmentId: number; baseOffset: number; recordCount: number } {
  return { segmentId: segment.id, baseOffset: segment.baseOffset, recordCount: segment.count };
}

/** The index file of the segment, if it is one. */
function storedIndex(files: FileSystem, codec: Codec, path: string, segment: SegmentEntry): TimeIndex | undefined {
  try {
    const size = files.stat(path)?.size ?? 0;
    if (size === 0 || size > timeIndexLength(segment.count, 1)) return undefined;
    return decodeTimeIndex(readWhole(files, path, size), identityOf(segment), codec);
  } catch (error) {
    if (error instanceof FileSystemError) return undefined;
    throw error;
  }
}

/** Best effort: without the file the next search reads the segment again. */
function store(files: FileSystem, codec: Codec, root: string, path: string, index: TimeIndex): void {
  const bytes = encodeTimeIndex(index, codec);
  try {
    writeWhole(files, path, bytes);
    files.syncDirectory(root);
  } catch (error) {
    if (!(error instanceof FileSystemError)) throw error;
  }
}
