import { FileSystemError } from "./file-system.ts";
import { MemoryFileSystem } from "./file-system-memory.ts";
import type { Operation } from "./memory-device.ts";
import { DirectoryNode, FileNode, type MemoryNode } from "./memory-nodes.ts";
import type { Pages } from "./memory-pages.ts";
import { SeededRandom } from "./random-seeded.ts";
import { type FaultTarget, SimulatedDevice } from "./simulated-device.ts";
import { DirectoryJournal } from "./simulated-entries.ts";
import { type CutStyle, FileJournal, flip } from "./simulated-journal.ts";
import { Turns } from "./turns.ts";

export interface SimulatedOptions {
  /** Decides everything that is left open. Default 1. */
  readonly seed?: number;
  /**
   * When queued jobs go on: one step a macrotask (`auto`, the default), or only by `step` and `runAll` (`manual`, the
   * order across queues then chosen by the seed), or with whatever shares the given Turns.
   */
  readonly turns?: "auto" | "manual" | Turns;
}

export interface CutOptions {
  /** What becomes of changes that no barrier covers. Default: chosen by the seed, for each file and directory. */
  readonly style?: CutStyle;
  /** Default: drawn from this file system's own seed, so that two cuts in a row differ. */
  readonly seed?: number;
  /** When queued jobs of the image go on, as in SimulatedOptions. */
  readonly turns?: SimulatedOptions["turns"];
}

const STYLES: readonly CutStyle[] = ["lost", "kept", "prefix", "writes", "scattered"];

/**
 * A file system in memory with a disk's ways of failing (storage.md 22), the same for the same seed:
 *
 * - durable is what a barrier covered: fdatasync the bytes and growth of a file, not a shrink; fsync both; a barrier on
 *   a directory the names in it, made, removed and renamed;
 * - a power cut keeps, loses, reorders or tears (at 512 bytes) everything else;
 * - a failed barrier leaves its changes on the disk or drops them for good, and a later barrier does not tell.
 */
export class SimulatedFileSystem extends MemoryFileSystem {
  readonly #device: SimulatedDevice;

  /** `survives` is the machine that goes on after one of its processes was killed (see `kill`). */
  constructor(
    options: SimulatedOptions = {},
    survives?: { readonly root: DirectoryNode; readonly lastNumber: number },
  ) {
    const random = new SeededRandom(options.seed ?? 1);
    const { turns = "auto" } = options;
    const ownTurns = turns instanceof Turns ? turns : new Turns(turns, random.fork());
    const device = new SimulatedDevice(ownTurns, random, survives?.lastNumber);
    // The root is there before anything else and needs no barrier.
    super(device, survives?.root ?? new DirectoryNode(device.nextNumber(), new DirectoryJournal()));
    this.#device = device;
  }

  /** Runs one step of a queued job; false when nothing waits. */
  step(): boolean {
    return this.#device.turns.step();
  }

  /** Runs steps until nothing waits (a held barrier does not count). Returns how many. */
  runAll(): number {
    return this.#device.turns.runAll();
  }

  /** Operations so far that changed something or made it durable: the places where a power cut can fall. */
  get operations(): number {
    return this.#device.operations;
  }

  /** Called after each such operation. */
  set onOperation(listener: ((operation: Operation, path: string) => void) | undefined) {
    this.#device.onOperation = listener;
  }

  /** Makes operations fail with the errno name, before they have any effect. */
  fail(target: FaultTarget & { readonly code: string }): void {
    this.#device.addFault(target, { code: target.code });
  }

  /** Makes reads return at most so many bytes, as if the file ended there. */
  shortenReads(target: Omit<FaultTarget, "operation"> & { readonly mostBytes: number }): void {
    this.#device.addFault({ ...target, operation: "read" }, { mostBytes: target.mostBytes });
  }

  /**
   * Makes writes come in pieces of so many bytes, as the kernel does when it is interrupted: each piece is an operation
   * of its own, between two of which a power cut can fall. The caller sees one write.
   */
  shortenWrites(target: Omit<FaultTarget, "operation"> & { readonly mostBytes: number }): void {
    this.#device.addFault({ ...target, operation: "write" }, { mostBytes: target.mostBytes });
  }

  /** Forgets faults that have not hit yet. */
  clearFaults(): void {
    this.#device.clearFaults();
  }

  /**
   * Leaves room for this many bytes of new blocks (4096 each); what does not fit fails with ENOSPC after a short write.
   * Blocks that a file already has can still be overwritten.
   */
  limitSpace(freeBytes: number): void {
    this.#device.freeBytes = freeBytes;
  }

  /** Barriers of queued jobs on matching paths do not end until releaseBarriers(). Blocking barriers are not held. */
  holdBarriers(path = /^/): void {
    this.#device.holdBarriers(path);
  }

  releaseBarriers(): void {
    this.#device.releaseBarriers();
  }

  get heldBarriers(): number {
    return this.#device.heldBarriers;
  }

  /** Damages a file: flips one bit (0 to 7) of one byte, in what is read now and in what is durable. */
  flipBit(path: string, position: number, bit: number): void {
    const node = this.nodeAt(path);
    if (!(node instanceof FileNode)) throw new FileSystemError("ENOENT", "read", path);
    flip(node.pages, position, bit);
    node.journal?.flipBit(position, bit);
  }

  /** Cuts the power: this file system is dead from now on, and the result is what the next start may find. */
  cutPower(options: CutOptions = {}): SimulatedFileSystem {
    const image = this.imageAfterPowerCut(options);
    this.#device.powered = false;
    return image;
  }

  /**
   * Kills the process: this file system is dead from now on, its queued jobs are dropped and its locks free. The result is
   * the same machine as the next process finds it: all that was written, and still no more of it durable than before.
   */
  kill(options: SimulatedOptions = {}): SimulatedFileSystem {
    this.#device.powered = false;
    const seed = options.seed ?? this.#device.random.word();
    return new SimulatedFileSystem({ ...options, seed }, { root: this.root, lastNumber: this.#device.nextNumber() });
  }

  /** A disk at rest with what readers see now, all of it durable, while this file system goes on. */
  copyAsSeen(options: SimulatedOptions = {}): SimulatedFileSystem {
    const image = new SimulatedFileSystem({ seed: options.seed ?? this.#device.random.word(), turns: options.turns });
    copyEntries(this.root, image.root, image.#device, new Map());
    return image;
  }

  /** What a power cut now may leave, while this file system goes on. The image is at rest, without faults or locks. */
  imageAfterPowerCut(options: CutOptions = {}): SimulatedFileSystem {
    const seed = options.seed ?? this.#device.random.word();
    const image = new SimulatedFileSystem({ seed, turns: options.turns });
    new Restoration(image.#device, new SeededRandom(seed), options.style).fill(this.root, image.root);
    return image;
  }
}

/** Copies a tree of inodes as every reader sees it; `copied` keeps one copy for each file, however many names it has. */
function copyEntries(
  from: DirectoryNode,
  to: DirectoryNode,
  device: SimulatedDevice,
  copied: Map<FileNode, FileNode>,
): void {
  for (const [name, node] of from.entries) {
    if (node instanceof DirectoryNode) {
      const copy = device.createDirectory();
      copyEntries(node, copy, device, copied);
      to.entries.set(name, copy);
      continue;
    }
    // Every file of a simulated disk has such pages.
    const pages = (node.pages as Pages).clone();
    const copy = copied.get(node) ?? new FileNode(device.nextNumber(), pages, FileJournal.of(pages));
    copied.set(node, copy);
    copy.links += 1;
    to.entries.set(name, copy);
  }
  to.journal!.settle(to.entries);
}

/** Copies a tree of inodes as a power cut leaves it. */
class Restoration {
  readonly #device: SimulatedDevice;
  readonly #random: SeededRandom;
  readonly #style: CutStyle | undefined;
  readonly #decided = new Map();
  readonly #restored = new Map<FileNode, FileNode>();

  constructor(device: SimulatedDevice, random: SeededRandom, style: CutStyle | undefined) {
    this.#device = device;
    this.#random = random;
    this.#style = style;
  }

  fill(from: DirectoryNode, to: DirectoryNode): void {
    const entries = from.journal!.afterPowerCut(from, this.#pickStyle(), this.#random, this.#decided);
    for (const [name, node] of entries) {
      const copy = this.#restore(node);
      copy.links += copy instanceof FileNode ? 1 : 0;
      to.entries.set(name, copy);
    }
    to.journal!.settle(to.entries);
  }

  #restore(node: MemoryNode): MemoryNode {
    if (node instanceof DirectoryNode) {
      const copy = this.#device.createDirectory();
      this.fill(node, copy);
      return copy;
    }
    let copy = this.#restored.get(node);
    if (copy === undefined) {
      const pages = node.journal!.afterPowerCut(this.#pickStyle(), this.#random);
      copy = new FileNode(this.#device.nextNumber(), pages, FileJournal.of(pages));
      this.#restored.set(node, copy);
    }
    return copy;
  }

  #pickStyle(): CutStyle {
    return this.#style ?? STYLES[this.#random.below(STYLES.length)];
  }
}
