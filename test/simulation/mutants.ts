import { CURSOR_CAPACITY, decodeCursor, encodeCursor } from "../../src/log/checkpoint-payloads.ts";
import { encodeSlot, slotLength } from "../../src/log/checkpoint-slots.ts";
import { SEGMENT_FOOTER_LENGTH } from "../../src/log/segment.ts";
import { readUint64, viewOf } from "../../src/log/u64.ts";
import type { Codec } from "../../src/runtime/codec.ts";
import {
  type Barrier,
  DIRECT_BLOCK_BYTES,
  type File,
  type FileSystem,
  type IoJob,
  type IoQueue,
  type OpenMode,
} from "../../src/runtime/file-system.ts";

/**
 * Storage engines that are broken on purpose, one promise each: a seam between the engine and the disk does not do what it
 * was told. A simulation that does not catch each of them proves nothing.
 */
export interface Mutant {
  readonly name: string;
  readonly wrap: (files: FileSystem, codec: Codec) => FileSystem;
}

const isSegment = (path: string): boolean => /\/seg-[0-9a-f]{16}\.log$/.test(path);
const isCheckpoint = (path: string): boolean => path.endsWith(".ckpt");
const isCursor = (path: string): boolean => /\/cursor[^/]*\.ckpt$/.test(path);

/** What a mutant does differently; whatever it leaves out is done as told. */
interface Deviation {
  /** A blocking barrier of a file or directory. */
  sync?(file: File, barrier: Barrier): void;
  write?(file: File, buffer: Uint8Array, offset: number, length: number, position: number): void;
  truncate?(file: File, length: number): void;
  submit?(queue: IoQueue, job: IoJob): void;
  opened?(file: File, mode: OpenMode | undefined): void;
  removed?(path: string): void;
}

/** A file system with a deviation: everything not mentioned reaches the inner one, whatever the seam grows. */
function deviating(files: FileSystem, deviation: Deviation): FileSystem {
  const inner = new WeakMap<File, File>();
  const wrapFile = (file: File): File => {
    const wrapped = override(file, {
      sync: (barrier: Barrier) => (deviation.sync ? deviation.sync(file, barrier) : file.sync(barrier)),
      write: (buffer: Uint8Array, offset: number, length: number, position: number) =>
        deviation.write
          ? deviation.write(file, buffer, offset, length, position)
          : file.write(buffer, offset, length, position),
      truncate: (length: number) => (deviation.truncate ? deviation.truncate(file, length) : file.truncate(length)),
    });
    inner.set(wrapped, file);
    return wrapped;
  };
  const opened = (file: File, mode: OpenMode | undefined): File => {
    deviation.opened?.(file, mode);
    return wrapFile(file);
  };
  return override(files, {
    open: (path: string, mode: OpenMode) => opened(files.open(path, mode), mode),
    openDirect: (path: string, mode: "write" | "create-new") => opened(files.openDirect(path, mode), mode),
    openDirectory: (path: string) => opened(files.openDirectory(path), undefined),
    syncDirectory: (path: string) => {
      const directory = files.openDirectory(path);
      if (deviation.sync) deviation.sync(directory, "full");
      else directory.sync("full");
      directory.close();
    },
    remove: (path: string) => {
      files.remove(path);
      deviation.removed?.(path);
    },
    createQueue: () => {
      const queue = files.createQueue();
      return override(queue, {
        submit: (job: IoJob) => {
          const unwrapped = { ...job, file: inner.get(job.file) ?? job.file };
          if (deviation.submit) deviation.submit(queue, unwrapped);
          else queue.submit(unwrapped);
        },
      });
    },
  });
}

/** `target` with some members replaced; methods keep their own `this`, which private fields need. */
function override<T extends object>(target: T, replaced: Partial<Record<keyof T, unknown>>): T {
  return new Proxy(target, {
    get: (_, key) => {
      if (key in replaced) return replaced[key as keyof T];
      const value = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

const seals = (job: IoJob): boolean => isSegment(job.file.path) && job.truncateTo !== undefined;
const holdsRecords = (job: IoJob): boolean =>
  isSegment(job.file.path) && job.write !== undefined && job.write.position > 0;

/** Undefined where a fault of the disk keeps the file closed: the mutant itself is not to fail. */
function openQuietly(files: FileSystem, path: string): File | undefined {
  try {
    return files.open(path, "write");
  } catch {
    return undefined;
  }
}

const barrierDoesNothing: Mutant = {
  name: "the barrier of a batch does nothing",
  wrap: (files) =>
    deviating(files, {
      submit: (queue, job) => queue.submit(holdsRecords(job) && !seals(job) ? { ...job, barrier: "none" } : job),
    }),
};

const acknowledgesFirst: Mutant = {
  name: "acknowledges before the barrier, which follows",
  wrap: (files) =>
    deviating(files, {
      submit: (queue, job) => {
        const { file, barrier, done } = job;
        if (!holdsRecords(job) || seals(job) || barrier === "none") {
          queue.submit(job);
          return;
        }
        queue.submit({
          ...job,
          barrier: "none",
          done: (error) => {
            // By a descriptor of its own: the job's may be closed before the barrier's turn comes.
            const late = error === undefined ? openQuietly(files, file.path) : undefined;
            if (late !== undefined) queue.submit({ file: late, barrier, done: () => late.close() });
            done(error);
          },
        });
      },
    }),
};

const sealWithoutBarrier: Mutant = {
  name: "a seal without its barrier",
  wrap: (files) =>
    deviating(files, {
      submit: (queue, job) => queue.submit(seals(job) ? { ...job, barrier: "none" } : job),
    }),
};

const sealWithFdatasync: Mutant = {
  name: "fdatasync, which does not cover a shrink, for the fsync of a seal",
  wrap: (files) =>
    deviating(files, {
      submit: (queue, job) => queue.submit(seals(job) ? { ...job, barrier: "data" } : job),
    }),
};

const footerBeforeRecords: Mutant = {
  name: "the footer of a seal before its records, with nothing in between",
  wrap: (files) =>
    deviating(files, {
      submit: (queue, job) => {
        const { write } = job;
        // A direct write takes whole blocks only, so there is nothing to take apart.
        const direct = write !== undefined && write.length % DIRECT_BLOCK_BYTES === 0;
        if (!seals(job) || write === undefined || direct || write.length <= SEGMENT_FOOTER_LENGTH) {
          queue.submit(job);
          return;
        }
        const recordsLength = write.length - SEGMENT_FOOTER_LENGTH;
        const records = write.buffer.slice(write.offset, write.offset + recordsLength);
        queue.submit({
          ...job,
          write: {
            buffer: write.buffer,
            offset: write.offset + recordsLength,
            length: SEGMENT_FOOTER_LENGTH,
            position: write.position + recordsLength,
          },
          done: (error) => {
            const late = error === undefined ? openQuietly(files, job.file.path) : undefined;
            late?.write(records, 0, recordsLength, write.position);
            late?.close();
            job.done(error);
          },
        });
      },
    }),
};

const headerWithoutBarrier: Mutant = {
  name: "a new segment is used before its header is durable",
  wrap: (files) => {
    const fresh = new Set<string>();
    return deviating(files, {
      opened: ({ path }, mode) => {
        if (mode === "create-new" && isSegment(path)) fresh.add(path);
      },
      sync: (file, barrier) => {
        if (!fresh.delete(file.path)) file.sync(barrier);
      },
      submit: (queue, job) => {
        const first = job.barrier !== "none" && fresh.delete(job.file.path);
        queue.submit(first ? { ...job, barrier: "none" } : job);
      },
    });
  },
};

/** Barriers of a directory are left out while what `starts` names waits for one. */
function withoutDirectoryBarrier(
  name: string,
  starts: "creation" | "removal",
  which: (path: string) => boolean,
): Mutant {
  return {
    name,
    wrap: (files) => {
      const waiting = new Set<string>();
      const directoryOf = (path: string): string => path.slice(0, path.lastIndexOf("/"));
      return deviating(files, {
        opened: ({ path }, mode) => {
          if (starts === "creation" && (mode === "create-new" || mode === "create") && which(path)) {
            waiting.add(directoryOf(path));
          }
        },
        removed: (path) => {
          if (starts === "removal" && which(path)) waiting.add(directoryOf(path));
        },
        sync: (file, barrier) => {
          if (!waiting.delete(file.path)) file.sync(barrier);
        },
        submit: (queue, job) => {
          queue.submit(waiting.delete(job.file.path) ? { ...job, barrier: "none" } : job);
        },
      });
    },
  };
}

const cutWithoutFsync: Mutant = {
  name: "no fsync after a cut in recovery",
  wrap: (files) => {
    const resumed = new WeakSet<File>();
    const cut = new WeakSet<File>();
    return deviating(files, {
      opened: (file, mode) => {
        if (mode === "write" && isSegment(file.path)) resumed.add(file);
      },
      truncate: (file, length) => {
        file.truncate(length);
        if (resumed.has(file)) cut.add(file);
      },
      sync: (file, barrier) => {
        if (!cut.has(file)) file.sync(barrier);
      },
    });
  },
};

const retriedBarrier: Mutant = {
  name: "a failed barrier is tried again",
  wrap: (files) =>
    deviating(files, {
      submit: (queue, job) => {
        if (!holdsRecords(job) || job.barrier === "none") {
          queue.submit(job);
          return;
        }
        queue.submit({
          ...job,
          done: (error) => {
            if (error?.operation !== "sync") {
              job.done(error);
              return;
            }
            job.file.sync(job.barrier);
            job.done(undefined);
          },
        });
      },
    }),
};

const cursorAhead: Mutant = {
  name: "a cursor is saved ahead of what was settled",
  wrap: (files, codec) =>
    deviating(files, {
      write: (file, buffer, offset, length, position) => {
        const ahead = isCursor(file.path) ? cursorAheadOf(buffer.subarray(offset, offset + length), codec) : undefined;
        if (ahead === undefined) file.write(buffer, offset, length, position);
        else file.write(ahead, 0, length, position);
      },
    }),
};

/** The slot with a committed offset that is one too high, or undefined for what is not a slot. */
function cursorAheadOf(slot: Uint8Array, codec: Codec): Uint8Array | undefined {
  if (slot.length !== slotLength(CURSOR_CAPACITY)) return undefined;
  const view = viewOf(slot);
  const cursor = decodeCursor(slot.subarray(10, 10 + view.getUint16(8, true)), codec);
  if (cursor === undefined || cursor.committed === 0) return undefined;
  const ahead = new Uint8Array(slot.length);
  const payload = encodeCursor({ committed: cursor.committed + 1, runs: [] }, codec);
  encodeSlot(ahead, readUint64(view, 0), payload, codec);
  return ahead;
}

const checkpointWithoutSync: Mutant = {
  name: "a checkpoint without its sync",
  wrap: (files) =>
    deviating(files, {
      sync: (file, barrier) => {
        if (!isCheckpoint(file.path)) file.sync(barrier);
      },
      submit: (queue, job) => queue.submit(isCheckpoint(job.file.path) ? { ...job, barrier: "none" } : job),
    }),
};

export const MUTANTS: readonly Mutant[] = [
  barrierDoesNothing,
  acknowledgesFirst,
  sealWithoutBarrier,
  sealWithFdatasync,
  footerBeforeRecords,
  headerWithoutBarrier,
  withoutDirectoryBarrier("no directory barrier after a segment's creation", "creation", isSegment),
  withoutDirectoryBarrier("no directory barrier after a segment's removal", "removal", isSegment),
  withoutDirectoryBarrier("no directory barrier after a checkpoint's creation", "creation", isCheckpoint),
  cutWithoutFsync,
  retriedBarrier,
  cursorAhead,
  checkpointWithoutSync,
];
