import { errnoName } from "./errno.ts";
import type { IoJob, IoQueue } from "./file-system.ts";
import { FileSystemError } from "./file-system.ts";
import type { DiskFile } from "./file-system-disk.ts";
import type { NativeIo, NativeIoThread } from "./native-io.ts";

/** Below the bound of the thread's own queue; a log has one job in flight, so more than a few is rare. */
const MOST_SUBMITTED = 32;

const BARRIER_NUMBERS = { none: 0, data: 1, full: 2 } as const;
const BEGIN_WRITEBACK = 3;
const STEP_NAMES = ["use", "write", "truncate", "allocate", "sync"];

/** Jobs on the addon's own thread, so that neither a stalled disk elsewhere nor the runtime's thread pool delays them. */
export class ThreadQueue implements IoQueue {
  readonly #thread: NativeIoThread;
  /** In order; the first `#submitted` of them are with the thread. */
  readonly #jobs: IoJob[] = [];
  /** The thread's callback does not keep the process alive; this timer does while a job is pending. */
  readonly #holder = setInterval(() => {}, 2 ** 30);
  #submitted = 0;
  #firstId = 0;
  #onClosed: (() => void) | undefined;
  #open = true;

  constructor(addon: NativeIo) {
    this.#holder.unref();
    this.#thread = new addon.IoThread((id, errno, step) => this.#completed(id, errno, step));
  }

  get pending(): number {
    return this.#jobs.length;
  }

  submit(job: IoJob): void {
    if (!this.#open) throw new Error("the queue is closed");
    const file = job.file as DiskFile;
    file.requireOpen();
    this.#jobs.push(job);
    try {
      this.#pass();
    } catch (error) {
      // Arguments that no write can have: the job was never accepted.
      this.#jobs.pop();
      throw error;
    }
    file.jobs++;
    if (this.#jobs.length === 1) this.#holder.ref();
  }

  close(done: () => void): void {
    if (!this.#open) throw new Error("the queue is closed");
    this.#open = false;
    this.#onClosed = done;
    if (this.#jobs.length === 0) {
      this.#holder.ref();
      setImmediate(() => this.#finish());
    }
  }

  #pass(): void {
    while (this.#submitted < this.#jobs.length && this.#submitted < MOST_SUBMITTED) {
      const { file, write, truncateTo, allocateTo, barrier, writeback } = this.#jobs[this.#submitted];
      this.#thread.submit(
        this.#firstId + this.#submitted,
        (file as DiskFile).fd,
        write === undefined ? null : write.buffer,
        write === undefined ? 0 : write.offset,
        write === undefined ? 0 : write.length,
        write === undefined ? 0 : write.position,
        truncateTo ?? -1,
        allocateTo ?? -1,
        barrier === "none" && writeback === true ? BEGIN_WRITEBACK : BARRIER_NUMBERS[barrier],
      );
      this.#submitted++;
    }
  }

  #completed(id: number, errno: number, step: number): void {
    if (id !== this.#firstId) throw new Error(`job ${id} completed where job ${this.#firstId} was due`);
    const job = this.#jobs.shift()!;
    this.#firstId++;
    this.#submitted--;
    (job.file as DiskFile).jobs--;
    this.#pass();
    if (this.#jobs.length === 0) this.#holder.unref();
    const error =
      errno === 0 ? undefined : new FileSystemError(errnoName(errno), STEP_NAMES[step] ?? "use", job.file.path);
    try {
      job.done(error);
    } finally {
      if (!this.#open && this.#jobs.length === 0) this.#finish();
    }
  }

  #finish(): void {
    clearInterval(this.#holder);
    this.#thread.close();
    const done = this.#onClosed;
    this.#onClosed = undefined;
    done?.();
  }
}
