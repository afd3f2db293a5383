import { DataDirectoryError, makeDurableDirectory } from "../log/data-directory.ts";
import { RESTORING_LAYOUT_VERSION, writeLayoutMarker } from "../log/layout-marker.ts";
import { LAYOUT_FILE } from "../log/names.ts";
import { readWhole } from "../log/whole-file.ts";
import type { Codec } from "../runtime/codec.ts";
import type { FileSystem, Lock } from "../runtime/file-system.ts";
import { BACKUP_DATA } from "./backup.ts";
import { MANIFEST_FILE, MAX_MANIFEST_BYTES, type Manifest, type ManifestFile, parseManifest } from "./manifest.ts";
import { OfflineError } from "./offline-error.ts";
import type { Progress } from "./progress.ts";
import { lockStopped } from "./stopped-directory.ts";
import { type Content, clearTree, contains, copyContent, copyTree, isContent, readTree } from "./tree.ts";

/** The restored layout marker until it takes its place. */
const STAGED_LAYOUT_FILE = ".ironbus-restored-layout";
const STAGE_BUFFER_BYTES = 4096;

export interface RestoreReport {
  readonly manifest: Manifest;
  readonly bytes: number;
}

export interface RestoreOptions {
  readonly from: string;
  readonly dataDirectory: string;
  /** Replaces what is in the data directory. */
  readonly force: boolean;
  readonly progress?: Progress;
}

/**
 * Makes the data directory what it was when the backup `from` was taken (storage.md 21.2). Every byte of the backup is
 * checked before the first one is written; on any error until then the target is as it was. From then until the last
 * file is durable the target carries a layout marker that no broker opens, so an interrupted restore is never served.
 * Memory is one buffer and the list of files. Throws OfflineError, DataDirectoryError and FileSystemError.
 */
export function restore(files: FileSystem, codec: Codec, options: RestoreOptions): RestoreReport {
  const { from, dataDirectory, force, progress = () => {} } = options;
  if (files.stat(from) === undefined) throw new OfflineError("NotFound", `no backup at ${from}`);
  if (contains(files, from, dataDirectory) || contains(files, dataDirectory, from)) {
    throw new OfflineError(
      "OverlappingDirectories",
      `the backup ${from} and the data directory ${dataDirectory} must not lie inside each other`,
    );
  }
  let lock = openTarget(files, dataDirectory, force);
  try {
    const manifest = readManifest(files, from);
    const bytes = manifest.files.reduce((sum, file) => sum + file.lengthBytes, 0);
    let doneBytes = 0;
    const done = (count: number): void => {
      doneBytes += count;
      // Every byte is read twice: to be checked, and to be copied.
      progress(doneBytes, 2 * bytes);
    };
    checkContent(files, from, manifest.files, done);
    if (lock === undefined) {
      makeDurableDirectory(files, dataDirectory);
      lock = openTarget(files, dataDirectory, force);
    }
    fill(files, codec, { from, to: dataDirectory, list: manifest.files, done });
    return { manifest, bytes };
  } finally {
    lock?.release();
  }
}

/** The lock of a target that is there and may be filled; undefined when it has yet to be created. */
function openTarget(files: FileSystem, dataDirectory: string, force: boolean): Lock | undefined {
  const status = files.stat(dataDirectory);
  if (status === undefined) return undefined;
  if (status.kind !== "directory") {
    throw new DataDirectoryError("NotADirectory", `data dir ${dataDirectory} exists but is not a directory`);
  }
  const lock = lockStopped(files, dataDirectory, "restore into");
  const entries = files.list(dataDirectory).filter(isContent).length;
  if (entries === 0 || force) return lock;
  lock?.release();
  const noun = entries === 1 ? "entry" : "entries";
  throw new OfflineError(
    "TargetNotEmpty",
    `target data directory is not empty (${entries} existing ${noun}); pass --force to overwrite`,
  );
}

function readManifest(files: FileSystem, from: string): Manifest {
  const path = `${from}/${MANIFEST_FILE}`;
  const status = files.stat(path);
  if (status?.kind !== "file") {
    throw new OfflineError("InvalidManifest", `invalid backup manifest: ${path} is missing`);
  }
  if (status.size > MAX_MANIFEST_BYTES) {
    throw new OfflineError("InvalidManifest", `invalid backup manifest: ${status.size} bytes are too many`);
  }
  return parseManifest(readWhole(files, path, status.size));
}

function checkContent(
  files: FileSystem,
  from: string,
  list: readonly ManifestFile[],
  done: (bytes: number) => void,
): void {
  // Lengths first: a file that is missing or cut is found before gigabytes were read.
  for (const listed of list) {
    const status = files.stat(`${from}/${BACKUP_DATA}/${listed.path}`);
    if (status?.kind !== "file") throw corrupt(listed, status === undefined ? "it is missing" : "it is no file");
    if (status.size !== listed.lengthBytes) {
      throw corrupt(listed, `it has ${status.size} byte(s) instead of ${listed.lengthBytes}`);
    }
  }
  readTree(files, `${from}/${BACKUP_DATA}`, list, done, requireContent);
}

function requireContent(listed: ManifestFile, content: Content): void {
  if (content.lengthBytes !== listed.lengthBytes || content.crc !== listed.crc) {
    throw corrupt(listed, `its checksum is ${content.crc} instead of ${listed.crc}`);
  }
}

function corrupt(listed: ManifestFile, detail: string): OfflineError {
  return new OfflineError("CorruptBackup", `corrupt or incomplete backup: ${BACKUP_DATA}/${listed.path}: ${detail}`);
}

interface Filling {
  readonly from: string;
  readonly to: string;
  readonly list: readonly ManifestFile[];
  readonly done: (bytes: number) => void;
}

/** Puts the checked files in place of whatever is there. */
function fill(files: FileSystem, codec: Codec, { from, to, list, done }: Filling): void {
  // Should this fail, the target still holds what it did.
  writeLayoutMarker(files, to, codec, RESTORING_LAYOUT_VERSION);
  files.syncDirectory(to);
  try {
    clearTree(files, to, LAYOUT_FILE);
    copyTree(
      files,
      `${from}/${BACKUP_DATA}`,
      to,
      list.filter(({ path }) => path !== LAYOUT_FILE),
      done,
      requireContent,
    );
    const layout = list.find(({ path }) => path === LAYOUT_FILE);
    if (layout === undefined) {
      files.remove(`${to}/${LAYOUT_FILE}`);
    } else {
      const staged = `${to}/${STAGED_LAYOUT_FILE}`;
      const buffer = new Uint8Array(STAGE_BUFFER_BYTES);
      requireContent(layout, copyContent(files, `${from}/${BACKUP_DATA}/${LAYOUT_FILE}`, staged, buffer, done));
      files.rename(staged, `${to}/${LAYOUT_FILE}`);
    }
    files.syncDirectory(to);
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    throw new OfflineError(
      "Interrupted",
      `restoring into ${to}: ${detail}; what is there now is incomplete and no broker opens it: restore again, with --force`,
      { cause: error },
    );
  }
}
