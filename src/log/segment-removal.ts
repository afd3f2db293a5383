import { type File, type FileSystem, FileSystemError, type IoQueue } from "../runtime/file-system.ts";
import { timeIndexName } from "./names.ts";
import type { SegmentEntry } from "./segment-entry.ts";

/** `removed` segments are gone for good; `error` says what kept the others, which stay in the log. */
export type RemovalDone = (removed: number, error: Error | undefined) => void;

/**
 * Removes the oldest segments of a log one by one: unlink, barrier on the directory, and only then it is forgotten (storage.md
 * 14.5). One barrier for several would let a power cut take a younger one and leave an older: a hole in the log.
 * Whatever fails is tried again by the next removal; nothing depends on the space being free.
 */
export class SegmentRemoval {
  readonly #segments: SegmentEntry[];
  readonly #root: string;
  readonly #files: FileSystem;
  readonly #queue: IoQueue;
  readonly #directory: File;
  /** Its name is gone, the barrier still to come. */
  #unlinked: SegmentEntry | undefined;
  #running = false;
  #stopped = false;

  /** `segments` is the writer's own list; `directory` the log root, open for its barrier. */
  constructor(segments: SegmentEntry[], root: string, files: FileSystem, queue: IoQueue, directory: File) {
    this.#segments = segments;
    this.#root = root;
    this.#files = files;
    this.#queue = queue;
    this.#directory = directory;
  }

  /**
   * Begins to remove the `count` oldest segments, fewer if there are not as many sealed ones; the last of the list stays in
   * any case, since the log's offsets go on from it. `mayGo` is asked before each, `forget` called for each as it leaves the
   * list. False when a removal is under way or there is nothing to remove: `done` is not called then.
   */
  begin(count: number, mayGo: () => boolean, forget: (segment: SegmentEntry) => void, done: RemovalDone): boolean {
    if (this.#running || !this.#oldestMayGo(count) || !mayGo()) return false;
    this.#running = true;
    let removed = 0;
    const next = (): void => {
      let problem: FileSystemError | undefined;
      try {
        this.#unlink(this.#segments[0]);
      } catch (error) {
        if (!(error instanceof FileSystemError)) throw error;
        problem = error;
      }
      this.#queue.submit({
        file: this.#directory,
        barrier: problem === undefined ? "full" : "none",
        done: (error) => ended(problem ?? error),
      });
    };
    const ended = (error: FileSystemError | undefined): void => {
      if (error === undefined) {
        this.#unlinked = undefined;
        forget(this.#segments.shift() as SegmentEntry);
        removed += 1;
        if (!this.#stopped && this.#oldestMayGo(count - removed) && mayGo()) {
          next();
          return;
        }
      }
      this.#running = false;
      done(removed, error);
    };
    next();
    return true;
  }

  /** Nothing is removed after the one under way. */
  stop(): void {
    this.#stopped = true;
  }

  #oldestMayGo(wanted: number): boolean {
    return wanted > 0 && this.#segments.length > 1 && this.#segments[0].sealed;
  }

  #unlink(segment: SegmentEntry): void {
    if (this.#unlinked === segment) return;
    // Who reads from it until it is forgotten finds it by its open file alone.
    if (segment.file === undefined && this.#files.stat(segment.path) !== undefined) {
      segment.file = this.#files.open(segment.path, "read");
    }
    removeIfPresent(this.#files, `${this.#root}/${timeIndexName(segment.id)}`);
    removeIfPresent(this.#files, segment.path);
    segment.unlinked = true;
    this.#unlinked = segment;
  }
}

function removeIfPresent(files: FileSystem, path: string): void {
  try {
    files.remove(path);
  } catch (error) {
    if (!(error instanceof FileSystemError) || error.code !== "ENOENT") throw error;
  }
}
