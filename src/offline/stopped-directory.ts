import { requireDataDirectory } from "../log/data-directory.ts";
import { LAYOUT_FILE, LOCK_FILE, parseSegmentName, QUARANTINE_DIRECTORY } from "../log/names.ts";
import { type FileSystem, FileSystemError, type Lock } from "../runtime/file-system.ts";
import { OfflineError } from "./offline-error.ts";
import { isContent } from "./tree.ts";

/** What a tool is about to do, as the refusal of a locked directory says it (cli.md 2.1). */
export type Doing = "repair" | "back up" | "restore into";

/**
 * Checks that `path` is a data directory and not some other one that happens to exist; an empty one is a log without
 * records. Throws OfflineError NotFound, DataDirectoryError NotFound or NotADirectory, StorageError UnsupportedFeature.
 */
export function requireLogRoot(files: FileSystem, path: string): void {
  requireDataDirectory(files, path);
  const entries = files.list(path);
  if (!entries.some(isContent)) return;
  const known = entries.some(
    ({ name, kind }) =>
      name === LOCK_FILE || name === LAYOUT_FILE || (kind === "file" && parseSegmentName(name) !== undefined),
  );
  if (!known) {
    throw new OfflineError(
      "NotFound",
      `no data directory at ${path}: it holds other files, and neither a segment nor ${LAYOUT_FILE} nor ${LOCK_FILE}`,
    );
  }
}

/**
 * Takes the exclusive lock of a data directory. Undefined on a read-only file system: nobody writes there. Throws
 * OfflineError LockHeld and FileSystemError.
 */
export function lockStopped(files: FileSystem, path: string, doing: Doing): Lock | undefined {
  let lock: Lock | undefined;
  try {
    lock = files.lock(`${path}/${LOCK_FILE}`);
  } catch (error) {
    if (error instanceof FileSystemError && error.code === "EROFS") return undefined;
    throw error;
  }
  if (lock === undefined) throw lockHeld(path, doing);
  return lock;
}

export function lockHeld(path: string, doing: Doing): OfflineError {
  return new OfflineError(
    "LockHeld",
    `cannot ${doing} ${path}: a broker holds its exclusive lock (stop the broker first)`,
  );
}

/** Deepest place of a log: `pstreams/<stream>/<partition>/<sink>`. */
const MAX_ROOT_DEPTH = 4;

/**
 * The log roots below a data directory, relative to it and sorted, "" for the directory itself: a directory is one when
 * it holds a segment. Symbolic links are not followed. Throws FileSystemError.
 */
export function logRoots(files: FileSystem, dataDirectory: string): string[] {
  const roots = [""];
  const descend = (prefix: string, depth: number): void => {
    for (const { name, kind } of files.list(`${dataDirectory}/${prefix}`)) {
      if (kind !== "directory" || name === QUARANTINE_DIRECTORY || !isContent({ name, kind })) continue;
      const root = `${prefix}${name}`;
      const entries = files.list(`${dataDirectory}/${root}`);
      if (entries.some((entry) => entry.kind === "file" && parseSegmentName(entry.name) !== undefined))
        roots.push(root);
      if (depth < MAX_ROOT_DEPTH) descend(`${root}/`, depth + 1);
    }
  };
  descend("", 1);
  return roots;
}
