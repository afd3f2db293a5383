import type { FileSystem } from "../runtime/file-system.ts";
import { writeAgain } from "./page-cache.ts";
import type { SegmentEntry } from "./segment-entry.ts";

/**
 * After a failed write or barrier the cache may count bytes as clean that the disk will never have. The next start would
 * find them all the same, and lose with them what it appends behind. So what nobody was told of is cut off, and what is
 * visible without a barrier (relaxed levels: `rewrites`) is written once more: the next start's barrier covers it then.
 * `direct`: see writeAgain().
 */
export function leaveToRestart(
  { file, visibleEnd }: SegmentEntry,
  rewrites: boolean,
  files: FileSystem,
  direct: boolean,
): void {
  if (file === undefined) return;
  try {
    file.truncate(visibleEnd);
    if (rewrites) writeAgain(files, file, visibleEnd, direct);
  } catch {
    // The disk is failing: the freeze says so.
  }
}
