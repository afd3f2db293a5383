import { posix } from "node:path";
import type {
  DirectoryEntry,
  File,
  FileStatus,
  FileSystem,
  FreeSpace,
  IoQueue,
  Lock,
  OpenMode,
} from "./file-system.ts";
import { FileSystemError } from "./file-system.ts";
import { MemoryQueue } from "./io-queue-memory.ts";
import { type Device, type Operation, PlainDevice } from "./memory-device.ts";
import { MemoryFile, toStatus } from "./memory-file.ts";
import { changeEntries, DirectoryNode, type MemoryNode } from "./memory-nodes.ts";

/**
 * A file system that lives and dies with the process (storage.md 22): same names, same errors, same order of events as
 * on a disk. Relative paths start at the root.
 */
export class MemoryFileSystem implements FileSystem {
  protected readonly root: DirectoryNode;
  readonly #device: Device;
  readonly #locked = new Set<MemoryNode>();
  /** The memory that direct writes take: what alignedBuffer() gave out. */
  readonly #aligned = new WeakSet<ArrayBufferLike>();

  constructor(device: Device = new PlainDevice(), root: DirectoryNode = device.createDirectory()) {
    this.#device = device;
    this.root = root;
  }

  open(path: string, mode: OpenMode): File {
    return this.#open(path, mode, "open");
  }

  openDirect(path: string, mode: "write" | "create-new"): File {
    return this.#open(path, mode, "open", this.#aligned);
  }

  openDirectory(path: string): File {
    this.#device.before("open", path);
    const node = this.#find(path, "open");
    if (node === undefined) throw new FileSystemError("ENOENT", "open", path);
    if (!(node instanceof DirectoryNode)) throw new FileSystemError("ENOTDIR", "open", path);
    return new MemoryFile(this.#device, path, node, false);
  }

  list(path: string): DirectoryEntry[] {
    this.#device.before("list", path);
    const node = this.#find(path, "list");
    if (node === undefined) throw new FileSystemError("ENOENT", "list", path);
    if (!(node instanceof DirectoryNode)) throw new FileSystemError("ENOTDIR", "list", path);
    const names = [...node.entries.keys()].sort();
    return names.map((name) => ({ name, kind: node.entries.get(name)!.kind }));
  }

  stat(path: string): FileStatus | undefined {
    this.#device.before("stat", path);
    try {
      const node = this.#find(path, "stat");
      return node === undefined ? undefined : toStatus(node);
    } catch (error) {
      if (error instanceof FileSystemError && error.code === "ENOTDIR") return undefined;
      throw error;
    }
  }

  makeDirectory(path: string): void {
    this.#device.before("make-directory", path);
    let directory = this.root;
    for (const name of parts(path)) {
      let next = directory.entries.get(name);
      if (next === undefined) {
        next = this.#device.createDirectory();
        changeEntries([{ directory, name, node: next }]);
        this.#device.after("make-directory", path);
      }
      if (!(next instanceof DirectoryNode)) throw new FileSystemError("EEXIST", "make-directory", path);
      directory = next;
    }
  }

  remove(path: string): void {
    this.#device.before("remove", path);
    const { directory, name } = this.#place(path, "remove");
    const node = directory.entries.get(name);
    if (node === undefined) throw new FileSystemError("ENOENT", "remove", path);
    if (node instanceof DirectoryNode) throw new FileSystemError("EISDIR", "remove", path);
    node.links--;
    changeEntries([{ directory, name, node: undefined }]);
    node.dropped();
    this.#device.after("remove", path);
  }

  removeDirectory(path: string): void {
    this.#device.before("remove", path);
    const { directory, name } = this.#place(path, "remove");
    const node = directory.entries.get(name);
    if (node === undefined) throw new FileSystemError("ENOENT", "remove", path);
    if (!(node instanceof DirectoryNode)) throw new FileSystemError("ENOTDIR", "remove", path);
    if (node.entries.size > 0) throw new FileSystemError("ENOTEMPTY", "remove", path);
    node.links--;
    changeEntries([{ directory, name, node: undefined }]);
    this.#device.after("remove", path);
  }

  rename(from: string, to: string): void {
    this.#device.before("rename", from);
    const source = this.#place(from, "rename");
    const target = this.#place(to, "rename");
    const node = source.directory.entries.get(source.name);
    const replaced = target.directory.entries.get(target.name);
    if (node === undefined) throw new FileSystemError("ENOENT", "rename", from);
    if (node === replaced) return;
    if (replaced instanceof DirectoryNode) throw new FileSystemError("EISDIR", "rename", to);
    if (replaced !== undefined) replaced.links--;
    changeEntries([
      { ...source, node: undefined },
      { ...target, node },
    ]);
    replaced?.dropped();
    this.#device.after("rename", from);
  }

  syncDirectory(path: string): void {
    const directory = this.openDirectory(path);
    directory.sync("full");
    directory.close();
  }

  lock(path: string): Lock | undefined {
    this.#device.before("lock", path);
    const { node } = this.#open(path, "create", "lock");
    if (this.#locked.has(node)) return undefined;
    this.#locked.add(node);
    return { release: () => void this.#locked.delete(node) };
  }

  /** As of a device on which others took a GiB; undefined while nothing bounds it. */
  freeSpace(): FreeSpace | undefined {
    const { freeBytes } = this.#device;
    return freeBytes === Number.POSITIVE_INFINITY ? undefined : { freeBytes, totalBytes: freeBytes + 2 ** 30 };
  }

  createQueue(): IoQueue {
    return new MemoryQueue(this.#device);
  }

  alignedBuffer(length: number): Uint8Array {
    const buffer = new Uint8Array(length);
    this.#aligned.add(buffer.buffer);
    return buffer;
  }

  /** The inode that a path leads to. */
  protected nodeAt(path: string): MemoryNode | undefined {
    return this.#find(path, "stat");
  }

  #open(path: string, mode: OpenMode, operation: Operation, direct?: WeakSet<ArrayBufferLike>): MemoryFile {
    this.#device.before("open", path);
    const { directory, name } = this.#place(path, operation);
    let node = directory.entries.get(name);
    if (node !== undefined && mode === "create-new") throw new FileSystemError("EEXIST", operation, path);
    if (node instanceof DirectoryNode) throw new FileSystemError("EISDIR", operation, path);
    if (node === undefined) {
      if (mode === "read" || mode === "write") throw new FileSystemError("ENOENT", operation, path);
      node = this.#device.createFile();
      node.links++;
      changeEntries([{ directory, name, node }]);
      this.#device.after("open", path);
    }
    return new MemoryFile(this.#device, path, node, mode !== "read", direct);
  }

  #find(path: string, operation: Operation): MemoryNode | undefined {
    let node: MemoryNode = this.root;
    for (const name of parts(path)) {
      if (!(node instanceof DirectoryNode)) throw new FileSystemError("ENOTDIR", operation, path);
      const next = node.entries.get(name);
      if (next === undefined) return undefined;
      node = next;
    }
    return node;
  }

  #place(path: string, operation: Operation): { directory: DirectoryNode; name: string } {
    const directory = this.#find(posix.dirname(posix.resolve("/", path)), operation);
    if (directory === undefined) throw new FileSystemError("ENOENT", operation, path);
    if (!(directory instanceof DirectoryNode)) throw new FileSystemError("ENOTDIR", operation, path);
    const name = posix.basename(path);
    if (Buffer.byteLength(name) > 255) throw new FileSystemError("ENAMETOOLONG", operation, path);
    return { directory, name };
  }
}

function parts(path: string): string[] {
  return posix
    .resolve("/", path)
    .split("/")
    .filter((part) => part !== "");
}
