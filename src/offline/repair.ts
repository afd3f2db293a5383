import { writeAcceptedLosses } from "../log/accepted-losses.ts";
import { DataDirectoryError, openDataDirectory } from "../log/data-directory.ts";
import { inspectLog } from "../log/inspection.ts";
import { recoverLog } from "../log/recovery.ts";
import type { Codec } from "../runtime/codec.ts";
import type { FileSystem, FileSystemError, Lock } from "../runtime/file-system.ts";
import { pathOf, type ScrubbedLog, type ScrubOptions, scanProgress, scrub } from "./scrub.ts";
import { lockHeld, requireLogRoot } from "./stopped-directory.ts";

/** Roll size that recovery is told; only the caps, which are off here, depend on it. */
const MAX_SEGMENT_BYTES = 64 * 1024 * 1024;

/** Each segment is read before the repair, by it, and once more to see what is left. */
const PASSES = 3;

export interface Repair {
  /** What was wrong before anything was done. */
  readonly logs: readonly ScrubbedLog[];
  /** Steps that failed without keeping the logs from opening: a quarantine copy, the report. */
  readonly problems: readonly FileSystemError[];
}

/**
 * Does to every log of a stopped data directory what a start would do, whatever the loss (storage.md 21): corrupt spans are
 * copied to quarantine, the last segment is cut behind its last intact record. A sealed segment is never edited; what is
 * lost in it is recorded as accepted, so that the next start does not hold the log read-only for it. Holds the directory's
 * lock. Throws OfflineError, DataDirectoryError, StorageError and FileSystemError; StorageErrors before anything was
 * changed in the log that they are about.
 */
export function repair(files: FileSystem, codec: Codec, options: ScrubOptions): Repair {
  const { dataDirectory, recovery } = options;
  requireLogRoot(files, dataDirectory);
  const lock = takeLock(files, codec, dataDirectory);
  try {
    const counted = scanProgress(files, options, PASSES);
    const logs = scrub(counted, codec, { dataDirectory, recovery });
    const problems: FileSystemError[] = [];
    for (const { root } of logs) {
      const path = pathOf(dataDirectory, root);
      const recovered = recoverLog(counted, codec, path, {
        maxSegmentBytes: MAX_SEGMENT_BYTES,
        fullScan: true,
        recovery,
        ignoreLossCaps: true,
      });
      problems.push(...recovered.problems);
      writeAcceptedLosses(files, path, inspectLog(counted, codec, path, { fullScan: true, recovery }).losses);
    }
    return { logs, problems };
  } finally {
    lock.release();
  }
}

function takeLock(files: FileSystem, codec: Codec, dataDirectory: string): Lock {
  try {
    return openDataDirectory(files, codec, dataDirectory, { create: false }).lock;
  } catch (error) {
    if (error instanceof DataDirectoryError && error.kind === "Locked") throw lockHeld(dataDirectory, "repair");
    throw error;
  }
}
