import type { Barrier } from "./file-system.ts";
import { FileSystemError } from "./file-system.ts";
import type { Device, Operation } from "./memory-device.ts";
import { DirectoryNode, FileNode, type MemoryNode } from "./memory-nodes.ts";
import type { SeededRandom } from "./random-seeded.ts";
import { DirectoryJournal } from "./simulated-entries.ts";
import { FileJournal } from "./simulated-journal.ts";
import type { Turns } from "./turns.ts";

/** Which operations a fault hits: those of a kind, on paths that match, after `skip` of them, `times` in a row. */
export interface FaultTarget {
  readonly operation: Operation;
  /** Tested against the path as the caller gave it. Default: any path. */
  readonly path?: RegExp;
  /** Operations that pass before the fault begins. Default 0. */
  readonly skip?: number;
  /** Operations that it hits. Default 1; Infinity for a fault that stays. */
  readonly times?: number;
}

type Effect = { readonly code: string } | { readonly mostBytes: number };

interface Fault {
  readonly target: FaultTarget;
  readonly effect: Effect;
  skip: number;
  times: number;
}

interface HeldBarrier {
  readonly path: string;
  readonly resume: () => void;
}

/** A disk that loses what no barrier covered and fails where it is told to. */
export class SimulatedDevice implements Device {
  readonly turns: Turns;
  readonly random: SeededRandom;
  /** Room for new blocks, in bytes; what files free comes back only by setting it. */
  freeBytes = Number.POSITIVE_INFINITY;
  powered = true;
  /** Number of operations that changed something or made it durable. */
  operations = 0;
  onOperation: ((operation: Operation, path: string) => void) | undefined;
  #number: number;
  #faults: Fault[] = [];
  #hold: RegExp | undefined;
  #held: HeldBarrier[] = [];

  /** Inode numbers follow `lastNumber`. */
  constructor(turns: Turns, random: SeededRandom, lastNumber = 0) {
    this.turns = turns;
    this.random = random;
    this.#number = lastNumber;
  }

  createFile(): FileNode {
    return new FileNode(++this.#number, undefined, new FileJournal());
  }

  createDirectory(): DirectoryNode {
    return new DirectoryNode(++this.#number, new DirectoryJournal());
  }

  /** The next inode number, for nodes that are restored. */
  nextNumber(): number {
    return ++this.#number;
  }

  addFault(target: FaultTarget, effect: Effect): void {
    this.#faults.push({ target, effect, skip: target.skip ?? 0, times: target.times ?? 1 });
  }

  clearFaults(): void {
    this.#faults = [];
  }

  before(operation: Operation, path: string): void {
    if (!this.powered) throw new FileSystemError("EIO", operation, path, "the power is off");
    const effect = this.#hit(operation, path, (fault) => "code" in fault.effect);
    if (effect !== undefined && "code" in effect) throw new FileSystemError(effect.code, operation, path);
  }

  after(operation: Operation, path: string): void {
    this.operations++;
    this.onOperation?.(operation, path);
  }

  takes(node: FileNode, length: number, position: number): number {
    if (this.freeBytes === Number.POSITIVE_INFINITY) return length;
    let taken = length;
    while (taken > 0 && node.pages.missingBytes(position, taken) > this.freeBytes) {
      // Back to the start of the last block that the write touches.
      const end = position + taken;
      taken = Math.max(0, end - (end % 4096 || 4096) - position);
    }
    this.freeBytes -= node.pages.missingBytes(position, taken);
    return taken;
  }

  returns(path: string, count: number): number {
    return this.#shorten("read", path, count);
  }

  writesAtOnce(path: string, count: number): number {
    return Math.max(1, this.#shorten("write", path, count));
  }

  beginBarrier(node: MemoryNode, path: string, barrier: Barrier): () => void {
    const { journal } = node;
    const mark = journal?.mark ?? 0;
    return () => {
      const operation = node instanceof DirectoryNode ? "sync-directory" : "sync";
      try {
        this.before(operation, path);
      } catch (error) {
        if (this.powered && node instanceof FileNode) node.journal?.fail(mark, this.random);
        throw error;
      }
      if (node instanceof DirectoryNode) node.journal?.persist(node, mark);
      else node.journal?.persist(mark, barrier);
      this.after(operation, path);
    };
  }

  whenBarrierMayEnd(path: string, resume: () => void): void {
    if (this.#hold?.test(path)) this.#held.push({ path, resume });
    else resume();
  }

  get heldBarriers(): number {
    return this.#held.length;
  }

  holdBarriers(path: RegExp): void {
    this.#hold = path;
  }

  releaseBarriers(): void {
    this.#hold = undefined;
    for (const { resume } of this.#held.splice(0)) {
      this.turns.add(() => {
        if (this.powered) resume();
      });
    }
  }

  #shorten(operation: "read" | "write", path: string, count: number): number {
    const effect = this.#hit(operation, path, (fault) => "mostBytes" in fault.effect);
    return effect !== undefined && "mostBytes" in effect ? Math.min(count, effect.mostBytes) : count;
  }

  #hit(operation: Operation, path: string, wanted: (fault: Fault) => boolean): Effect | undefined {
    for (const fault of this.#faults) {
      const { target } = fault;
      if (target.operation !== operation || !wanted(fault) || target.path?.test(path) === false) continue;
      if (fault.skip > 0) {
        fault.skip--;
        continue;
      }
      if (fault.times === 0) continue;
      fault.times--;
      return fault.effect;
    }
    return undefined;
  }
}
