import { type File, type FileSystem, FileSystemError, type IoQueue } from "../runtime/file-system.ts";
import { timeIndexName } from "./names.ts";
import type { SegmentEntry } from "./segment-entry.ts";

/** `removed` segments are gone for good; `error` says what kept the others, which stay in the log. */
export type RemovalDone = (removed: number, error: Error | undefined) => void;

/**
 * Removes the oldest segments of a log: unlink, barrier on the directory, and only then they are forgotten (storage.md
 * 14.5). Whatever fails is tried again by the next removal; nothing depends on the space being free.
 */
export class SegmentRemoval {
  readonly #segments: SegmentEntry[];
  readonly #root: string;
  readonly #files: FileSystem;
  readonly #queue: IoQueue;
  readonly #directory: File;
  /** Names that are gone, their barrier still to come. */
  readonly #unlinked = new Set<SegmentEntry>();
  #running = false;

  /** `segments` is the writer's own list; `directory` the log root, open for its barrier. */
  constructor(segments: SegmentEntry[], root: string, files: FileSystem, queue: IoQueue, directory: File) {
    this.#segments = segments;
    this.#root = root;
    this.#files = files;
    this.#queue = queue;
    this.#directory = directory;
  }

  /** Whether one is under way. */
  get running(): boolean {
    return this.#running;
  }

  /**
   * Begins to remove the `count` oldest segments, fewer if there are not as many sealed ones; the last of the list stays in
   * any case, since the log's offsets go on from it. `forget` is called for each as it leaves the list. False when a
   * removal is under way or there is nothing to remove: `done` is not called then.
   */
  begin(count: number, forget: (segment: SegmentEntry) => void, done: RemovalDone): boolean {
    if (this.#running) return false;
    const most = Math.min(count, this.#segments.length - 1);
    let chosen = 0;
    while (chosen < most && this.#segments[chosen].sealed) chosen += 1;
    if (chosen === 0) return false;
    let unlinked = 0;
    let problem: Error | undefined;
    try {
      for (; unlinked < chosen; unlinked++) this.#unlink(this.#segments[unlinked]);
    } catch (error) {
      if (!(error instanceof FileSystemError)) throw error;
      problem = error;
    }
    this.#running = true;
    this.#queue.submit({
      file: this.#directory,
      barrier: unlinked > 0 ? "full" : "none",
      done: (error) => {
        this.#running = false;
        if (error !== undefined) {
          done(0, error);
          return;
        }
        for (const segment of this.#segments.splice(0, unlinked)) {
          this.#unlinked.delete(segment);
          forget(segment);
        }
        done(unlinked, problem);
      },
    });
    return true;
  }

  #unlink(segment: SegmentEntry): void {
    if (this.#unlinked.has(segment)) return;
    // Who reads from it until it is forgotten finds it by its open file alone.
    segment.file ??= this.#files.open(segment.path, "read");
    removeIfPresent(this.#files, `${this.#root}/${timeIndexName(segment.id)}`);
    removeIfPresent(this.#files, segment.path);
    this.#unlinked.add(segment);
  }
}

function removeIfPresent(files: FileSystem, path: string): void {
  try {
    files.remove(path);
  } catch (error) {
    if (!(error instanceof FileSystemError) || error.code !== "ENOENT") throw error;
  }
}
