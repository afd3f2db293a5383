import type { FileSystem } from "../runtime/file-system.ts";
import type { SegmentEntry } from "./segment-entry.ts";
import { wholeBlocks } from "./tail-block.ts";

/** Bytes that are written once more in one piece. */
const PIECE_BYTES = 1024 * 1024;

/**
 * After a failed write or barrier the cache may count bytes as clean that the disk will never have. The next start would
 * find them all the same, and lose with them what it appends behind. So what nobody was told of is cut off, and what is
 * visible without a barrier (relaxed levels: `rewrites`) is written once more: the next start's barrier covers it then.
 * `direct`: the file takes whole blocks only, and zeros behind its end are no harm.
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
    if (!rewrites) return;
    const buffer = files.alignedBuffer(Math.min(PIECE_BYTES, wholeBlocks(visibleEnd)));
    for (let at = 0; at < visibleEnd; at += buffer.length) {
      const length = file.read(buffer, 0, Math.min(buffer.length, visibleEnd - at), at);
      buffer.fill(0, length);
      file.write(buffer, 0, direct ? wholeBlocks(length) : length, at);
    }
  } catch {
    // The disk is failing: the freeze says so.
  }
}
