import type { Clock } from "../runtime/clock.ts";
import type { Codec } from "../runtime/codec.ts";
import {
  type Barrier,
  DIRECT_BLOCK_BYTES,
  type File,
  type FileSystem,
  FileSystemError,
  type IoQueue,
} from "../runtime/file-system.ts";
import { freeBytes, mayPass } from "./disk-full.ts";
import { encodeSegmentHeader } from "./segment.ts";
import type { SegmentEntry } from "./segment-entry.ts";
import { format, formatNow } from "./segment-format.ts";

/**
 * What became of a creation: the open file; nothing, and it may be tried again (the failure came before any barrier and may
 * pass); or a failure after which the log must not go on (storage.md 17).
 */
export type Creation =
  | { readonly file: File }
  | { readonly refused: FileSystemError }
  | { readonly failed: FileSystemError };

/** Makes the files of new segments: header, barrier, directory barrier, and only then they are used (storage.md 14.3). */
export class SegmentMaker {
  readonly #files: FileSystem;
  readonly #codec: Codec;
  readonly #clock: Clock;
  readonly #queue: IoQueue;
  readonly #directory: File;
  readonly #maxSegmentBytes: number;
  readonly #direct: boolean;

  /** `directory` is the log root, open for its barrier. `direct`: files are opened for direct writes, and formatted. */
  constructor(
    world: { readonly files: FileSystem; readonly codec: Codec; readonly clock: Clock },
    queue: IoQueue,
    directory: File,
    maxSegmentBytes: number,
    direct: boolean,
  ) {
    this.#files = world.files;
    this.#codec = world.codec;
    this.#clock = world.clock;
    this.#queue = queue;
    this.#directory = directory;
    this.#maxSegmentBytes = maxSegmentBytes;
    this.#direct = direct;
  }

  /** The header of a segment that is about to be made. */
  headerOf(segment: SegmentEntry): Uint8Array {
    segment.createdUnixMs = this.#clock.wallMs();
    return encodeSegmentHeader(
      {
        segmentId: segment.id,
        baseSequence: segment.baseSequence,
        baseOffset: segment.baseOffset,
        createdUnixMs: segment.createdUnixMs,
      },
      this.#codec,
    );
  }

  /** Opens an unsealed segment to go on with it. Throws FileSystemError. */
  resume(segment: SegmentEntry): File {
    const file = this.#direct ? this.#files.openDirect(segment.path, "write") : this.#files.open(segment.path, "write");
    // Recovery cut off what was formatted. It is not done again: a start must not wait for a whole segment's zeros.
    this.#preallocate(file);
    return file;
  }

  /** Creation at start, where waiting is fine and an error is the caller's. Throws FileSystemError. */
  createNow(segment: SegmentEntry): File {
    const noRoom = this.#noRoomToFormat(segment);
    if (noRoom !== undefined) throw noRoom;
    const file = this.#openNew(segment);
    try {
      if (this.#direct) formatNow(this.#files, file, this.#maxSegmentBytes);
      const header = this.#headerWrite(segment);
      file.write(header, 0, header.length, 0);
      if (!this.#direct) this.#preallocate(file);
      file.sync("data");
      this.#directory.sync("full");
      return file;
    } catch (error) {
      this.#discard(segment, file);
      this.#directory.sync("full");
      throw error;
    }
  }

  /** Creation off the main thread. `done` may be called before this returns when not even the file could be opened, or would not fit. */
  create(segment: SegmentEntry, done: (creation: Creation) => void): void {
    let file: File;
    const noRoom = this.#noRoomToFormat(segment);
    if (noRoom !== undefined) {
      done({ refused: noRoom });
      return;
    }
    try {
      file = this.#openNew(segment);
    } catch (error) {
      if (!(error instanceof FileSystemError)) throw error;
      done(mayPass(error) ? { refused: error } : { failed: error });
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
          this.#discard(segment, file);
          done({ failed: error });
        },
      });
    };
    const refuse = (error: FileSystemError): void => {
      this.#discard(segment, file);
      // Until it is made again, perhaps hours from now, a power cut must not bring back a file that never had a header.
      this.#queue.submit({
        file: this.#directory,
        barrier: "full",
        done: (failure) => {
          if (failure !== undefined) done({ failed: failure });
          else done(mayPass(error) ? { refused: error } : { failed: error });
        },
      });
    };
    const begin = (): void => {
      const buffer = this.#headerWrite(segment);
      this.#queue.submit({
        file,
        write: { buffer, offset: 0, length: buffer.length, position: 0 },
        allocateTo: this.#direct ? undefined : this.#maxSegmentBytes,
        barrier: "none",
        done: (error) => {
          if (error !== undefined) refuse(error);
          else barrier(file, "data", () => barrier(this.#directory, "full", () => done({ file })));
        },
      });
    };
    if (!this.#direct) {
      begin();
      return;
    }
    format(this.#files, this.#queue, file, this.#maxSegmentBytes, (error) => {
      if (error !== undefined) refuse(error);
      else barrier(file, "full", begin);
    });
  }

  /**
   * Formatting takes all of a segment's bytes. On a disk that is full it would take what others have left, only to give it
   * back, with every try.
   */
  #noRoomToFormat({ path }: SegmentEntry): FileSystemError | undefined {
    if (!this.#direct) return undefined;
    const free = freeBytes(this.#files, this.#directory.path);
    if (free === undefined || free >= this.#maxSegmentBytes) return undefined;
    return new FileSystemError("ENOSPC", "format", path, `ENOSPC, ${free} of ${this.#maxSegmentBytes} bytes free`);
  }

  #openNew(segment: SegmentEntry): File {
    // A leftover is from a creation that never became active: nothing refers to it (storage.md 14.3).
    if (this.#files.stat(segment.path) !== undefined) this.#files.remove(segment.path);
    return this.#direct
      ? this.#files.openDirect(segment.path, "create-new")
      : this.#files.open(segment.path, "create-new");
  }

  #preallocate(file: File): void {
    try {
      file.allocate(this.#maxSegmentBytes);
    } catch {
      // A help, not a promise (storage.md 14.4).
    }
  }

  /** What is written first: the header, in a block of its own for a direct write. */
  #headerWrite(segment: SegmentEntry): Uint8Array {
    const header = segment.header ?? this.headerOf(segment);
    segment.header = undefined;
    if (!this.#direct) return header;
    const block = this.#files.alignedBuffer(DIRECT_BLOCK_BYTES);
    block.set(header);
    return block;
  }

  /** What was made in vain does not take up space, nor is it left for the next start to find. */
  #discard(segment: SegmentEntry, file: File): void {
    file.close();
    try {
      this.#files.remove(segment.path);
    } catch {
      // The disk is failing: what ended the creation says so.
    }
  }
}
