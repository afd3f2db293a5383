/** What the disk needs of the native addon; `src/runtime/native/addon.ts` loads one that has it. */
export interface NativeIo {
  readonly IoThread: new (completed: (id: number, errno: number, step: number) => void) => NativeIoThread;
  /** flock(LOCK_EX|LOCK_NB); false when another holder has it. Throws with an errno `code` otherwise. */
  flock(fd: number): boolean;
  /** Reserves blocks up to `length` and extends the file to it. */
  fallocate(fd: number, length: number): void;
  /** Zeroed memory at an address that is a multiple of 4096. */
  alignedBuffer(length: number): Uint8Array;
}

/**
 * A thread that runs jobs in order: write, truncate, allocate, barrier. `truncateTo` and `allocateTo` are -1 when unused;
 * `barrier` is 0 none, 1 data, 2 full. The callback gets the job's id, 0 or the errno, and the step that failed.
 */
export interface NativeIoThread {
  submit(
    id: number,
    fd: number,
    buffer: Uint8Array | null,
    offset: number,
    length: number,
    position: number,
    truncateTo: number,
    allocateTo: number,
    barrier: number,
  ): void;
  close(): void;
}
