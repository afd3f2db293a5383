import type { Codec } from "../runtime/codec.ts";
import { type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import { unacceptedLosses } from "./accepted-losses.ts";
import { isDiskFull } from "./disk-full.ts";
import type { Gap } from "./gap.ts";
import { layoutNeedsMarker, writeLayoutMarker } from "./layout-marker.ts";
import {
  LOSS_REASONS,
  type LossEvent,
  newLosses,
  readLossReport,
  skippedBytes,
  writeLossReport,
} from "./loss-report.ts";
import { syncCached } from "./page-cache.ts";
import { quarantineFrom } from "./quarantine.ts";
import { lossCapProblem, planRecovery, type RecoveryMode, type RecoveryPlan } from "./recovery-plan.ts";
import { MIN_SEGMENT_BYTES } from "./segment.ts";
import type { SegmentInfo } from "./segment-chain.ts";
import { StorageError } from "./storage-error.ts";

export type { SegmentInfo } from "./segment-chain.ts";

export interface RecoveryOptions {
  /** The configured roll size, at least 184; bounds what a recovery may lose. */
  readonly maxSegmentBytes: number;
  /** Budget of `quarantine/`, 0 = unlimited. Default 256 MiB. */
  readonly maxQuarantineBytes?: number;
  /** Reads every body, not only the last segment's. Default false: a start costs one segment's scan. */
  readonly fullScan?: boolean;
  /** Default `salvage`. */
  readonly recovery?: RecoveryMode;
  /** Takes any loss, as an operator may order. Default false: a loss above the caps that is not accepted is refused. */
  readonly ignoreLossCaps?: boolean;
}

export interface RecoveredLog {
  /** Ascending by offset. */
  readonly segments: readonly SegmentInfo[];
  /**
   * The last one is resumed at its `endPosition`, to which its file was cut. Otherwise the writer creates segment
   * `nextSegmentId` with base `nextOffset` and `nextSequence`.
   */
  readonly resumable: boolean;
  /** Id of the next segment to be created; no record was ever stored under it. */
  readonly nextSegmentId: number;
  readonly nextOffset: number;
  readonly nextSequence: number;
  /** First retained offset. */
  readonly earliestOffset: number;
  /** Record bytes over all segments, headers and footers not counted. */
  readonly durableBytes: number;
  /** What was given up; empty after a clean stop. */
  readonly losses: readonly LossEvent[];
  /** Loss events whose bytes were copied to quarantine before they were cut. */
  readonly quarantined: readonly LossEvent[];
  /** How many of these no earlier opening has reported. */
  readonly repairs: number;
  /** Best-effort steps that failed: layout marker, quarantine, report file. */
  readonly problems: readonly FileSystemError[];
  /** Files that are named as segments and cannot be any; they were left alone. */
  readonly foreign: readonly string[];
  /** Offsets between the earliest and the next one whose records are lost, as far as bodies were read. */
  readonly gaps: readonly Gap[];
  /** Why the log may not be written: its losses are above a cap (README ruling 1). Then nothing was changed on the disk. */
  readonly readOnly: StorageError | undefined;
}

/**
 * Opens one log root after whatever happened to it. A torn or corrupt end of the last segment is copied, reported and cut
 * (storage.md 18.1 step 8). In mode `salvage` other damage is copied, reported and left where it is, every intact record
 * keeps its offset, and losses above a cap make the log read-only (README ruling 1). In mode `strict` both are a
 * StorageError, and the directory stays as it was. Throws FileSystemError when the disk fails, StorageError for what this
 * build cannot read.
 */
export function recoverLog(files: FileSystem, codec: Codec, root: string, options: RecoveryOptions): RecoveredLog {
  const { maxSegmentBytes } = options;
  if (maxSegmentBytes < MIN_SEGMENT_BYTES) {
    throw new StorageError(
      "InvalidMaxSegmentBytes",
      `max_segment_bytes ${maxSegmentBytes} is below the minimum ${MIN_SEGMENT_BYTES} ` +
        "(smaller caps make one-record segments)",
    );
  }
  const needsMarker = layoutNeedsMarker(files, root, codec);
  const plan = planRecovery(files, codec, root, options);
  const counted = { ...plan, losses: options.ignoreLossCaps ? [] : unacceptedLosses(files, root, plan.losses) };
  const excess = lossCapProblem(counted, maxSegmentBytes);
  if (excess !== undefined && options.recovery === "strict") throw excess;
  if (excess !== undefined) return { ...resultOf(plan), quarantined: [], repairs: 0, problems: [], readOnly: excess };

  const problems: FileSystemError[] = [];
  const bestEffort = (step: () => void): void => {
    try {
      step();
    } catch (error) {
      if (!(error instanceof FileSystemError)) throw error;
      problems.push(error);
    }
  };
  if (needsMarker) bestEffort(() => writeLayoutMarker(files, root, codec));
  const quarantined = keepCopies(files, root, plan, options, bestEffort);
  let known: readonly LossEvent<string>[] = [];
  bestEffort(() => {
    if (quarantined.length > 0) known = readLossReport(files, root) ?? [];
  });
  const repairs = newLosses(quarantined, known).length;
  // Before the cut: a start that ends right behind it leaves a log in which nothing is missing any more.
  const reported = plan.losses.length === 0 || reportIfRoom(files, root, plan.losses, bestEffort);
  execute(files, root, plan, bestEffort);
  if (!reported) bestEffort(() => writeLossReport(files, root, plan.losses));

  return { ...resultOf(plan), quarantined, repairs, problems, readOnly: undefined };
}

function resultOf(plan: RecoveryPlan): Omit<RecoveredLog, "quarantined" | "repairs" | "problems" | "readOnly"> {
  const { segments, nextSegmentId, nextOffset, nextSequence, earliestOffset, durableBytes, losses, gaps } = plan;
  const { resumable, foreign } = plan;
  return {
    segments,
    resumable,
    nextSegmentId,
    nextOffset,
    nextSequence,
    earliestOffset,
    durableBytes,
    losses,
    foreign,
    gaps,
  };
}

/** False when the disk is full: the cut may make the room that the report needs. */
function reportIfRoom(
  files: FileSystem,
  root: string,
  losses: readonly LossEvent[],
  bestEffort: (step: () => void) => void,
): boolean {
  let full = false;
  bestEffort(() => {
    try {
      writeLossReport(files, root, losses);
    } catch (error) {
      full = error instanceof FileSystemError && isDiskFull(error);
      if (!full) throw error;
    }
  });
  return !full;
}

/** Copies what is damaged to quarantine; returns the events that were copied. */
function keepCopies(
  files: FileSystem,
  root: string,
  plan: RecoveryPlan,
  options: RecoveryOptions,
  bestEffort: (step: () => void) => void,
): LossEvent[] {
  const quarantined: LossEvent[] = [];
  for (const { event, path } of plan.damages) {
    const { label, dataLoss } = LOSS_REASONS[event.reason];
    if (!dataLoss || skippedBytes(event) === 0) continue;
    bestEffort(() => {
      const span = { segmentId: event.segmentId, label, start: event.start, end: event.end };
      if (quarantineFrom(files, root, path, span, options.maxQuarantineBytes)) quarantined.push(event);
    });
  }
  return quarantined;
}

/**
 * Cuts and removes, and makes what stays durable: a killed process may have left the end of the last segment, its footer
 * or its very name to the page cache, and from here on all of it counts as being on the disk.
 */
function execute(files: FileSystem, root: string, plan: RecoveryPlan, bestEffort: (step: () => void) => void): void {
  const last = plan.segments.at(-1);
  if (last !== undefined) {
    const sync = (): void => cutAndSync(files, last.path, plan.cut?.length);
    // A last segment that is neither sealed nor resumed is one that the medium has damaged: it may well refuse.
    if (plan.resumable || last.sealed) sync();
    else bestEffort(sync);
  }
  for (const path of plan.removals) files.remove(path);
  // Also without either: what an earlier start removed may still be in the directory on the disk.
  files.syncDirectory(root);
}

function cutAndSync(files: FileSystem, path: string, length: number | undefined): void {
  const file = files.open(path, "write");
  try {
    if (length !== undefined) file.truncate(length);
    syncCached(files, file, length ?? file.status().size);
  } finally {
    file.close();
  }
}
