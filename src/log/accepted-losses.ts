import type { FileSystem } from "../runtime/file-system.ts";
import { type LossEvent, readLossReport, writeLossReport } from "./loss-report.ts";

/**
 * Losses that an operator has accepted with `repair --apply --force`: `repair-accepted.json` in the log root, in the form
 * of a loss report (storage.md 19). They stay where they are and are reported at every start, but they count toward no
 * cap, so that the log opens writable again.
 */

export const ACCEPTED_LOSSES_FILE = "repair-accepted.json";

/** Some 300,000 spans. Above this it is not a file of ours. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;

/**
 * The events of `losses` that nobody has accepted: those that do not lie within an accepted span of the same segment. A
 * file that cannot be read accepts nothing, which at worst keeps a log read-only. Throws FileSystemError.
 */
export function unacceptedLosses(files: FileSystem, root: string, losses: readonly LossEvent[]): readonly LossEvent[] {
  if (losses.length === 0) return losses;
  const accepted = new Map<number, Span[]>();
  for (const span of readLossReport(files, root, ACCEPTED_LOSSES_FILE, MAX_FILE_BYTES) ?? []) {
    const others = accepted.get(span.segmentId);
    if (others === undefined) accepted.set(span.segmentId, [span]);
    else others.push(span);
  }
  for (const [segmentId, spans] of accepted) accepted.set(segmentId, outermost(spans));
  return losses.filter((event) => !liesWithin(accepted.get(event.segmentId) ?? [], event));
}

/** Makes `losses` the accepted ones, instead of those that were. Throws FileSystemError. */
export function writeAcceptedLosses(files: FileSystem, root: string, losses: readonly LossEvent[]): void {
  const path = `${root}/${ACCEPTED_LOSSES_FILE}`;
  if (losses.length > 0) {
    writeLossReport(files, root, losses, ACCEPTED_LOSSES_FILE);
    return;
  }
  if (files.stat(path) !== undefined) files.remove(path);
  // Also when it was gone already: a repair that was killed may have removed it without this barrier.
  files.syncDirectory(root);
}

type Span = Pick<LossEvent, "start" | "end">;

/** Those that lie within no other one: both their begins and their ends ascend. */
function outermost(spans: readonly Span[]): Span[] {
  const kept: Span[] = [];
  for (const span of spans.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    if (span.end > (kept.at(-1)?.end ?? -1)) kept.push(span);
  }
  return kept;
}

function liesWithin(spans: readonly Span[], { start, end }: Span): boolean {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].start <= start) low = middle + 1;
    else high = middle;
  }
  // Of those that begin in time, the last one reaches furthest.
  return low > 0 && spans[low - 1].end >= end;
}
