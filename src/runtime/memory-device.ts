import type { Barrier } from "./file-system.ts";
import { DirectoryNode, FileNode, type MemoryNode } from "./memory-nodes.ts";
import { Turns } from "./turns.ts";

/** Names of what a device is asked to do; `sync` is a barrier on a file, `sync-directory` one on a directory. */
export type Operation =
  | "open"
  | "list"
  | "stat"
  | "make-directory"
  | "remove"
  | "rename"
  | "lock"
  | "read"
  | "write"
  | "truncate"
  | "allocate"
  | "sync"
  | "sync-directory";

/** What lies below a file system in memory: what can fail, what lasts, and when queued work runs. */
export interface Device {
  readonly turns: Turns;
  createFile(): FileNode;
  createDirectory(): DirectoryNode;
  /** Throws a FileSystemError to make the operation fail before it had any effect. */
  before(operation: Operation, path: string): void;
  /** Called after an operation that changed something or made it durable. */
  after(operation: Operation, path: string): void;
  /** Room for new blocks; Infinity without a bound. */
  readonly freeBytes: number;
  /** How many of a write's bytes the device takes; fewer than `length` is a full device. */
  takes(node: FileNode, length: number, position: number): number;
  /** How many of the `count` bytes that are there a read returns. */
  returns(path: string, count: number): number;
  /** How many of a write's `count` bytes are written in one piece, at least 1; the rest follows by itself. */
  writesAtOnce(path: string, count: number): number;
  /** A barrier begins; the result ends it and throws when it fails. */
  beginBarrier(node: MemoryNode, path: string, barrier: Barrier): () => void;
  /** Calls `resume` once a queued barrier may end. */
  whenBarrierMayEnd(path: string, resume: () => void): void;
  /** False once nothing works any more; queued work is dropped then. */
  readonly powered: boolean;
}

/** Memory that never fails and forgets everything. */
export class PlainDevice implements Device {
  readonly turns: Turns;
  readonly powered = true;
  readonly freeBytes = Number.POSITIVE_INFINITY;
  #number = 0;

  constructor(turns: Turns = new Turns("auto")) {
    this.turns = turns;
  }

  createFile(): FileNode {
    return new FileNode(this.nextNumber());
  }

  createDirectory(): DirectoryNode {
    return new DirectoryNode(this.nextNumber());
  }

  protected nextNumber(): number {
    return ++this.#number;
  }

  before(): void {}

  after(): void {}

  takes(_node: FileNode, length: number): number {
    return length;
  }

  returns(_path: string, count: number): number {
    return count;
  }

  writesAtOnce(_path: string, count: number): number {
    return count;
  }

  beginBarrier(): () => void {
    return () => {};
  }

  whenBarrierMayEnd(_path: string, resume: () => void): void {
    resume();
  }
}
