import type { Clock } from "../runtime/clock.ts";
import { type File, type FileStatus, type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import type { SegmentEntry } from "./segment-entry.ts";

/** How often the paths are compared with what is open: before an ack relies on a barrier, at least once a second. */
const CHECK_MS = 500;

/** Why `path` does not lead to the open `file` any more, or undefined while it does. `what` names it. */
export function identityProblem(files: FileSystem, path: string, file: File, what: string): string | undefined {
  try {
    const open = file.status();
    const named = files.stat(path);
    if (named === undefined) return `${what} was removed`;
    if (named.device !== open.device || named.inode !== open.inode) return `${what} was replaced`;
    return undefined;
  } catch (error) {
    return `${what} cannot be examined (${(error as Error).message})`;
  }
}

/**
 * Notices that the log root or its active segment is not any more what is open under its path: removed, moved away,
 * replaced, hidden by a mount (README ruling 12). Acknowledging into a file that nobody will find again is data loss.
 */
export class IdentityCheck {
  readonly #files: FileSystem;
  readonly #clock: Clock;
  readonly #directory: File;
  readonly #root: FileStatus;
  #checkedMs: number;

  /** `directory` is the log root, open. */
  constructor(files: FileSystem, clock: Clock, directory: File) {
    this.#files = files;
    this.#clock = clock;
    this.#directory = directory;
    this.#root = directory.status();
    this.#checkedMs = clock.monotonicMs();
  }

  /** The problem, if the last look was half a second ago and there is one now. */
  dueProblem(active: SegmentEntry | undefined): Error | undefined {
    return this.#clock.monotonicMs() - this.#checkedMs < CHECK_MS ? undefined : this.problem(active);
  }

  /** The problem, if there is one. `active` is the segment that is written to, none between a seal and a creation. */
  problem(active: SegmentEntry | undefined): Error | undefined {
    this.#checkedMs = this.#clock.monotonicMs();
    const file = active?.file;
    if (active !== undefined && file !== undefined) {
      const problem = identityProblem(this.#files, active.path, file, "the active segment file");
      if (problem !== undefined) return new Error(`${problem}: ${active.path}`);
    }
    const problem = this.#directoryProblem();
    return problem === undefined ? undefined : new Error(`${problem}: ${this.#directory.path}`);
  }

  /**
   * Whether the log root's path leads to the log root, asked now. Changes nothing about when problems are due. Asked by
   * those who save a last position as well, when the log and with it the open directory is closed.
   */
  get rootHolds(): boolean {
    try {
      const named = this.#files.stat(this.#directory.path);
      return named?.device === this.#root.device && named.inode === this.#root.inode;
    } catch (error) {
      if (error instanceof FileSystemError) return false;
      throw error;
    }
  }

  #directoryProblem(): string | undefined {
    return identityProblem(this.#files, this.#directory.path, this.#directory, "the log's directory");
  }
}
