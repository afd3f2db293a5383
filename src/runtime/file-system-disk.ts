import * as fs from "node:fs";
import { toFileSystemError } from "./errno.ts";
import { findLocker } from "./file-lock.ts";
import type {
  Barrier,
  DirectoryEntry,
  EntryKind,
  File,
  FileStatus,
  FileSystem,
  FreeSpace,
  IoQueue,
  Lock,
  OpenMode,
} from "./file-system.ts";
import { FileSystemError } from "./file-system.ts";
import { ThreadPoolQueue } from "./io-queue-pool.ts";
import { ThreadQueue } from "./io-queue-thread.ts";
import type { NativeIo } from "./native-io.ts";
import { requireWritable } from "./require-writable.ts";

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_DIRECTORY } = fs.constants;

/** Linux only, and another number on each of its architectures. */
const O_DIRECT: number | undefined = fs.constants.O_DIRECT;

const OPEN_FLAGS: Record<OpenMode, number> = {
  read: O_RDONLY,
  write: O_RDWR,
  create: O_RDWR | O_CREAT,
  "create-new": O_RDWR | O_CREAT | O_EXCL,
};

/**
 * The machine's files. With the addon, jobs run on one thread per queue, blocks are reserved by fallocate and memory is
 * aligned; without it (`addon` undefined) jobs share the runtime's thread pool, `allocate` only extends, and
 * `alignedBuffer` is plain memory, which buffered I/O takes as well. The bytes on disk are the same.
 */
export function createDiskFileSystem(addon: NativeIo | undefined): FileSystem {
  return new DiskFileSystem(addon);
}

class DiskFileSystem implements FileSystem {
  readonly #addon: NativeIo | undefined;

  constructor(addon: NativeIo | undefined) {
    this.#addon = addon;
  }

  open(path: string, mode: OpenMode): File {
    return new DiskFile(
      path,
      attempt("open", path, () => fs.openSync(path, OPEN_FLAGS[mode])),
      this.#addon,
    );
  }

  openDirect(path: string, mode: "write" | "create-new"): File {
    // Memory at an address that such writes take comes from the addon.
    if (O_DIRECT === undefined || this.#addon === undefined) {
      throw new FileSystemError("EOPNOTSUPP", "open", path, "there are no direct writes here");
    }
    const flags = OPEN_FLAGS[mode] | O_DIRECT;
    const file = new DiskFile(
      path,
      attempt("open", path, () => fs.openSync(path, flags)),
      this.#addon,
    );
    try {
      file.readThrough(attempt("open", path, () => fs.openSync(path, O_RDONLY)));
    } catch (error) {
      file.close();
      throw error;
    }
    return file;
  }

  openDirectory(path: string): File {
    return new DiskFile(
      path,
      attempt("open", path, () => fs.openSync(path, O_RDONLY | O_DIRECTORY)),
      this.#addon,
    );
  }

  list(path: string): DirectoryEntry[] {
    return attempt("list", path, () => fs.readdirSync(path, { withFileTypes: true }))
      .map((entry) => ({ name: entry.name, kind: kindOf(entry) }))
      .sort((left, right) => (left.name < right.name ? -1 : left.name > right.name ? 1 : 0));
  }

  stat(path: string): FileStatus | undefined {
    try {
      return toStatus(fs.statSync(path));
    } catch (cause) {
      const error = toFileSystemError(cause, "stat", path);
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
      throw error;
    }
  }

  makeDirectory(path: string): void {
    attempt("make-directory", path, () => fs.mkdirSync(path, { recursive: true, mode: 0o700 }));
  }

  remove(path: string): void {
    attempt("remove", path, () => fs.unlinkSync(path));
  }

  removeDirectory(path: string): void {
    attempt("remove", path, () => fs.rmdirSync(path));
  }

  rename(from: string, to: string): void {
    attempt("rename", from, () => fs.renameSync(from, to));
  }

  syncDirectory(path: string): void {
    const directory = this.openDirectory(path);
    try {
      directory.sync("full");
    } finally {
      directory.close();
    }
  }

  lock(path: string): Lock | undefined {
    const locker = findLocker(this.#addon);
    const fd = attempt("lock", path, () => fs.openSync(path, O_RDWR | O_CREAT));
    try {
      const held = attempt("lock", path, () => locker(fd));
      if (held !== undefined) return new DiskLock(held, fd);
    } catch (error) {
      fs.closeSync(fd);
      throw error;
    }
    fs.closeSync(fd);
    return undefined;
  }

  freeSpace(path: string): FreeSpace | undefined {
    const { bsize, bavail, blocks } = attempt("statfs", path, () => fs.statfsSync(path));
    // Some network and user-space file systems answer with zeros.
    return blocks > 0 ? { freeBytes: bavail * bsize, totalBytes: blocks * bsize } : undefined;
  }

  createQueue(): IoQueue {
    return this.#addon === undefined ? new ThreadPoolQueue() : new ThreadQueue(this.#addon);
  }

  alignedBuffer(length: number): Uint8Array {
    return this.#addon === undefined ? new Uint8Array(length) : this.#addon.alignedBuffer(length);
  }
}

class DiskLock implements Lock {
  readonly #held: Lock;
  readonly #fd: number;
  #released = false;

  constructor(held: Lock, fd: number) {
    this.#held = held;
    this.#fd = fd;
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#held.release();
    fs.closeSync(this.#fd);
  }
}

/** An open descriptor; two of them where writes are direct. */
export class DiskFile implements File {
  readonly path: string;
  readonly #addon: NativeIo | undefined;
  /** Jobs of queues that refer to this file and are not done. */
  jobs = 0;
  #fd: number;
  /** Another descriptor of the same file, if reads must not go through the first one. */
  #readFd = -1;

  constructor(path: string, fd: number, addon: NativeIo | undefined) {
    this.path = path;
    this.#fd = fd;
    this.#addon = addon;
  }

  /** The descriptor, for a queue. Throws EBADF after close(): the number may be another file's by then. */
  get fd(): number {
    this.requireOpen();
    return this.#fd;
  }

  /**
   * Has reads go through `fd`, which close() closes as well. Throws ESTALE when that is another file: the path was replaced
   * between the two opens.
   */
  readThrough(fd: number): void {
    this.#readFd = fd;
    const [mine, other] = [this.#fd, fd].map((each) => attempt("stat", this.path, () => fs.fstatSync(each)));
    if (mine.ino === other.ino && mine.dev === other.dev) return;
    throw new FileSystemError("ESTALE", "open", this.path, "the path leads to another file by now");
  }

  requireOpen(): void {
    if (this.#fd < 0) throw new FileSystemError("EBADF", "use", this.path, "the file is closed");
  }

  read(buffer: Uint8Array, offset: number, length: number, position: number): number {
    this.requireOpen();
    const fd = this.#readFd < 0 ? this.#fd : this.#readFd;
    let done = 0;
    while (done < length) {
      const count = attempt("read", this.path, () =>
        fs.readSync(fd, buffer, offset + done, length - done, position + done),
      );
      if (count === 0) break;
      done += count;
    }
    return done;
  }

  write(buffer: Uint8Array, offset: number, length: number, position: number): void {
    const fd = this.fd;
    let done = 0;
    while (done < length) {
      const count = attempt("write", this.path, () =>
        fs.writeSync(fd, buffer, offset + done, length - done, position + done),
      );
      if (count === 0) throw new FileSystemError("EIO", "write", this.path, "the device took no bytes");
      done += count;
    }
  }

  status(): FileStatus {
    const fd = this.fd;
    return toStatus(attempt("stat", this.path, () => fs.fstatSync(fd)));
  }

  truncate(length: number): void {
    const fd = this.fd;
    attempt("truncate", this.path, () => fs.ftruncateSync(fd, length));
  }

  allocate(length: number): void {
    const fd = this.fd;
    attempt("allocate", this.path, () => {
      if (fs.fstatSync(fd).size >= length) return;
      if (this.#addon === undefined) fs.ftruncateSync(fd, length);
      else this.#addon.fallocate(fd, length);
    });
  }

  sync(barrier: Barrier): void {
    const fd = this.fd;
    if (barrier === "none") return;
    attempt("sync", this.path, () => {
      if (barrier === "data") fs.fdatasyncSync(fd);
      else fs.fsyncSync(fd);
      requireWritable(fd);
    });
  }

  close(): void {
    if (this.#fd < 0) return;
    // The number would be reused and a job of this file would write to another one.
    if (this.jobs > 0) throw new Error(`${this.path} closed with ${this.jobs} job(s) queued`);
    const [fd, readFd] = [this.#fd, this.#readFd];
    this.#fd = -1;
    this.#readFd = -1;
    if (readFd >= 0) attempt("close", this.path, () => fs.closeSync(readFd));
    attempt("close", this.path, () => fs.closeSync(fd));
  }
}

function attempt<T>(operation: string, path: string, call: () => T): T {
  for (;;) {
    try {
      return call();
    } catch (cause) {
      const error = toFileSystemError(cause, operation, path);
      if (error.code !== "EINTR" || operation === "close") throw error;
    }
  }
}

function kindOf(entry: { isFile(): boolean; isDirectory(): boolean; isSymbolicLink(): boolean }): EntryKind {
  if (entry.isFile()) return "file";
  if (entry.isDirectory()) return "directory";
  return entry.isSymbolicLink() ? "symlink" : "other";
}

function toStatus(stats: fs.Stats): FileStatus {
  return { kind: kindOf(stats), size: stats.size, device: stats.dev, inode: stats.ino, links: stats.nlink };
}
