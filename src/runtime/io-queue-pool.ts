import * as fs from "node:fs";
import { promisify } from "node:util";
import { toFileSystemError } from "./errno.ts";
import type { Barrier, IoJob, IoQueue } from "./file-system.ts";
import { FileSystemError } from "./file-system.ts";
import type { DiskFile } from "./file-system-disk.ts";
import { requireWritable } from "./require-writable.ts";

const write = promisify(fs.write);
const ftruncate = promisify(fs.ftruncate);
const fstat = promisify(fs.fstat);
const fdatasync = promisify(fs.fdatasync);
const fsync = promisify(fs.fsync);

/** Jobs one after the other on the runtime's own thread pool: what is left without the addon. */
export class ThreadPoolQueue implements IoQueue {
  readonly #jobs: IoJob[] = [];
  #onClosed: (() => void) | undefined;
  #open = true;

  get pending(): number {
    return this.#jobs.length;
  }

  submit(job: IoJob): void {
    if (!this.#open) throw new Error("the queue is closed");
    const file = job.file as DiskFile;
    file.requireOpen();
    file.jobs++;
    this.#jobs.push(job);
    if (this.#jobs.length === 1) this.#start();
  }

  close(done: () => void): void {
    if (!this.#open) throw new Error("the queue is closed");
    this.#open = false;
    this.#onClosed = done;
    if (this.#jobs.length === 0) setImmediate(() => this.#finish());
  }

  #start(): void {
    const job = this.#jobs[0];
    // Out of the promise before calling back: a throw of the callback is the process's, not a rejection.
    run(job).then((error) => setImmediate(() => this.#completed(job, error)));
  }

  #completed(job: IoJob, error: FileSystemError | undefined): void {
    this.#jobs.shift();
    (job.file as DiskFile).jobs--;
    if (this.#jobs.length > 0) this.#start();
    try {
      job.done(error);
    } finally {
      if (!this.#open && this.#jobs.length === 0) this.#finish();
    }
  }

  #finish(): void {
    const done = this.#onClosed;
    this.#onClosed = undefined;
    done?.();
  }
}

async function run(job: IoJob): Promise<FileSystemError | undefined> {
  let step = "use";
  try {
    const fd = (job.file as DiskFile).fd;
    step = "write";
    if (job.write !== undefined) await writeAll(fd, job.write, job.file.path);
    step = "truncate";
    if (job.truncateTo !== undefined) await ftruncate(fd, job.truncateTo);
    if (job.allocateTo !== undefined) await extend(fd, job.allocateTo);
    step = "sync";
    await sync(fd, job.barrier);
    return undefined;
  } catch (cause) {
    return toFileSystemError(cause, step, job.file.path);
  }
}

async function writeAll(fd: number, job: NonNullable<IoJob["write"]>, path: string): Promise<void> {
  const { buffer, offset, length, position } = job;
  let done = 0;
  while (done < length) {
    const { bytesWritten } = await write(fd, buffer, offset + done, length - done, position + done);
    if (bytesWritten === 0) throw new FileSystemError("EIO", "write", path, "the device took no bytes");
    done += bytesWritten;
  }
}

async function extend(fd: number, length: number): Promise<void> {
  try {
    if ((await fstat(fd)).size < length) await ftruncate(fd, length);
  } catch {
    // Reserving ahead is an optimisation: the write that needs the room reports the failure.
  }
}

async function sync(fd: number, barrier: Barrier): Promise<void> {
  if (barrier === "none") return;
  if (barrier === "data") await fdatasync(fd);
  else await fsync(fd);
  requireWritable(fd);
}
