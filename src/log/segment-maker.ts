import type { Clock } from "../runtime/clock.ts";
import type { Codec } from "../runtime/codec.ts";
import type { Barrier, File, FileSystem, IoQueue } from "../runtime/file-system.ts";
import { encodeSegmentHeader, SEGMENT_HEADER_LENGTH } from "./segment.ts";
import type { SegmentEntry } from "./segment-entry.ts";

/**
 * What became of a creation: the open file; nothing, and it may be tried again (the failure came before any barrier); or a
 * failed barrier, after which the log must not go on.
 */
export type Creation = { readonly file: File } | "refused" | { readonly failed: Error };

/** Makes the files of new segments: header, barrier, directory barrier, and only then they are used (storage.md 14.3). */
export class SegmentMaker {
  readonly #files: FileSystem;
  readonly #codec: Codec;
  readonly #clock: Clock;
  readonly #queue: IoQueue;
  readonly #directory: File;
  readonly #maxSegmentBytes: number;

  /** `directory` is the log root, open for its barrier. */
  constructor(
    world: { readonly files: FileSystem; readonly codec: Codec; readonly clock: Clock },
    queue: IoQueue,
    directory: File,
    maxSegmentBytes: number,
  ) {
    this.#files = world.files;
    this.#codec = world.codec;
    this.#clock = world.clock;
    this.#queue = queue;
    this.#directory = directory;
    this.#maxSegmentBytes = maxSegmentBytes;
  }

  /** Opens an unsealed segment to go on with it. Throws FileSystemError. */
  resume(segment: SegmentEntry): File {
    const file = this.#files.open(segment.path, "write");
    this.#preallocate(file);
    return file;
  }

  /** Creation at start, where waiting is fine and an error is the caller's. Throws FileSystemError. */
  createNow(segment: SegmentEntry): File {
    const file = this.#openNew(segment);
    try {
      file.write(this.#headerOf(segment), 0, SEGMENT_HEADER_LENGTH, 0);
      this.#preallocate(file);
      file.sync("data");
      this.#directory.sync("full");
      return file;
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** Creation off the main thread. `done` may be called before this returns when not even the file could be opened. */
  create(segment: SegmentEntry, done: (creation: Creation) => void): void {
    let file: File;
    try {
      file = this.#openNew(segment);
    } catch {
      done("refused");
      return;
    }
    const barrier = (target: File, kind: Barrier, next: () => void): void => {
      this.#queue.submit({
        file: target,
        barrier: kind,
        done: (error) => {
          if (error === undefined) {
            next();
            return;
          }
          file.close();
          this.#removeDoubtful(segment);
          done({ failed: error });
        },
      });
    };
    this.#queue.submit({
      file,
      write: { buffer: this.#headerOf(segment), offset: 0, length: SEGMENT_HEADER_LENGTH, position: 0 },
      allocateTo: this.#maxSegmentBytes,
      barrier: "none",
      done: (error) => {
        if (error === undefined) {
          barrier(file, "data", () => barrier(this.#directory, "full", () => done({ file })));
          return;
        }
        file.close();
        done("refused");
      },
    });
  }

  #openNew(segment: SegmentEntry): File {
    // A leftover is from a creation that never became active: nothing refers to it (storage.md 14.3).
    if (this.#files.stat(segment.path) !== undefined) this.#files.remove(segment.path);
    return this.#files.open(segment.path, "create-new");
  }

  #preallocate(file: File): void {
    try {
      file.allocate(this.#maxSegmentBytes);
    } catch {
      // A help, not a promise (storage.md 14.4).
    }
  }

  #headerOf(segment: SegmentEntry): Uint8Array {
    return encodeSegmentHeader(
      {
        segmentId: segment.id,
        baseSequence: segment.baseSequence,
        baseOffset: segment.baseOffset,
        createdUnixMs: this.#clock.wallMs(),
      },
      this.#codec,
    );
  }

  /** A file that only the page cache may have is not left for the next start to find. */
  #removeDoubtful(segment: SegmentEntry): void {
    try {
      this.#files.remove(segment.path);
    } catch {
      // The disk is failing: the freeze says so.
    }
  }
}
