import type { Barrier, File, FileStatus } from "./file-system.ts";
import { DIRECT_BLOCK_BYTES, FileSystemError } from "./file-system.ts";
import type { Device, Operation } from "./memory-device.ts";
import { DirectoryNode, type FileNode, type MemoryNode } from "./memory-nodes.ts";

/** An open file or directory of a file system in memory. */
export class MemoryFile implements File {
  readonly path: string;
  readonly node: MemoryNode;
  /** Jobs of queues that refer to this file and are not done. */
  jobs = 0;
  readonly #device: Device;
  readonly #writable: boolean;
  readonly #aligned: WeakSet<ArrayBufferLike> | undefined;
  #open = true;

  /** `aligned`: the memory that writes may come from, if they are direct ones. */
  constructor(device: Device, path: string, node: MemoryNode, writable: boolean, aligned?: WeakSet<ArrayBufferLike>) {
    this.#device = device;
    this.path = path;
    this.node = node;
    this.#writable = writable;
    this.#aligned = aligned;
    if (!(node instanceof DirectoryNode)) node.handles += 1;
  }

  read(buffer: Uint8Array, offset: number, length: number, position: number): number {
    const { pages } = this.#file("read");
    this.#device.before("read", this.path);
    const there = Math.max(0, Math.min(length, pages.length - position));
    return pages.read(buffer, offset, this.#device.returns(this.path, there), position);
  }

  write(buffer: Uint8Array, offset: number, length: number, position: number): void {
    const node = this.#file("write");
    this.#device.before("write", this.path);
    this.#checkAlignment(buffer, offset, length, position);
    const pieceBytes = length > 0 ? this.#device.writesAtOnce(this.path, length) : 1;
    for (let done = 0; done === 0 || done < length; done += pieceBytes) {
      const piece = Math.min(pieceBytes, length - done);
      const taken = this.#device.takes(node, piece, position + done);
      node.write(buffer, offset + done, taken, position + done);
      this.#device.after("write", this.path);
      if (taken < piece) throw new FileSystemError("ENOSPC", "write", this.path);
      if (!this.#device.powered) throw new FileSystemError("EIO", "write", this.path, "the power is off");
    }
  }

  status(): FileStatus {
    this.#check("stat");
    return toStatus(this.node);
  }

  truncate(length: number): void {
    const node = this.#file("truncate");
    this.#device.before("truncate", this.path);
    node.resize(length);
    this.#device.after("truncate", this.path);
  }

  allocate(length: number): void {
    const node = this.#file("allocate");
    this.#device.before("allocate", this.path);
    if (length > node.pages.length) node.resize(length);
    this.#device.after("allocate", this.path);
  }

  sync(barrier: Barrier): void {
    if (barrier !== "none") this.beginBarrier(barrier)();
  }

  requireOpen(): void {
    this.#check("use");
  }

  /** The first half of a barrier; the result is the second one and throws when the barrier fails. */
  beginBarrier(barrier: Barrier): () => void {
    this.#check("sync");
    return this.#device.beginBarrier(this.node, this.path, barrier);
  }

  close(): void {
    if (this.jobs > 0) throw new Error(`${this.path} closed with ${this.jobs} job(s) queued`);
    if (!this.#open) return;
    this.#open = false;
    if (this.node instanceof DirectoryNode) return;
    this.node.handles -= 1;
    this.node.dropped();
  }

  /** As strict as the strictest device, so that a test finds what only some machine would. */
  #checkAlignment(buffer: Uint8Array, offset: number, length: number, position: number): void {
    if (this.#aligned === undefined) return;
    const whole = [buffer.byteOffset + offset, length, position].every((value) => value % DIRECT_BLOCK_BYTES === 0);
    if (whole && this.#aligned.has(buffer.buffer)) return;
    throw new FileSystemError("EINVAL", "write", this.path, `a direct write of ${length} bytes to ${position}`);
  }

  #check(operation: Operation | "use"): void {
    if (!this.#open) throw new FileSystemError("EBADF", operation, this.path, "the file is closed");
  }

  #file(operation: Operation): FileNode {
    this.#check(operation);
    if (this.node instanceof DirectoryNode) throw new FileSystemError("EISDIR", operation, this.path);
    if (operation !== "read" && !this.#writable) throw new FileSystemError("EBADF", operation, this.path);
    return this.node;
  }
}

/** What stat reports of an inode. */
export function toStatus(node: MemoryNode): FileStatus {
  const size = node instanceof DirectoryNode ? 0 : node.pages.length;
  return { kind: node.kind, size, device: 1, inode: node.number, links: node.links };
}
