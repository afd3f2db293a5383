import type { Codec } from "../runtime/codec.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { unacceptedLosses } from "./accepted-losses.ts";
import type { Gap } from "./gap.ts";
import { layoutVersionOf } from "./layout-marker.ts";
import type { LossEvent } from "./loss-report.ts";
import { type InspectionOptions, lossCapProblem, planRecovery } from "./recovery-plan.ts";

export type { InspectionOptions, RecoveryMode } from "./recovery-plan.ts";

import type { SegmentInfo } from "./segment-chain.ts";
import type { StorageError } from "./storage-error.ts";

/** What recovery would make of a log root as it lies on the disk; nothing was changed to find out. */
export interface LogInspection {
  /** Of a valid `layout.meta`; undefined when there is none. */
  readonly layoutVersion: number | undefined;
  /** Ascending by offset. */
  readonly segments: readonly SegmentInfo[];
  readonly losses: readonly LossEvent[];
  /** Offsets between the earliest and the next one whose records are lost; sorted, disjoint, not touching. */
  readonly gaps: readonly Gap[];
  /** Record bytes of all segments, headers, footers and lost spans not counted. */
  readonly durableBytes: number;
  readonly earliestOffset: number;
  readonly nextOffset: number;
  /** Why the losses are more than a recovery may take without being forced (storage.md 19), if they are. */
  overCap(maxSegmentBytes: number): StorageError | undefined;
}

/**
 * Looks at the log below `root` as recovery does, without writing anything and without a cap on what is damaged
 * (storage.md 18.4). Throws StorageError for what cannot be read at all (a newer layout, a feature that this build does
 * not have; in mode `strict` also any damage before the log's end), FileSystemError when the directory cannot be read.
 */
export function inspectLog(
  files: FileSystem,
  codec: Codec,
  root: string,
  options: InspectionOptions = {},
): LogInspection {
  const layoutVersion = layoutVersionOf(files, root, codec);
  const plan = planRecovery(files, codec, root, options);
  return {
    layoutVersion,
    segments: plan.segments,
    losses: plan.losses,
    gaps: plan.gaps,
    durableBytes: plan.durableBytes,
    earliestOffset: plan.earliestOffset,
    nextOffset: plan.nextOffset,
    overCap: (maxSegmentBytes) =>
      lossCapProblem({ ...plan, losses: unacceptedLosses(files, root, plan.losses) }, maxSegmentBytes),
  };
}
