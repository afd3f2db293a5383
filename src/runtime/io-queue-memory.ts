import type { IoJob, IoQueue } from "./file-system.ts";
import { FileSystemError } from "./file-system.ts";
import type { Device } from "./memory-device.ts";
import type { MemoryFile } from "./memory-file.ts";

/** One turn for each step of a job, so that other work can come between any two of them, as on a real disk. */
export class MemoryQueue implements IoQueue {
  readonly #device: Device;
  readonly #jobs: IoJob[] = [];
  #onClosed: (() => void) | undefined;
  #open = true;

  constructor(device: Device) {
    this.#device = device;
  }

  get pending(): number {
    return this.#jobs.length;
  }

  submit(job: IoJob): void {
    if (!this.#open) throw new Error("the queue is closed");
    const file = job.file as MemoryFile;
    file.requireOpen();
    file.jobs++;
    this.#jobs.push(job);
    if (this.#jobs.length === 1) this.#next(() => this.#write(job));
  }

  close(done: () => void): void {
    if (!this.#open) throw new Error("the queue is closed");
    this.#open = false;
    this.#onClosed = done;
    if (this.#jobs.length === 0) this.#next(() => this.#finish());
  }

  #next(step: () => void): void {
    this.#device.turns.add(() => {
      if (this.#device.powered) step();
    });
  }

  #write(job: IoJob): void {
    const { file, write, truncateTo } = job;
    const error = failureOf(() => {
      if (write !== undefined) file.write(write.buffer, write.offset, write.length, write.position);
      if (truncateTo !== undefined) file.truncate(truncateTo);
    });
    if (error === undefined) this.#next(() => this.#beginBarrier(job));
    else this.#complete(job, error);
  }

  #beginBarrier(job: IoJob): void {
    const { file, allocateTo, barrier } = job;
    // A failure to reserve ahead does not end the job: the write that needs the room reports it.
    if (allocateTo !== undefined) failureOf(() => file.allocate(allocateTo));
    let end: () => void = () => {};
    const error = failureOf(() => {
      if (barrier !== "none") end = (file as MemoryFile).beginBarrier(barrier);
    });
    if (error !== undefined) this.#complete(job, error);
    else if (barrier === "none") this.#complete(job, undefined);
    else this.#next(() => this.#device.whenBarrierMayEnd(file.path, () => this.#complete(job, failureOf(end))));
  }

  #complete(job: IoJob, error: FileSystemError | undefined): void {
    this.#jobs.shift();
    (job.file as MemoryFile).jobs--;
    const [next] = this.#jobs;
    if (next !== undefined) this.#next(() => this.#write(next));
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

function failureOf(step: () => void): FileSystemError | undefined {
  try {
    step();
    return undefined;
  } catch (error) {
    if (error instanceof FileSystemError) return error;
    throw error;
  }
}
