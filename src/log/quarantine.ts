import { type File, type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import { LOSS_REASONS, type LossEvent, skippedBytes } from "./loss-report.ts";
import { parseQuarantineName, QUARANTINE_DIRECTORY, quarantineName } from "./names.ts";
import { syncCachedFile } from "./page-cache.ts";
import { readExactly } from "./read-exactly.ts";

/** Copies of corrupt spans, kept for whoever wants to look at them (storage.md 13). */

export const DEFAULT_QUARANTINE_BYTES = 256 * 1024 * 1024;
/** Of the file system: evidence must not fill a small disk that the log needs. */
const MOST_OF_FILE_SYSTEM = 0.05;
const COPY_BYTES = 256 * 1024;

interface Blob {
  readonly path: string;
  readonly size: number;
}

/**
 * Copies segment bytes [start, end) to `quarantine/`, oldest blobs (by name) making room within `budgetBytes` (0 =
 * unlimited; by default 256 MiB, or 5 % of a smaller file system). Returns whether the copy is there afterwards; a span above the whole budget is not copied. Throws
 * FileSystemError; recovery goes on without the copy.
 */
export function quarantineSpan(
  files: FileSystem,
  root: string,
  segment: File,
  span: { readonly segmentId: number; readonly label: string; readonly start: number; readonly end: number },
  budgetBytes = defaultBudget(files, root),
): boolean {
  const length = span.end - span.start;
  if (budgetBytes > 0 && length > budgetBytes) return false;
  const directory = `${root}/${QUARANTINE_DIRECTORY}`;
  if (files.stat(directory) === undefined) files.makeDirectory(directory);
  files.syncDirectory(root);
  const path = `${directory}/${quarantineName(span.segmentId, span.label, span.start, span.end)}`;
  const present = files.stat(path);
  if (present?.size === length) {
    // Of a start that was killed before its barriers, perhaps; this one is going to cut what was copied.
    syncCachedFile(files, path);
    files.syncDirectory(directory);
    return true;
  }
  // Shorter than its name says: a copy that was cut by a crash.
  if (present !== undefined) files.remove(path);
  if (budgetBytes > 0) makeRoom(files, directory, budgetBytes - length);
  copySpan(files, segment, path, span.start, span.end);
  files.syncDirectory(directory);
  return true;
}

/**
 * Copies what was found damaged in one segment while the log is open, as far as that goes: the copy is for whoever wants
 * to look at it, and nothing depends on it.
 */
export function keepEvidence(files: FileSystem, root: string, path: string, losses: readonly LossEvent[]): void {
  for (const event of losses) {
    const { label, dataLoss } = LOSS_REASONS[event.reason];
    if (!dataLoss || skippedBytes(event) === 0) continue;
    try {
      quarantineFrom(files, root, path, { ...event, label });
    } catch (error) {
      if (!(error instanceof FileSystemError)) throw error;
    }
  }
}

/** quarantineSpan() of the segment file at `path`. Throws FileSystemError. */
export function quarantineFrom(
  files: FileSystem,
  root: string,
  path: string,
  span: Parameters<typeof quarantineSpan>[3],
  budgetBytes?: number,
): boolean {
  const file = files.open(path, "read");
  try {
    return quarantineSpan(files, root, file, span, budgetBytes);
  } finally {
    file.close();
  }
}

/** Bytes of all blobs in `quarantine/`; 0 when there is none. Throws FileSystemError. */
export function quarantineHeldBytes(files: FileSystem, root: string): number {
  const directory = `${root}/${QUARANTINE_DIRECTORY}`;
  if (files.stat(directory) === undefined) return 0;
  return listBlobs(files, directory).reduce((sum, blob) => sum + blob.size, 0);
}

function defaultBudget(files: FileSystem, root: string): number {
  const space = files.freeSpace(root);
  if (space === undefined) return DEFAULT_QUARANTINE_BYTES;
  return Math.min(DEFAULT_QUARANTINE_BYTES, Math.max(1, Math.floor(space.totalBytes * MOST_OF_FILE_SYSTEM)));
}

function makeRoom(files: FileSystem, directory: string, targetBytes: number): void {
  const blobs = listBlobs(files, directory);
  let held = blobs.reduce((sum, blob) => sum + blob.size, 0);
  for (const blob of blobs) {
    if (held <= targetBytes) return;
    files.remove(blob.path);
    held -= blob.size;
  }
}

function listBlobs(files: FileSystem, directory: string): Blob[] {
  const blobs: Blob[] = [];
  for (const { name, kind } of files.list(directory)) {
    if (kind !== "file" || parseQuarantineName(name) === undefined) continue;
    const path = `${directory}/${name}`;
    blobs.push({ path, size: files.stat(path)?.size ?? 0 });
  }
  return blobs;
}

function copySpan(files: FileSystem, segment: File, path: string, start: number, end: number): void {
  const blob = files.open(path, "create-new");
  try {
    const buffer = new Uint8Array(Math.min(COPY_BYTES, end - start));
    let position = start;
    while (position < end) {
      const length = Math.min(buffer.length, end - position);
      readExactly(segment, buffer, 0, length, position);
      blob.write(buffer, 0, length, position - start);
      position += length;
    }
    blob.sync("full");
  } catch (error) {
    blob.close();
    files.remove(path);
    throw error;
  }
  blob.close();
}
