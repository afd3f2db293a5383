import type { Codec } from "../runtime/codec.ts";
import { type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import { unacceptedLosses } from "./accepted-losses.ts";
import { layoutNeedsMarker, writeLayoutMarker } from "./layout-marker.ts";
import { LOSS_REASONS, type LossEvent, skippedBytes, writeLossReport } from "./loss-report.ts";
import { quarantineSpan } from "./quarantine.ts";
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
  /**
   * Ascending. An unsealed last one is resumed at its `endPosition`, to which its file was cut. Otherwise the writer
   * creates segment `nextSegmentId` with base `nextOffset` and `nextSequence`.
   */
  readonly segments: readonly SegmentInfo[];
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
  /** Best-effort steps that failed: layout marker, quarantine, report file. */
  readonly problems: readonly FileSystemError[];
}

/**
 * Opens one log root after whatever happened to it (storage.md 18.1, ordinary segments): the longest valid prefix
 * stays, a torn or corrupt end of the last segment is copied, reported and cut. Anything else that does not fit refuses
 * with a StorageError and leaves the directory as it was; so does a loss above the caps of section 19. Throws
 * FileSystemError when the disk fails.
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
  if (excess !== undefined) throw excess;

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
  const quarantined = execute(files, root, plan, options, bestEffort);
  if (plan.losses.length > 0) bestEffort(() => writeLossReport(files, root, plan.losses));

  return {
    segments: plan.segments,
    nextSegmentId: plan.nextSegmentId,
    nextOffset: plan.nextOffset,
    nextSequence: plan.nextSequence,
    earliestOffset: plan.earliestOffset,
    durableBytes: plan.durableBytes,
    losses: plan.losses,
    quarantined,
    problems,
  };
}

/**
 * Copies, then cuts and removes, and makes what stays durable: a killed process may have left the end of the last
 * segment, its footer or its very name to the page cache, and from here on all of it counts as being on the disk.
 * Returns the events that were copied.
 */
function execute(
  files: FileSystem,
  root: string,
  plan: RecoveryPlan,
  options: RecoveryOptions,
  bestEffort: (step: () => void) => void,
): LossEvent[] {
  const quarantined: LossEvent[] = [];
  const last = plan.segments.at(-1);
  if (last !== undefined) {
    const file = files.open(last.path, "write");
    try {
      if (plan.cut !== undefined) {
        for (const event of plan.losses) {
          const { label, dataLoss } = LOSS_REASONS[event.reason];
          if (!dataLoss || skippedBytes(event) === 0) continue;
          bestEffort(() => {
            const span = { segmentId: event.segmentId, label, start: event.start, end: event.end };
            if (quarantineSpan(files, root, file, span, options.maxQuarantineBytes)) quarantined.push(event);
          });
        }
        file.truncate(plan.cut.length);
      }
      file.sync("full");
    } finally {
      file.close();
    }
  }
  for (const path of plan.removals) files.remove(path);
  if (last !== undefined || plan.removals.length > 0) files.syncDirectory(root);
  return quarantined;
}
