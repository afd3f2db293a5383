import { dirname } from "node:path";
import type { Codec } from "../runtime/codec.ts";
import { type FileSystem, FileSystemError, type Lock } from "../runtime/file-system.ts";
import { isDiskFull } from "./disk-full.ts";
import { layoutNeedsMarker } from "./layout-marker.ts";
import { LOCK_FILE, SHARED_WAL_DIRECTORY, WRITE_PROBE_FILE } from "./names.ts";
import { StorageError } from "./storage-error.ts";

/**
 * Why a data directory cannot be used (storage.md 2.1). The command line maps the kind to its exit code (cli.md 1.3):
 * `NotADirectory` 1, `NotFound` 2, `Locked` 70 for a broker and 5 for an offline verb, the others 70.
 */
export type DataDirectoryErrorKind =
  | "NotADirectory"
  | "NotFound"
  | "CannotCreate"
  | "NotWritable"
  | "Locked"
  | "CannotLock";

export class DataDirectoryError extends Error {
  override readonly name = "DataDirectoryError";
  readonly kind: DataDirectoryErrorKind;

  constructor(kind: DataDirectoryErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

export interface DataDirectory {
  readonly path: string;
  /** To be released when the process is done with the directory. */
  readonly lock: Lock;
  /** Why the write probe failed, when the disk is full: to be served without publishing (README ruling 11). */
  readonly diskFull: FileSystemError | undefined;
}

export interface DataDirectoryOptions {
  /** False for offline verbs: an absent directory is an error instead of being created. Default true. */
  readonly create?: boolean;
}

/**
 * Prepares and locks the data directory at `path`: creates it (mode 0700, with parents), probes that it can be written,
 * takes the exclusive lock. A directory of a newer layout or of shared mode is refused before anything is written.
 * Throws DataDirectoryError, StorageError and, when the directory cannot be examined, FileSystemError.
 */
export function openDataDirectory(
  files: FileSystem,
  codec: Codec,
  path: string,
  options: DataDirectoryOptions = {},
): DataDirectory {
  if (options.create !== false) createIfAbsent(files, path);
  requireDataDirectory(files, path);
  layoutNeedsMarker(files, path, codec);
  const diskFull = probe(files, path);
  return { path, lock: takeLock(files, path), diskFull };
}

/**
 * Checks that `path` is a data directory this build can read: it exists and is not in shared mode. Throws
 * DataDirectoryError NotFound or NotADirectory, StorageError UnsupportedFeature.
 */
export function requireDataDirectory(files: FileSystem, path: string): void {
  const status = files.stat(path);
  if (status === undefined) throw new DataDirectoryError("NotFound", `no data directory at ${path}`);
  if (status.kind !== "directory") throw notADirectory(path);
  if (files.stat(`${path}/${SHARED_WAL_DIRECTORY}`)?.kind === "directory") {
    throw new StorageError("UnsupportedFeature", `${path} holds a shared commit log (${SHARED_WAL_DIRECTORY}/)`);
  }
}

/**
 * Creates the directory `path` and its missing parents, mode 0700, so that a power cut takes none of them back: what is
 * in a directory is only as durable as the directory's name. One that is there may have been made a moment ago, by a start
 * that ended before its barrier or by hand: its name gets one too. Throws FileSystemError.
 */
export function makeDurableDirectory(files: FileSystem, path: string): void {
  let existing = path;
  while (files.stat(existing) === undefined && dirname(existing) !== existing) existing = dirname(existing);
  if (existing !== path) files.makeDirectory(path);
  for (let parent = path; parent !== existing; ) {
    parent = dirname(parent);
    files.syncDirectory(parent);
  }
  syncNames(files, existing);
}

/** What an ordinary user gets for a directory that he may pass and not read, and what a file system without such barriers says. */
const NO_BARRIER = new Set(["EACCES", "EPERM", "EINVAL", "EROFS", "EOPNOTSUPP", "ENOTSUP"]);

/** A barrier on every directory above `path`, up to where its file system is mounted. */
function syncNames(files: FileSystem, path: string): void {
  const device = files.stat(path)?.device;
  for (let parent = dirname(path); ; parent = dirname(parent)) {
    if (files.stat(parent)?.device !== device) return;
    try {
      files.syncDirectory(parent);
    } catch (error) {
      if (!(error instanceof FileSystemError) || !NO_BARRIER.has(error.code)) throw error;
    }
    if (dirname(parent) === parent) return;
  }
}

function createIfAbsent(files: FileSystem, path: string): void {
  try {
    makeDurableDirectory(files, path);
  } catch (error) {
    // Nothing that resolves, and yet a name in the way: a symlink that leads nowhere.
    if (error instanceof FileSystemError && error.code === "EEXIST") throw notADirectory(path);
    throw wrap("CannotCreate", `cannot create data dir ${path}`, error);
  }
}

function notADirectory(path: string): DataDirectoryError {
  return new DataDirectoryError("NotADirectory", `data dir ${path} exists but is not a directory`);
}

/** Creates, syncs and removes a file of one byte, so that a full disk shows. */
function probe(files: FileSystem, path: string): FileSystemError | undefined {
  const probePath = `${path}/${WRITE_PROBE_FILE}`;
  try {
    const file = files.open(probePath, "create");
    try {
      file.write(new Uint8Array(1), 0, 1, 0);
      file.sync("full");
    } finally {
      file.close();
    }
    files.remove(probePath);
    return undefined;
  } catch (error) {
    removeIfPresent(files, probePath);
    if (error instanceof FileSystemError && isDiskFull(error)) return error;
    throw wrap("NotWritable", `data dir ${path} is not writable`, error);
  }
}

function removeIfPresent(files: FileSystem, path: string): void {
  try {
    if (files.stat(path) !== undefined) files.remove(path);
  } catch {
    // The probe's own failure says more; a leftover probe file means nothing.
  }
}

function takeLock(files: FileSystem, path: string): Lock {
  let lock: Lock | undefined;
  try {
    lock = files.lock(`${path}/${LOCK_FILE}`);
  } catch (error) {
    throw wrap("CannotLock", `cannot lock data dir ${path}`, error);
  }
  if (lock !== undefined) return lock;
  throw new DataDirectoryError(
    "Locked",
    `another ironbus broker is already running on ${path} (its data dir is locked)`,
  );
}

function wrap(kind: DataDirectoryErrorKind, message: string, cause: unknown): DataDirectoryError {
  const detail = cause instanceof Error ? cause.message : String(cause);
  return new DataDirectoryError(kind, `${message}: ${detail}`, { cause });
}
