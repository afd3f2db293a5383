import type { Clock } from "../runtime/clock.ts";
import type { Codec } from "../runtime/codec.ts";
import type { FileSystem, FileSystemError } from "../runtime/file-system.ts";
import type { Counters } from "./counters.ts";
import type { Gap } from "./gap.ts";
import { gapAround, gapsOf } from "./gap-list.ts";
import { holeOf, lossOf } from "./log-survey.ts";
import type { LossEvent } from "./loss-report.ts";
import { keepEvidence } from "./quarantine.ts";
import { type DamageWatch, LogReader, type Window } from "./reader.ts";
import { type RecoveredLog, recoverLog } from "./recovery.ts";
import type { RecoveryMode } from "./recovery-plan.ts";
import type { Refusal } from "./refusal.ts";
import { SEGMENT_HEADER_LENGTH } from "./segment.ts";
import { SegmentEntry } from "./segment-entry.ts";
import type { RemovalDone } from "./segment-removal.ts";
import { LogWriter } from "./writer.ts";
import type { WriterEvents, WriterOptions } from "./writer-options.ts";

export interface LogOptions extends WriterOptions {
  /** Default `salvage`. */
  readonly recovery?: RecoveryMode;
  /** Every record is read and checked when the log is opened. Default false. */
  readonly fullScan?: boolean;
}

export interface LogEvents extends WriterEvents {
  /** Damage was met while reading and became gaps; the readers that wait for one of its offsets should ask again. */
  lost?(gaps: readonly Gap[], losses: readonly LossEvent[]): void;
}

/** Of `Log.gaps`: enough to show. */
const MAX_LISTED_GAPS = 4096;

/**
 * A log that is open: one writer, readers of what is visible. Offsets are numbers from the earliest retained one on; those
 * whose records are lost lie in gaps.
 */
export class Log {
  /** Why nothing on the disk is changed: recovery would lose more than a cap allows (README ruling 1). */
  readonly readOnly: Error | undefined;
  /** What opening found lost or cut off (storage.md 19). */
  readonly losses: readonly LossEvent[];
  /** Those of them whose bytes are in quarantine now. */
  readonly quarantined: readonly LossEvent[];
  /** How many of these no earlier opening has reported. */
  readonly repairs: number;
  /** Steps of opening that failed without harm: layout marker, quarantine copy, report file. */
  readonly problems: readonly FileSystemError[];
  /** Files in the root that are named as segments and cannot be any. */
  readonly foreign: readonly string[];
  readonly #writer: LogWriter;
  readonly #reader: LogReader;
  /** Where the log went on when it was opened, which may be behind its last segment. */
  readonly #endOffset: number;

  private constructor(writer: LogWriter, reader: LogReader, recovered: RecoveredLog) {
    this.#writer = writer;
    this.#reader = reader;
    this.#endOffset = recovered.nextOffset;
    this.readOnly = recovered.readOnly;
    this.losses = recovered.losses;
    this.quarantined = recovered.quarantined;
    this.repairs = recovered.repairs;
    this.problems = recovered.problems;
    this.foreign = recovered.foreign;
  }

  /**
   * Recovers the log in `options.root` and makes it ready for appends (storage.md 14, 18), unless its losses are above a cap:
   * then it is `readOnly` and frozen. Throws StorageError when the directory holds what this build cannot read (in mode
   * `strict` also when it cannot be trusted), FileSystemError when it cannot be used.
   */
  static open(
    options: LogOptions,
    world: { readonly files: FileSystem; readonly codec: Codec; readonly clock: Clock },
    events: LogEvents,
  ): Log {
    const { files, codec, clock } = world;
    const { root, maxSegmentBytes, recovery, fullScan } = options;
    const recovered = recoverLog(files, codec, root, { maxSegmentBytes, recovery, fullScan });
    const { readOnly } = recovered;
    const segments = recovered.segments.map((info) => {
      const entry = new SegmentEntry(info.id, info.path, info.baseOffset, info.baseSequence, SEGMENT_HEADER_LENGTH);
      entry.createdUnixMs = info.createdUnixMs ?? 0;
      entry.count = info.recordCount;
      entry.end = info.endPosition;
      entry.visibleEnd = info.endPosition;
      entry.sealed = true;
      entry.holes = info.holes;
      return entry;
    });
    if (recovered.resumable && readOnly === undefined) segments[segments.length - 1].sealed = false;
    const writer = new LogWriter(
      options,
      {
        segments,
        nextSegmentId: recovered.nextSegmentId,
        nextOffset: recovered.nextOffset,
        nextSequence: recovered.nextSequence,
        readOnly,
      },
      files,
      codec,
      clock,
      events,
    );
    const watch: DamageWatch = {
      get visibleHead() {
        return writer.visibleHead;
      },
      get diskFailed() {
        return writer.frozen !== undefined && readOnly === undefined;
      },
      isInPlace: () => writer.isInPlace(),
      found: ({ id, path, baseOffset, baseSequence }, spans) => {
        const losses = spans.map((span) => lossOf(span, id));
        if (readOnly === undefined && writer.isInPlace()) keepEvidence(files, root, path, losses);
        const gaps = spans.map((span) => holeOf(span, baseOffset - baseSequence));
        events.lost?.(gaps, losses);
      },
    };
    return new Log(writer, new LogReader(writer.segments, files, codec, watch, writer.tailCache), recovered);
  }

  /** Offsets whose records are lost, as far as it is known now: sorted, disjoint, the first 4096. */
  get gaps(): readonly Gap[] {
    return gapsOf(this.#writer.segments, this.#goesOnAt, MAX_LISTED_GAPS);
  }

  /** The whole gap that `offset` lies in, undefined when its record is not known to be lost. */
  gapAt(offset: number): Gap | undefined {
    return gapAround(this.#writer.segments, offset, this.#goesOnAt);
  }

  get #goesOnAt(): number {
    return Math.max(this.#endOffset, this.#writer.visibleHead);
  }

  get nextOffset(): number {
    return this.#writer.nextOffset;
  }

  /** Exclusive bound of what consumers may see and publishers may be told. */
  get visibleHead(): number {
    return this.#writer.visibleHead;
  }

  /** Exclusive bound of what a completed barrier covers. */
  get durableHead(): number {
    return this.#writer.durableHead;
  }

  get earliestOffset(): number {
    return this.#writer.segments[0]?.baseOffset ?? this.#writer.visibleHead;
  }

  /** See LogWriter.hasRoom. */
  get hasRoom(): boolean {
    return this.#writer.hasRoom;
  }

  get maxBodyBytes(): number {
    return this.#writer.maxBodyBytes;
  }

  /** See LogWriter.batchStartedMs. */
  get batchStartedMs(): number | undefined {
    return this.#writer.batchStartedMs;
  }

  get frozen(): Error | undefined {
    return this.#writer.frozen;
  }

  /** See LogWriter.refusal. */
  get refusal(): Refusal | undefined {
    return this.#writer.refusal;
  }

  /** See WriterOptions.counters. */
  get counters(): Counters {
    return this.#writer.counters;
  }

  /** Acknowledged by a relaxed durability level and not yet covered by a barrier, record bytes. */
  get unsyncedBytes(): number {
    return this.#writer.unsyncedBytes;
  }

  /** See LogWriter.written. */
  get written(): LogWriter["written"] {
    return this.#writer.written;
  }

  /** Oldest first; the last one is written to unless it is sealed. To be read only. */
  get segments(): readonly SegmentEntry[] {
    return this.#writer.segments;
  }

  /**
   * Removes the `count` oldest segments, as many as are sealed and not the last (storage.md 14.5): `done` is called once
   * their removal is durable, or with what kept it. False, and `done` is not called, when nothing was begun: another removal
   * runs, nothing can go, or the log is frozen.
   */
  removeOldest(count: number, done: RemovalDone): boolean {
    return this.#writer.removeOldest(count, (segment) => this.#reader.forget(segment), done);
  }

  /** See LogWriter.isInPlace. */
  isInPlace(): boolean {
    return this.#writer.isInPlace();
  }

  /** See LogWriter.append. */
  append(chunk: Uint8Array, table: Int32Array, first: number, end: number): number {
    return this.#writer.append(chunk, table, first, end);
  }

  /** See LogWriter.pump. */
  pump(): void {
    this.#writer.pump();
  }

  tick(): void {
    this.#writer.tick();
  }

  /** See LogReader.window. Undefined: `gapAt(offset)` tells how far the gap goes. */
  read(offset: number, visibleHead: number): Window | undefined {
    return this.#reader.window(offset, visibleHead);
  }

  /** Writes and syncs everything appended; the log must not be used afterwards. */
  close(): Promise<void> {
    this.#reader.close();
    return this.#writer.close();
  }
}
