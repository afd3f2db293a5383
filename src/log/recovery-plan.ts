import type { Codec } from "../runtime/codec.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { FrameScanner } from "./frame-scanner.ts";
import type { Gap } from "./gap.ts";
import { gapsOf } from "./gap-list.ts";
import { type Damage, type Survey, surveyLog } from "./log-survey.ts";
import { type LossEvent, skippedBytes } from "./loss-report.ts";
import { SEGMENT_FOOTER_LENGTH, SEGMENT_HEADER_LENGTH } from "./segment.ts";
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
  /** Those of them that a power cut may have left: they count toward the caps as one segment at most. */
  readonly torn: ReadonlySet<LossEvent>;
  /** The same events, each with the file that its span lies in. */
  readonly damages: readonly Damage[];
  /** Files to be removed: a segment whose creation was cut. */
  readonly removals: readonly string[];
  /** Files that are named as segments and cannot be any; they are left alone. */
  readonly foreign: readonly string[];
  /** Cut of the last segment's file, when it is longer than what is kept of it. */
  readonly cut: { readonly path: string; readonly length: number } | undefined;
  /** The last segment may be appended to, once it is cut; otherwise the log goes on in a new one. */
  readonly resumable: boolean;
}

/** Finds out what recovery has to do, without changing anything. Throws StorageError and FileSystemError. */
export function planRecovery(files: FileSystem, codec: Codec, root: string, options: InspectionOptions): RecoveryPlan {
  const { fullScan = false, recovery = "salvage" } = options;
  const survey =
    recovery === "strict" ? surveyStrictly(files, codec, root, fullScan) : surveyLog(files, codec, root, fullScan);
  const { segments } = survey;
  const earliestOffset = segments[0]?.baseOffset ?? survey.nextOffset;
  return {
    ...survey,
    earliestOffset,
    gaps: gapsOf(
      segments.map(({ baseOffset, recordCount, holes }) => ({
        baseOffset,
        endOffset: baseOffset + recordCount,
        holes,
      })),
      survey.nextOffset,
    ),
    durableBytes: segments.reduce((sum, segment) => sum + recordBytes(segment), 0),
    losses: survey.damages.map(({ event }) => event),
  };
}

function recordBytes({ endPosition, holes }: SegmentInfo): number {
  return holes.reduce(
    (sum, hole) => sum - (hole.endPosition - hole.startPosition),
    endPosition - SEGMENT_HEADER_LENGTH,
  );
}

/** Storage.md 18.1 as upstream has it. */
function surveyStrictly(files: FileSystem, codec: Codec, root: string, fullScan: boolean): Survey {
  const chain = inspectChain(files, codec, root, fullScan);
  const segments = [...chain.sealed];
  const damages: Damage[] = [];
  if (chain.unborn !== undefined) damages.push({ path: chain.unborn.path, event: unbornLoss(chain.unborn.id) });
  let cut: RecoveryPlan["cut"];
  if (chain.last !== undefined) {
    const { path, size } = chain.last;
    const outcome = walkLast(files, codec, chain.last);
    segments.push(infoOf(chain.last, outcome.recordCount, outcome.endPosition, outcome.sealed));
    if (outcome.loss !== undefined) damages.push({ path, event: outcome.loss });
    if (outcome.keepLength < size) cut = { path, length: outcome.keepLength };
  }
  const last = segments.at(-1);
  return {
    segments,
    nextSegmentId: nextSegmentId(chain),
    nextOffset: last === undefined ? 0 : last.baseOffset + last.recordCount,
    nextSequence: last === undefined ? 0 : last.baseSequence + last.recordCount,
    damages,
    torn: new Set(),
    removals: chain.unborn === undefined ? [] : [chain.unborn.path],
    foreign: [],
    cut,
    resumable: last?.sealed === false,
  };
}

/** The event that stands for a segment file without a header: nothing was in it. */
function unbornLoss(segmentId: number): LossEvent {
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

/** The error of storage.md 19 when the plan loses more than its caps allow (docs/decisions/0023). */
export function lossCapProblem(
  plan: Pick<RecoveryPlan, "losses" | "torn" | "durableBytes">,
  maxSegmentBytes: number,
): StorageError | undefined {
  const excess = (what: string): StorageError =>
    new StorageError("ExcessiveRecoveryLoss", `recovery exceeded the bounded-loss cap: ${what}`);
  const perEvent = Math.min(maxSegmentBytes, MAX_EVENT_LOSS_BYTES);
  // No writer goes on behind the roll size but with one record, which is smaller than that, and a footer.
  const lastEnd = 2 * maxSegmentBytes + SEGMENT_FOOTER_LENGTH;
  let tornBytes = 0;
  let otherBytes = 0;
  for (const event of plan.losses) {
    if (plan.torn.has(event) && event.end <= lastEnd) {
      tornBytes += skippedBytes(event);
      continue;
    }
    const bytes = countedBytes(event, maxSegmentBytes);
    if (bytes > perEvent) {
      return excess(`a recovery loss event dropped ${bytes} bytes, over the per-event cap ${perEvent}`);
    }
    otherBytes += bytes;
  }
  const global = Math.max(Math.floor(plan.durableBytes / 100), perEvent);
  const bytes = otherBytes + Math.min(tornBytes, perEvent);
  if (bytes > global) return excess(`recovery would drop ${bytes} bytes total, over the global cap ${global}`);
  return undefined;
}

/** A segment that is lost as a whole counts as one segment, although its last record and footer made it a bit longer. */
function countedBytes(event: LossEvent, maxSegmentBytes: number): number {
  const whole = event.start === 0 && event.reason === "CorruptSegmentHeader";
  return whole ? Math.min(skippedBytes(event), maxSegmentBytes) : skippedBytes(event);
}
