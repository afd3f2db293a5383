import type { File, IoJob, IoQueue } from "./file-system.ts";
import { FileSystemError } from "./file-system.ts";
import type { MemoryFile } from "./memory-file.ts";

/**
 * Jobs on a file system in memory, where there is nothing to wait for: each is done when it is submitted, and its completion is
 * told in the next turn. Completions of one turn come together.
 */
export class ImmediateQueue implements IoQueue {
  #done: { readonly job: IoJob; readonly error: FileSystemError | undefined }[] = [];
  #pending = 0;
  #scheduled = false;
  #open = true;
  #onClosed: (() => void) | undefined;

  get pending(): number {
    return this.#pending;
  }

  submit(job: IoJob): void {
    if (!this.#open) throw new Error("the queue is closed");
    const file = job.file as MemoryFile;
    file.requireOpen();
    file.jobs += 1;
    this.#pending += 1;
    this.#done.push({ job, error: run(job) });
    this.#schedule();
  }

  close(done: () => void): void {
    if (!this.#open) throw new Error("the queue is closed");
    this.#open = false;
    this.#onClosed = done;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#tell());
  }

  #tell(): void {
    this.#scheduled = false;
    const done = this.#done;
    this.#done = [];
    let told = 0;
    try {
      for (const { job, error } of done) {
        told += 1;
        (job.file as MemoryFile).jobs -= 1;
        this.#pending -= 1;
        job.done(error);
      }
    } finally {
      // A callback that threw takes nobody else's turn away.
      if (told < done.length) this.#done.unshift(...done.slice(told));
      if (this.#done.length > 0) this.#schedule();
    }
    if (this.#open || this.#pending > 0) return;
    const closed = this.#onClosed;
    this.#onClosed = undefined;
    closed?.();
  }
}

function run({ file, write, truncateTo, allocateTo, barrier }: IoJob): FileSystemError | undefined {
  try {
    if (write !== undefined) file.write(write.buffer, write.offset, write.length, write.position);
    if (truncateTo !== undefined) file.truncate(truncateTo);
    if (allocateTo !== undefined) allocateIfPossible(file, allocateTo);
    file.sync(barrier);
    return undefined;
  } catch (error) {
    if (error instanceof FileSystemError) return error;
    throw error;
  }
}

function allocateIfPossible(file: File, length: number): void {
  try {
    file.allocate(length);
  } catch (error) {
    if (!(error instanceof FileSystemError)) throw error;
  }
}
