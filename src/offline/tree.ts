import { dirname } from "node:path";
import { buf as crc32cOf } from "crc-32/crc32c.js";
import { makeDurableDirectory } from "../log/data-directory.ts";
import { LOCK_FILE, WRITE_PROBE_FILE } from "../log/names.ts";
import type { DirectoryEntry, File, FileSystem } from "../runtime/file-system.ts";
import type { BytesDone } from "./counted-files.ts";
import { unrepresentable } from "./manifest.ts";
import { OfflineError } from "./offline-error.ts";

/** Trees of files as backup and restore move them: one buffer, file after file. */

const COPY_BUFFER_BYTES = 1024 * 1024;

/** Deeper than any data directory; a tree below it is not one. */
const MAX_DEPTH = 16;

/** What every ext file system has in its topmost directory, which may be a data directory. */
const LOST_AND_FOUND = "lost+found";

export interface TreeFile {
  /** Relative, `/` between its parts. */
  readonly path: string;
  readonly sizeBytes: number;
}

export interface Tree {
  /** A directory's files by name, then its subdirectories' (storage.md 21.1). */
  readonly files: readonly TreeFile[];
  /** Sockets, pipes and devices, which hold nothing that could be copied. */
  readonly skipped: readonly string[];
}

/**
 * Whether `path`, or the place where it is going to be, is the directory `directory` or lies below it, whatever symbolic
 * links lead there. Throws FileSystemError.
 */
export function contains(files: FileSystem, directory: string, path: string): boolean {
  const wanted = files.stat(directory);
  let place = path;
  let status = files.stat(place);
  while (status === undefined) {
    place = dirname(place);
    status = files.stat(place);
  }
  for (;;) {
    if (status.device === wanted?.device && status.inode === wanted.inode) return true;
    // A directory's own idea of its parent: the path may have come through a link.
    place = status.kind === "directory" ? `${place}/..` : dirname(place);
    const parent = files.stat(place);
    if (parent === undefined || (parent.device === status.device && parent.inode === status.inode)) return false;
    status = parent;
  }
}

/** What an entry at the top of a data directory must not be for the directory to count as empty. */
export function isContent({ name }: DirectoryEntry): boolean {
  return name !== LOCK_FILE && name !== WRITE_PROBE_FILE && name !== LOST_AND_FOUND;
}

/**
 * All that a backup of the data directory `root` holds. Throws OfflineError UnsupportedEntry for a symbolic link, whose
 * target a copy would lose or take twice, and for a name that no manifest can hold; FileSystemError.
 */
export function listTree(files: FileSystem, root: string): Tree {
  const found: TreeFile[] = [];
  const skipped: string[] = [];
  const descend = (prefix: string, depth: number): void => {
    const directory = prefix === "" ? root : `${root}/${prefix.slice(0, -1)}`;
    if (depth > MAX_DEPTH) throw new OfflineError("UnsupportedEntry", `${directory} is nested too deeply`);
    const entries = files.list(directory).filter((entry) => prefix !== "" || isContent(entry));
    entries.sort((left, right) => Buffer.compare(Buffer.from(left.name), Buffer.from(right.name)));
    for (const { name, kind } of entries) {
      const path = `${directory}/${name}`;
      const problem = kind === "symlink" ? "it is a symbolic link" : unrepresentable(name);
      if (problem !== undefined) {
        throw new OfflineError("UnsupportedEntry", `cannot back up ${JSON.stringify(path)}: ${problem}`);
      }
      if (kind === "file") found.push({ path: `${prefix}${name}`, sizeBytes: files.stat(path)?.size ?? 0 });
      if (kind === "other") skipped.push(path);
    }
    for (const { name, kind } of entries) {
      if (kind === "directory") descend(`${prefix}${name}/`, depth + 1);
    }
  };
  descend("", 1);
  return { files: found, skipped };
}

/** Everything that counts as content, down to the last directory, but for what `keep` names at the top. */
export function clearTree(files: FileSystem, root: string, keep: string): void {
  const clear = (directory: string): void => {
    for (const entry of files.list(directory)) {
      if (directory === root && (!isContent(entry) || entry.name === keep)) continue;
      const path = `${directory}/${entry.name}`;
      if (entry.kind === "directory") {
        clear(path);
        files.removeDirectory(path);
      } else {
        files.remove(path);
      }
    }
    files.syncDirectory(directory);
  };
  clear(root);
}

/** A file's bytes as they were read: how many, and their CRC-32C. */
export interface Content {
  readonly crc: number;
  readonly lengthBytes: number;
}

/** Reads every file of `list` below `from`. Throws FileSystemError and what `check` throws. */
export function readTree<Listed extends { readonly path: string }>(
  files: FileSystem,
  from: string,
  list: readonly Listed[],
  done: BytesDone,
  check: (listed: Listed, content: Content) => void,
): void {
  const buffer = new Uint8Array(COPY_BUFFER_BYTES);
  for (const listed of list) check(listed, readContent(files, `${from}/${listed.path}`, buffer, done));
}

function readContent(files: FileSystem, path: string, buffer: Uint8Array, done: BytesDone): Content {
  const file = files.open(path, "read");
  try {
    return eachChunk(file, buffer, done, () => {});
  } finally {
    file.close();
  }
}

/**
 * Copies a file to `to`, which must not exist, and syncs it. Blocks of zeros, as a preallocated segment ends in, are left
 * to the file system as a hole. Throws FileSystemError.
 */
export function copyContent(files: FileSystem, from: string, to: string, buffer: Uint8Array, done: BytesDone): Content {
  const source = files.open(from, "read");
  try {
    const target = files.open(to, "create-new");
    try {
      const content = eachChunk(source, buffer, done, (length, position) => {
        if (!isZero(buffer, length)) target.write(buffer, 0, length, position);
      });
      target.truncate(content.lengthBytes);
      target.sync("full");
      return content;
    } finally {
      target.close();
    }
  } finally {
    source.close();
  }
}

/**
 * Copies the files `list` from below `from` to below `to`, where none of them may exist, makes the directories they need,
 * and makes all of it durable. `check` sees each file's path and content before the next one is begun. Throws what `check`
 * throws and FileSystemError; what was copied until then stays.
 */
export function copyTree<Listed extends { readonly path: string }>(
  files: FileSystem,
  from: string,
  to: string,
  list: readonly Listed[],
  done: BytesDone,
  check: (listed: Listed, content: Content) => void,
): void {
  const buffer = new Uint8Array(COPY_BUFFER_BYTES);
  makeDurableDirectory(files, to);
  const directories = new Set([to]);
  for (const listed of list) {
    const target = `${to}/${listed.path}`;
    const directory = target.slice(0, target.lastIndexOf("/"));
    if (!directories.has(directory)) makeDurableDirectory(files, directory);
    directories.add(directory);
    check(listed, copyContent(files, `${from}/${listed.path}`, target, buffer, done));
  }
  for (const directory of directories) files.syncDirectory(directory);
}

function eachChunk(
  file: File,
  buffer: Uint8Array,
  done: BytesDone,
  take: (length: number, position: number) => void,
): Content {
  let crc = 0;
  let position = 0;
  for (;;) {
    const length = file.read(buffer, 0, buffer.length, position);
    if (length === 0) return { crc: crc >>> 0, lengthBytes: position };
    crc = crc32cOf(buffer.subarray(0, length), crc);
    take(length, position);
    position += length;
    done(length);
  }
}

const ZEROS = Buffer.alloc(64 * 1024);

function isZero(buffer: Uint8Array, length: number): boolean {
  for (let at = 0; at < length; at += ZEROS.length) {
    const end = Math.min(length, at + ZEROS.length);
    if (ZEROS.compare(buffer, at, end, 0, end - at) !== 0) return false;
  }
  return true;
}
