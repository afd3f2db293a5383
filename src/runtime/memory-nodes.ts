import { Pages } from "./memory-pages.ts";
import type { DirectoryJournal } from "./simulated-entries.ts";
import type { FileJournal } from "./simulated-journal.ts";

/** The bytes of a file. What was never written reads as zeros. */
export interface FileBytes {
  readonly length: number;
  /** Bytes of memory held. */
  readonly allocatedBytes: number;
  /** Bytes of new memory that a write to [position, position + length) would need. */
  missingBytes(position: number, length: number): number;
  read(buffer: Uint8Array, offset: number, length: number, position: number): number;
  write(bytes: Uint8Array, offset: number, length: number, position: number): void;
  /** Cuts off, or extends with zeros. */
  resize(length: number): void;
  /** The file is gone: its memory may be given back at once. */
  release?(): void;
}

/** A file's inode: its bytes as every reader sees them, and on a simulated disk what a power cut may undo. */
export class FileNode {
  readonly kind = "file";
  readonly number: number;
  links = 0;
  /** Open files that refer to it. */
  handles = 0;
  readonly pages: FileBytes;
  readonly journal: FileJournal | undefined;

  constructor(number: number, pages: FileBytes = new Pages(), journal?: FileJournal) {
    this.number = number;
    this.pages = pages;
    this.journal = journal;
  }

  write(bytes: Uint8Array, offset: number, length: number, position: number): void {
    this.pages.write(bytes, offset, length, position);
    this.journal?.wrote(bytes, offset, length, position);
  }

  resize(length: number): void {
    this.journal?.resized(this.pages.length, length);
    this.pages.resize(length);
  }

  /** To be called when a name or a handle went away: what nobody can reach any more is given back. */
  dropped(): void {
    if (this.links === 0 && this.handles === 0) this.pages.release?.();
  }
}

/** A directory's inode. */
export class DirectoryNode {
  readonly kind = "directory";
  readonly number: number;
  links = 1;
  readonly entries = new Map<string, MemoryNode>();
  readonly journal: DirectoryJournal | undefined;

  constructor(number: number, journal?: DirectoryJournal) {
    this.number = number;
    this.journal = journal;
  }
}

export type MemoryNode = FileNode | DirectoryNode;

/** One name of one directory now meaning `node`, or nothing. */
export interface EntryChange {
  readonly directory: DirectoryNode;
  readonly name: string;
  readonly node: MemoryNode | undefined;
}

/** Makes changes that are one step: on a disk that journals, all of them survive a power cut or none. */
export function changeEntries(changes: readonly EntryChange[]): void {
  for (const { directory, name, node } of changes) {
    if (node === undefined) directory.entries.delete(name);
    else directory.entries.set(name, node);
  }
  for (const directory of new Set(changes.map((change) => change.directory))) directory.journal?.changed(changes);
}
