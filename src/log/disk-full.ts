import type { FileSystem, FileSystemError } from "../runtime/file-system.ts";

/** Out of space, or out of what the user may take of it. */
export function isDiskFull(error: FileSystemError): boolean {
  return error.code === "ENOSPC" || error.code === "EDQUOT";
}

/**
 * Whether a write found the disk full, so that it can be made again later. A barrier that says the same cannot: the cache
 * may count its pages as clean now (storage.md 17).
 */
export function isFullWrite(error: FileSystemError): boolean {
  return isDiskFull(error) && !error.operation.startsWith("sync");
}

const PASSING = new Set(["EMFILE", "ENFILE", "ENOMEM", "EINTR", "EAGAIN"]);

/** Whether the creation of a file may succeed later without anybody's repair (storage.md 17, deferred roll). */
export function mayPass(error: FileSystemError): boolean {
  return isFullWrite(error) || PASSING.has(error.code);
}

/** What the file system that `path` is on says is free; undefined when it cannot or does not. Never throws for a failing disk. */
export function freeBytes(files: FileSystem, path: string): number | undefined {
  try {
    return files.freeSpace(path)?.freeBytes;
  } catch {
    return undefined;
  }
}
