import type { Gap } from "../log/gap.ts";
import { inspectLog, type LogInspection, type RecoveryMode } from "../log/inspection.ts";
import { LOSS_REASONS, type LossEvent, skippedBytes } from "../log/loss-report.ts";
import { parseSegmentName } from "../log/names.ts";
import type { Codec } from "../runtime/codec.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { countedFiles } from "./counted-files.ts";
import type { Progress } from "./progress.ts";
import { logRoots, requireLogRoot } from "./stopped-directory.ts";

export interface ScrubOptions {
  readonly dataDirectory: string;
  /** What recovery is asked what it would do; `strict` throws where it would refuse to open. */
  readonly recovery: RecoveryMode;
  readonly progress?: Progress;
}

/** One log below the data directory. */
export interface ScrubbedLog {
  /** Relative to the data directory, "" for the default stream's. */
  readonly root: string;
  readonly inspection: LogInspection;
}

/** A loss event and the log it is in. */
export interface Span {
  readonly root: string;
  readonly event: LossEvent;
}

/** What recovery would skip or cut in all logs of a data directory. */
export interface Damage {
  readonly segments: number;
  readonly spans: readonly Span[];
  readonly dataLossSpans: number;
  readonly dataLossBytes: number;
  readonly tornTailBytes: number;
  /** Whether records are gone, by bytes that are skipped or by a segment that is not there. */
  readonly lost: boolean;
  /** Offsets that hold no record any more. */
  readonly gaps: readonly { readonly root: string; readonly gap: Gap }[];
}

/**
 * Reads every segment of every log below a data directory to its end and tells what recovery would make of it. Changes
 * nothing and takes no lock. Throws OfflineError, DataDirectoryError, StorageError and FileSystemError.
 */
export function scrub(files: FileSystem, codec: Codec, options: ScrubOptions): ScrubbedLog[] {
  const { dataDirectory, recovery } = options;
  requireLogRoot(files, dataDirectory);
  const counted = scanProgress(files, options, 1);
  return logRoots(files, dataDirectory).map((root) => ({
    root,
    inspection: inspectLog(counted, codec, pathOf(dataDirectory, root), { fullScan: true, recovery }),
  }));
}

/** `files` that tells the progress of reading every segment `passes` times. */
export function scanProgress(files: FileSystem, options: ScrubOptions, passes: number): FileSystem {
  const { dataDirectory, progress } = options;
  if (progress === undefined) return files;
  const roots = logRoots(files, dataDirectory);
  const totalBytes = passes * roots.reduce((sum, root) => sum + segmentBytes(files, pathOf(dataDirectory, root)), 0);
  let doneBytes = 0;
  return countedFiles(files, (bytes) => {
    // A damaged stretch is read more than once.
    doneBytes = Math.min(totalBytes, doneBytes + bytes);
    progress(doneBytes, totalBytes);
  });
}

/** The sum of what was found in all logs. */
export function damageOf(logs: readonly ScrubbedLog[]): Damage {
  const spans = logs.flatMap(({ root, inspection }) => inspection.losses.map((event) => ({ root, event })));
  const data = spans.filter(({ event }) => LOSS_REASONS[event.reason].dataLoss);
  const bytesOf = (some: readonly Span[]): number => some.reduce((sum, { event }) => sum + skippedBytes(event), 0);
  const dataLossBytes = bytesOf(data);
  return {
    segments: logs.reduce((sum, { inspection }) => sum + inspection.segments.length, 0),
    spans,
    dataLossSpans: data.length,
    dataLossBytes,
    tornTailBytes: bytesOf(spans) - dataLossBytes,
    lost: dataLossBytes > 0 || data.some(({ event }) => event.recordsLostEstimate > 0),
    gaps: logs.flatMap(({ root, inspection }) => inspection.gaps.map((gap) => ({ root, gap }))),
  };
}

/** The path of a log root. */
export function pathOf(dataDirectory: string, root: string): string {
  return root === "" ? dataDirectory : `${dataDirectory}/${root}`;
}

function segmentBytes(files: FileSystem, root: string): number {
  return files
    .list(root)
    .filter(({ name, kind }) => kind === "file" && parseSegmentName(name) !== undefined)
    .reduce((sum, { name }) => sum + (files.stat(`${root}/${name}`)?.size ?? 0), 0);
}
