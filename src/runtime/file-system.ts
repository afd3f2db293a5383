/**
 * The disk seam. Everything the broker knows about files passes through here, so that the same log runs on a real
 * disk, in memory, and on a simulated disk that loses, tears and reorders unsynced writes.
 */

/** What kind of barrier a job ends with. `data` is fdatasync, `full` is fsync; both are F_FULLFSYNC on Apple targets. */
export type Barrier = "none" | "data" | "full";

/** A failed file operation. `code` is the errno name (`ENOSPC`, `EIO`, `ENOENT`, ...), `operation` the call that failed. */
export class FileSystemError extends Error {
  override readonly name = "FileSystemError";
  readonly code: string;
  readonly operation: string;
  readonly path: string;

  constructor(code: string, operation: string, path: string, detail?: string) {
    super(`${operation} ${path}: ${detail ?? code}`);
    this.code = code;
    this.operation = operation;
    this.path = path;
  }
}

export type EntryKind = "file" | "directory" | "symlink" | "other";

export interface DirectoryEntry {
  readonly name: string;
  readonly kind: EntryKind;
}

export interface FileStatus {
  readonly kind: EntryKind;
  /** Bytes, as the directory entry's inode says. */
  readonly size: number;
  /** Identity of the inode: two paths with equal device and inode are the same file. */
  readonly device: number;
  readonly inode: number;
  /** Number of names the inode has; 0 once it was unlinked everywhere. */
  readonly links: number;
}

/** An open file (or directory, for its barrier). All positions and lengths are bytes, whole numbers below 2^53. */
export interface File {
  readonly path: string;
  /** Positioned read; returns the bytes read, fewer than `length` only at the end of the file. Throws FileSystemError. */
  read(buffer: Uint8Array, offset: number, length: number, position: number): number;
  /** Positioned write of all of `length` (short writes are continued). Throws FileSystemError. */
  write(buffer: Uint8Array, offset: number, length: number, position: number): void;
  /** Status of the open inode itself, whatever its path points to now. */
  status(): FileStatus;
  truncate(length: number): void;
  /** Reserves blocks up to `length` and extends the logical length to it; never shrinks. Errors are the caller's to ignore. */
  allocate(length: number): void;
  /** Blocking barrier; for start-up, shutdown and rare paths. The path of a record uses an IoQueue. */
  sync(barrier: Barrier): void;
  /** Idempotent. Must not be called while a job on the file is queued. */
  close(): void;
}

/** One unit of work for an IoQueue. Steps run in the order of the fields; the first failure ends the job. */
export interface IoJob {
  readonly file: File;
  /** Positioned write of all of `length`. The buffer belongs to the queue until `done`. */
  readonly write?: {
    readonly buffer: Uint8Array;
    readonly offset: number;
    readonly length: number;
    readonly position: number;
  };
  /** Sets the file's length after the write. */
  readonly truncateTo?: number;
  /** Reserves and extends to this length. A failure here is ignored (storage.md 14.4). */
  readonly allocateTo?: number;
  readonly barrier: Barrier;
  /**
   * With barrier `none`: has the kernel begin to write the job's bytes to the disk, so that a later barrier has less to do.
   * Nothing is durable by it. A hint that not every queue can follow; errors are ignored.
   */
  readonly writeback?: boolean;
  /** Called once, on the main thread, never from within submit(). */
  readonly done: (error: FileSystemError | undefined) => void;
}

/** Runs jobs one after the other, in order, off the main thread. One queue per log: a stalled disk stalls only its log. */
export interface IoQueue {
  submit(job: IoJob): void;
  /** Jobs submitted and not yet done. */
  readonly pending: number;
  /** Refuses new jobs and calls back when the queued ones are done. */
  close(done: () => void): void;
}

export interface Lock {
  release(): void;
}

/** Bytes of a whole file system. */
export interface FreeSpace {
  /** What an ordinary user may still take. */
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/**
 * - `read`: must exist; reads only
 * - `write`: must exist; reads and writes
 * - `create`: created when absent, never truncated; reads and writes
 * - `create-new`: must be absent (EEXIST); reads and writes
 */
export type OpenMode = "read" | "write" | "create" | "create-new";

/** Direct writes: address, position and length are multiples of this, whatever the device itself would take. */
export const DIRECT_BLOCK_BYTES = 4096;

export interface FileSystem {
  open(path: string, mode: OpenMode): File;
  /**
   * Opens a file whose writes go around the page cache (storage.md 16): memory of alignedBuffer(), and address, position
   * and length in multiples of DIRECT_BLOCK_BYTES, or the write fails with EINVAL. Reads are ordinary ones. Throws
   * FileSystemError: EOPNOTSUPP where this host has no such writes, EINVAL where only the file system has none.
   */
  openDirect(path: string, mode: "write" | "create-new"): File;
  /** Opens a directory for its barrier (`sync`, or an IoJob's barrier). */
  openDirectory(path: string): File;
  /** Entries of one directory, not following symlinks, sorted by name. */
  list(path: string): DirectoryEntry[];
  /** Status of what the path resolves to (symlinks followed), or undefined when there is nothing. */
  stat(path: string): FileStatus | undefined;
  /** Creates the directory and its missing parents with mode 0700; existing ones are left alone. */
  makeDirectory(path: string): void;
  remove(path: string): void;
  /** Removes an empty directory (ENOTEMPTY otherwise). */
  removeDirectory(path: string): void;
  rename(from: string, to: string): void;
  /** Barrier on a directory: creations, renames and removals in it are durable afterwards. */
  syncDirectory(path: string): void;
  /** flock(LOCK_EX|LOCK_NB) on the file, created if absent. Undefined when another holder has it; throws on other errors. */
  lock(path: string): Lock | undefined;
  /** Space of the file system that `path` is on; undefined when it has no bound or does not say. Throws FileSystemError. */
  freeSpace(path: string): FreeSpace | undefined;
  createQueue(): IoQueue;
  /** Memory fit for positioned and direct writes: zeroed, its address a multiple of 4096. */
  alignedBuffer(length: number): Uint8Array;
}
