import type { File, FileSystem } from "../runtime/file-system.ts";
import { wholeBlocks } from "./tail-block.ts";

/** Bytes that are written once more in one piece. */
const PIECE_BYTES = 1024 * 1024;

/**
 * Barrier on a file whose first `length` bytes an earlier process may have left to the page cache alone. After a failed
 * barrier the cache counts them as clean, whether or not the disk has them (docs/decisions/0018): they are written once more
 * then, so that the barrier of whoever comes next covers them. Throws FileSystemError of the barrier.
 */
export function syncCached(files: FileSystem, file: File, length: number): void {
  try {
    file.sync("full");
  } catch (error) {
    try {
      writeAgain(files, file, length);
    } catch {
      // The disk is failing: the barrier's error says so.
    }
    throw error;
  }
}

/** syncCached() of all of the file at `path`. Throws FileSystemError. */
export function syncCachedFile(files: FileSystem, path: string): void {
  const file = files.open(path, "write");
  try {
    syncCached(files, file, file.status().size);
  } finally {
    file.close();
  }
}

/**
 * Writes the first `length` bytes of the file to where they are. `direct`: the file takes whole blocks only, and zeros behind
 * its end are no harm. Throws FileSystemError.
 */
export function writeAgain(files: FileSystem, file: File, length: number, direct = false): void {
  const buffer = files.alignedBuffer(Math.min(PIECE_BYTES, wholeBlocks(length)));
  for (let at = 0; at < length; at += buffer.length) {
    const count = file.read(buffer, 0, Math.min(buffer.length, length - at), at);
    buffer.fill(0, count);
    file.write(buffer, 0, direct ? wholeBlocks(count) : count, at);
  }
}
