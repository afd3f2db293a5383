import type { Codec } from "../runtime/codec.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { FrameScanner } from "./frame-scanner.ts";
import type { Gap } from "./gap.ts";
import { type LossEvent, lossTotals, skippedBytes } from "./loss-report.ts";
import { SEGMENT_HEADER_LENGTH } from "./segment.ts";
import { infoOf, inspectChain, type SegmentChain, type SegmentFile, type SegmentInfo } from "./segment-chain.ts";
import { type SegmentOutcome, SegmentWalk } from "./segment-walk.ts";
import { StorageError } from "./storage-error.ts";

/** Largest loss of one event, whatever the segment size (storage.md 19). */
const MAX_EVENT_LOSS_BYTES = 64 * 1024 * 1024;

/** `strict`: damage anywhere but at the log's end refuses to open (storage.md 18); `salvage`: README ruling 1. */
export type RecoveryMode = "salvage" | "strict";

export interface InspectionOptions {
  /** Reads every record, not only those of the last segment. Default false. */
  readonly fullScan?: boolean;
  /** Default `salvage`. */
  readonly recovery?: RecoveryMode;
}

/** What recovery would do with a log root; nothing was changed to find out. */
export interface RecoveryPlan {
  readonly segments: readonly SegmentInfo[];
  readonly nextSegmentId: number;
  readonly nextOffset: number;
  readonly nextSequence: number;
  readonly earliestOffset: number;
  readonly gaps: readonly Gap[];
  readonly durableBytes: number;
  readonly losses: readonly LossEvent[];
  /** Files to be removed: a segment whose creation was cut. */
  readonly removals: readonly string[];
  /** Cut of the last segment's file, when it is longer than what is kept of it. */
  readonly cut: { readonly path: string; readonly length: number } | undefined;
}

/** Finds out what recovery has to do, without changing anything. Throws StorageError and FileSystemError. */
export function planRecovery(files: FileSystem, codec: Codec, root: string, options: InspectionOptions): RecoveryPlan {
  const chain = inspectChain(files, codec, root, options.fullScan ?? false);
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
  const last = segments.at(-1);
  return {
    segments,
    nextSegmentId: nextSegmentId(chain),
    nextOffset: last === undefined ? 0 : last.baseOffset + last.recordCount,
    nextSequence: last === undefined ? 0 : last.baseSequence + last.recordCount,
    earliestOffset: segments[0]?.baseOffset ?? 0,
    gaps: [],
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

/** The error of storage.md 19 when the plan loses more than its caps allow. */
export function lossCapProblem(
  plan: Pick<RecoveryPlan, "losses" | "durableBytes">,
  maxSegmentBytes: number,
): StorageError | undefined {
  const excess = (what: string): StorageError =>
    new StorageError("ExcessiveRecoveryLoss", `recovery exceeded the bounded-loss cap: ${what}`);
  const perEvent = Math.min(maxSegmentBytes, MAX_EVENT_LOSS_BYTES);
  for (const event of plan.losses) {
    const bytes = skippedBytes(event);
    if (bytes > perEvent) {
      return excess(`a recovery loss event dropped ${bytes} bytes, over the per-event cap ${perEvent}`);
    }
  }
  const global = Math.max(Math.floor(plan.durableBytes / 100), perEvent);
  const { bytes } = lossTotals(plan.losses);
  if (bytes > global) return excess(`recovery would drop ${bytes} bytes total, over the global cap ${global}`);
  return undefined;
}
