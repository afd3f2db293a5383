import { makeDurableDirectory } from "../log/data-directory.ts";
import { inspectLog } from "../log/inspection.ts";
import { parseGroupCheckpointName } from "../log/names.ts";
import type { Codec } from "../runtime/codec.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { countDeadLetters, DEAD_LETTER_SINK } from "./dead-letters.ts";
import { formatManifest, MANIFEST_FILE, type Manifest, type ManifestFile } from "./manifest.ts";
import { OfflineError } from "./offline-error.ts";
import type { Progress } from "./progress.ts";
import { lockStopped, requireLogRoot } from "./stopped-directory.ts";
import { contains, copyTree, isContent, listTree, type TreeFile } from "./tree.ts";

/** Where the copy of the data directory is in a backup. */
export const BACKUP_DATA = "data";

export interface BackupReport {
  readonly manifest: Manifest;
  readonly bytes: number;
  /** Entries without content of their own (sockets, pipes, devices), which were left out. */
  readonly skipped: readonly string[];
  /** Whether recovery would give something up; the backup holds the damage as it is. */
  readonly damaged: boolean;
}

export interface BackupOptions {
  readonly dataDirectory: string;
  readonly out: string;
  readonly progress?: Progress;
}

/**
 * Copies a stopped data directory, every file of it but `LOCK`, to `<out>/data` and then writes `<out>/MANIFEST`: without
 * it the directory is no backup (storage.md 21.1). Holds the data directory's lock meanwhile and changes nothing in it.
 * Memory is one buffer and the list of files. Throws OfflineError, DataDirectoryError, FileSystemError, and StorageError
 * for a directory that does not open as a log at all; damage that recovery would skip is copied as it is.
 */
export function backUp(files: FileSystem, codec: Codec, options: BackupOptions): BackupReport {
  const { dataDirectory, out, progress = () => {} } = options;
  requireLogRoot(files, dataDirectory);
  if (contains(files, dataDirectory, out)) {
    throw new OfflineError(
      "OverlappingDirectories",
      `the backup ${out} must not lie inside the data directory ${dataDirectory}`,
    );
  }
  const lock = lockStopped(files, dataDirectory, "back up");
  try {
    requireEmptyTarget(files, out);
    const log = inspectLog(files, codec, dataDirectory);
    const tree = listTree(files, dataDirectory);
    const described = {
      earliestRetained: log.earliestOffset,
      durableHead: log.nextOffset,
      cursors: tree.files.filter(({ path }) => parseGroupCheckpointName(path)?.kind === "cursor").length,
      dlqRecords: countDeadLetters(files, codec, `${dataDirectory}/${DEAD_LETTER_SINK}`),
    };
    refuseTooMany(described, tree.files);
    makeDurableDirectory(files, out);

    const totalBytes = tree.files.reduce((sum, file) => sum + file.sizeBytes, 0);
    let doneBytes = 0;
    const copied: ManifestFile[] = [];
    copyTree(
      files,
      dataDirectory,
      `${out}/${BACKUP_DATA}`,
      tree.files,
      (bytes) => {
        doneBytes += bytes;
        progress(doneBytes, totalBytes);
      },
      ({ path }, content) => copied.push({ ...content, path }),
    );
    const manifest: Manifest = { ...described, files: copied };
    writeManifest(files, out, formatManifest(manifest));
    const bytes = copied.reduce((sum, file) => sum + file.lengthBytes, 0);
    return { manifest, bytes, skipped: tree.skipped, damaged: log.losses.length > 0 };
  } finally {
    lock?.release();
  }
}

/** Throws OfflineError when the manifest would be too long, checksums being as long as they can be. */
function refuseTooMany(described: Omit<Manifest, "files">, files: readonly TreeFile[]): void {
  const longest = files.map(({ path, sizeBytes }) => ({ crc: 0xffff_ffff, lengthBytes: sizeBytes, path }));
  formatManifest({ ...described, files: longest });
}

function requireEmptyTarget(files: FileSystem, out: string): void {
  const status = files.stat(out);
  if (status === undefined) return;
  if (status.kind !== "directory") {
    throw new OfflineError("TargetNotEmpty", `backup directory ${out} exists but is not a directory`);
  }
  const entries = files.list(out).filter(isContent).length;
  if (entries > 0) {
    throw new OfflineError(
      "TargetNotEmpty",
      `backup directory ${out} is not empty (${entries} existing ${entries === 1 ? "entry" : "entries"})`,
    );
  }
}

function writeManifest(files: FileSystem, out: string, bytes: Uint8Array): void {
  const file = files.open(`${out}/${MANIFEST_FILE}`, "create-new");
  try {
    file.write(bytes, 0, bytes.length, 0);
    file.sync("full");
  } finally {
    file.close();
  }
  files.syncDirectory(out);
}
