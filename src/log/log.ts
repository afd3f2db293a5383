import type { Clock } from "../runtime/clock.ts";
import type { Codec } from "../runtime/codec.ts";
import type { FileSystem, FileSystemError } from "../runtime/file-system.ts";
import type { Counters } from "./counters.ts";
import type { LossEvent } from "./loss-report.ts";
import { LogReader, type Window } from "./reader.ts";
import { type RecoveredLog, recoverLog } from "./recovery.ts";
import type { Refusal } from "./refusal.ts";
import { SEGMENT_HEADER_LENGTH } from "./segment.ts";
import { SegmentEntry } from "./segment-entry.ts";
import type { RemovalDone } from "./segment-removal.ts";
import { LogWriter, type WriterEvents, type WriterOptions } from "./writer.ts";

export type LogOptions = WriterOptions;
export type LogEvents = WriterEvents;

/** A log that is open: one writer, readers of what is visible. Offsets are numbers, dense from the earliest retained one. */
export class Log {
  /** What opening had to cut off (storage.md 19). */
  readonly losses: readonly LossEvent[];
  /** Those of them whose bytes are in quarantine now. */
  readonly quarantined: readonly LossEvent[];
  /** Steps of opening that failed without harm: layout marker, quarantine copy, report file. */
  readonly problems: readonly FileSystemError[];
  readonly #writer: LogWriter;
  readonly #reader: LogReader;

  private constructor(writer: LogWriter, reader: LogReader, recovered: RecoveredLog) {
    this.#writer = writer;
    this.#reader = reader;
    this.losses = recovered.losses;
    this.quarantined = recovered.quarantined;
    this.problems = recovered.problems;
  }

  /**
   * Recovers the log in `options.root` and makes it ready for appends (storage.md 14, 18). Throws StorageError when the
   * directory cannot be trusted, FileSystemError when it cannot be used.
   */
  static open(
    options: LogOptions,
    world: { readonly files: FileSystem; readonly codec: Codec; readonly clock: Clock },
    events: LogEvents,
  ): Log {
    const { files, codec, clock } = world;
    const recovered = recoverLog(files, codec, options.root, { maxSegmentBytes: options.maxSegmentBytes });
    const segments = recovered.segments.map((info) => {
      const entry = new SegmentEntry(info.id, info.path, info.baseOffset, info.baseSequence, SEGMENT_HEADER_LENGTH);
      entry.createdUnixMs = info.createdUnixMs ?? 0;
      entry.count = info.recordCount;
      entry.end = info.endPosition;
      entry.visibleEnd = info.endPosition;
      entry.sealed = info.sealed;
      return entry;
    });
    const writer = new LogWriter(
      options,
      {
        segments,
        nextSegmentId: recovered.nextSegmentId,
        nextOffset: recovered.nextOffset,
        nextSequence: recovered.nextSequence,
      },
      files,
      codec,
      clock,
      events,
    );
    return new Log(writer, new LogReader(writer.segments, files, codec, writer.tailCache), recovered);
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

  /** See LogReader.window. */
  read(offset: number, visibleHead: number): Window {
    return this.#reader.window(offset, visibleHead);
  }

  /** Writes and syncs everything appended; the log must not be used afterwards. */
  close(): Promise<void> {
    this.#reader.close();
    return this.#writer.close();
  }
}
