import type { Codec } from "../runtime/codec.ts";
import { type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import { FrameScanner } from "./frame-scanner.ts";
import { layoutNeedsMarker, writeLayoutMarker } from "./layout-marker.ts";
import { LOSS_REASONS, type LossEvent, lossTotals, skippedBytes, writeLossReport } from "./loss-report.ts";
import { quarantineSpan } from "./quarantine.ts";
import { MIN_SEGMENT_BYTES, SEGMENT_HEADER_LENGTH } from "./segment.ts";
import { infoOf, inspectChain, type SegmentChain, type SegmentFile, type SegmentInfo } from "./segment-chain.ts";
import { type SegmentOutcome, SegmentWalk } from "./segment-walk.ts";
import { StorageError } from "./storage-error.ts";

export type { SegmentInfo } from "./segment-chain.ts";

/** Largest loss of one event, whatever the segment size (storage.md 19). */
const MAX_EVENT_LOSS_BYTES = 64 * 1024 * 1024;

export interface RecoveryOptions {
  /** The configured roll size, at least 184; bounds what a recovery may lose. */
  readonly maxSegmentBytes: number;
  /** Budget of `quarantine/`, 0 = unlimited. Default 256 MiB. */
  readonly maxQuarantineBytes?: number;
  /** Reads every body, not only the last segment's. Default false: a start costs one segment's scan. */
  readonly fullScan?: boolean;
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

/** What recovery would do with a log root; nothing was changed to find out. */
export interface RecoveryPlan {
  readonly segments: readonly SegmentInfo[];
  readonly nextSegmentId: number;
  readonly durableBytes: number;
  readonly losses: readonly LossEvent[];
  /** Files to be removed: a segment whose creation was cut. */
  readonly removals: readonly string[];
  /** Cut of the last segment's file, when it is longer than what is kept of it. */
  readonly cut: { readonly path: string; readonly length: number } | undefined;
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
  const plan = planRecovery(files, codec, root, options.fullScan ?? false);
  checkLossCaps(plan, maxSegmentBytes);

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

  const last = plan.segments.at(-1);
  return {
    segments: plan.segments,
    nextSegmentId: plan.nextSegmentId,
    nextOffset: last === undefined ? 0 : last.baseOffset + last.recordCount,
    nextSequence: last === undefined ? 0 : last.baseSequence + last.recordCount,
    earliestOffset: plan.segments[0]?.baseOffset ?? 0,
    durableBytes: plan.durableBytes,
    losses: plan.losses,
    quarantined,
    problems,
  };
}

/** Finds out what recovery has to do, without changing anything. Throws StorageError and FileSystemError. */
export function planRecovery(files: FileSystem, codec: Codec, root: string, fullScan: boolean): RecoveryPlan {
  const chain = inspectChain(files, codec, root, fullScan);
  const segments = [...chain.sealed];
  const losses: LossEvent[] = [];
  if (chain.unborn !== undefined) losses.push(unbornLoss(chain.unborn.id));
  let cut: RecoveryPlan["cut"];
  if (chain.last !== undefined) {
    const { path, size } = chain.last;
    const outcome = walkLast(files, codec, chain.last);
    segments.push(infoOf(chain.last, outcome.recordCount, outcome.endPosition, outcome.sealed));
    if (outcome.loss !== undefined) losses.push(outcome.loss);
    if (outcome.keepLength < size) cut = { path, length: outcome.keepLength };
  }
  return {
    segments,
    nextSegmentId: nextSegmentId(chain),
    durableBytes: segments.reduce((sum, segment) => sum + segment.endPosition - SEGMENT_HEADER_LENGTH, 0),
    losses,
    removals: chain.unborn === undefined ? [] : [chain.unborn.path],
    cut,
  };
}

/** The event that stands for a segment file without a header: nothing was in it. */
export function unbornLoss(segmentId: number): LossEvent {
  return { segmentId, start: 0, end: 0, recordsLostEstimate: 0, reason: "CorruptSegmentHeader" };
}

/** An id is used again only when no record was ever stored under it. */
function nextSegmentId(chain: SegmentChain): number {
  return chain.unborn?.id ?? (chain.last === undefined ? 0 : chain.last.id + 1);
}

function walkLast(files: FileSystem, codec: Codec, segment: SegmentFile): SegmentOutcome {
  const file = files.open(segment.path, "read");
  try {
    const walk = new SegmentWalk(codec, new FrameScanner(codec), file, segment.header, segment.size);
    while (walk.next() > 0);
    return walk.outcome();
  } finally {
    file.close();
  }
}

/** Storage.md 19: above a cap nothing is destroyed, and the log does not open. */
function checkLossCaps(plan: RecoveryPlan, maxSegmentBytes: number): void {
  const text = "recovery exceeded the bounded-loss cap: ";
  const perEvent = Math.min(maxSegmentBytes, MAX_EVENT_LOSS_BYTES);
  for (const event of plan.losses) {
    const bytes = skippedBytes(event);
    if (bytes > perEvent) {
      throw new StorageError(
        "ExcessiveRecoveryLoss",
        `${text}a recovery loss event dropped ${bytes} bytes, over the per-event cap ${perEvent}`,
      );
    }
  }
  const global = Math.max(Math.floor(plan.durableBytes / 100), perEvent);
  const { bytes } = lossTotals(plan.losses);
  if (bytes > global) {
    throw new StorageError(
      "ExcessiveRecoveryLoss",
      `${text}recovery would drop ${bytes} bytes total, over the global cap ${global}`,
    );
  }
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
