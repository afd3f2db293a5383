import type { Codec } from "../runtime/codec.ts";
import { type File, type FileSystem, FileSystemError, type IoQueue } from "../runtime/file-system.ts";
import { type CheckpointState, encodeSlot, readSlots, slotLength } from "./checkpoint-slots.ts";
import { isDiskFull } from "./disk-full.ts";
import { syncCached } from "./page-cache.ts";

export interface CheckpointOptions {
  readonly files: FileSystem;
  readonly codec: Codec;
  /** Runs the barriers of save(). Not the log's own: a slow checkpoint must not delay a batch. */
  readonly queue: IoQueue;
  /** Directory that holds the file. */
  readonly root: string;
  readonly name: string;
  /** Largest payload, bytes. */
  readonly capacity: number;
  /** Written and synced at once when the file is new (README ruling 13) or holds nothing. */
  readonly initialPayload: Uint8Array;
  /** A save that failed; the last payload that was saved stays valid, and the next save tries again. */
  readonly onError: (error: FileSystemError) => void;
}

/**
 * A small value that survives a power cut whole: the last one saved, or the one before (storage.md 8.1). At most one
 * of its two slots is unsynced at any time.
 */
export class CheckpointFile {
  readonly path: string;
  /** What was found when the file was opened. */
  readonly state: CheckpointState;
  /** The payload that was found, if `state` is `valid`. */
  readonly payload: Uint8Array | undefined;

  readonly #options: CheckpointOptions;
  #file: File | undefined;
  #slot: Uint8Array | undefined;
  /** Number of the last write that a barrier covers. */
  #synced: number;
  #inFlight = false;
  /** The newest payload that waits for the barrier in flight. */
  #waiting: Uint8Array | undefined;
  #closed = false;
  #idleCallbacks: (() => void)[] = [];

  private constructor(options: CheckpointOptions) {
    this.#options = options;
    this.path = `${options.root}/${options.name}`;
    const present = options.files.stat(this.path) !== undefined;
    this.#file = present ? options.files.open(this.path, "write") : undefined;
    try {
      const found = this.#file === undefined ? undefined : readSlots(this.#file, options.capacity, options.codec);
      this.state = found?.state ?? "empty";
      this.payload = found?.payload;
      this.#synced = found?.writeNumber ?? 0;
      if (this.payload === undefined) this.#writeInitial(present);
      // A killed process may have left it to the page cache, and the next save overwrites the one before it.
      else if (this.#file !== undefined) syncCached(options.files, this.#file, 2 * slotLength(options.capacity));
    } catch (error) {
      this.#file?.close();
      throw error;
    }
  }

  /**
   * Opens the file, creating it when absent. A full disk is not an error here: onError is told, and the first save
   * that finds room creates the file (README ruling 11). Throws FileSystemError for any other failure.
   */
  static open(options: CheckpointOptions): CheckpointFile {
    return new CheckpointFile(options);
  }

  /**
   * Saves `payload`, which is not to be changed afterwards. It is in the page cache when this returns, unless an earlier
   * save's barrier is still running: then it follows that, and a newer payload takes its place. Errors go to onError.
   * Throws RangeError for a payload above the capacity.
   */
  save(payload: Uint8Array): void {
    this.#check(payload);
    if (this.#inFlight) this.#waiting = payload;
    else this.#start(payload);
  }

  /** Saves and syncs before it returns, replacing whatever waits; for shutdown. Throws FileSystemError. */
  saveNow(payload: Uint8Array): void {
    this.#check(payload);
    this.#waiting = undefined;
    // With a barrier in flight this is the same number, so the same slot: the other one stays the valid one meanwhile.
    const number = this.#synced + 1;
    const file = this.#write(number, payload);
    try {
      file.sync("full");
    } catch (error) {
      this.#writeAgain(number);
      throw error;
    }
    this.#synced = number;
  }

  /** True while a save is not settled. */
  get busy(): boolean {
    return this.#inFlight;
  }

  /** Resolves when every save so far is settled, with or without success. */
  idle(): Promise<void> {
    if (!this.#inFlight) return Promise.resolve();
    return new Promise((resolve) => this.#idleCallbacks.push(resolve));
  }

  /** Releases the file once the saves so far are settled. No save may follow. */
  close(): void {
    this.#closed = true;
    if (!this.#inFlight) this.#release();
  }

  #check(payload: Uint8Array): void {
    if (this.#closed) throw new Error(`checkpoint ${this.path} is closed`);
    if (payload.length > this.#options.capacity) {
      throw new RangeError(`checkpoint payload of ${payload.length} bytes is above ${this.#options.capacity}`);
    }
  }

  #writeInitial(present: boolean): void {
    try {
      // A creation that was cut may have left the file without its directory entry being durable.
      if (present) this.#options.files.syncDirectory(this.#options.root);
      this.saveNow(this.#options.initialPayload);
    } catch (error) {
      if (!(error instanceof FileSystemError) || !isDiskFull(error)) throw error;
      this.#options.onError(error);
    }
  }

  #start(payload: Uint8Array): void {
    const number = this.#synced + 1;
    let file: File;
    try {
      file = this.#write(number, payload);
    } catch (error) {
      if (!(error instanceof FileSystemError)) throw error;
      this.#options.onError(error);
      return;
    }
    this.#inFlight = true;
    this.#options.queue.submit({
      file,
      barrier: "full",
      done: (error) => {
        this.#inFlight = false;
        if (error === undefined) this.#synced = Math.max(this.#synced, number);
        else {
          if (this.#synced < number) this.#writeAgain(number);
          this.#options.onError(error);
        }
        const waiting = this.#waiting;
        this.#waiting = undefined;
        if (waiting !== undefined) this.#start(waiting);
        if (!this.#inFlight) this.#settle();
      },
    });
  }

  /** Writes the slot of write `number`; a number is used again until a barrier covered it. */
  #write(number: number, payload: Uint8Array): File {
    const { codec, capacity } = this.#options;
    const length = slotLength(capacity);
    this.#slot ??= new Uint8Array(length);
    encodeSlot(this.#slot, number, payload, codec);
    this.#file ??= this.#create();
    this.#file.write(this.#slot, 0, length, (number % 2) * length);
    return this.#file;
  }

  /**
   * After a failed barrier the cache counts the slot as clean, and the disk may not have it: the next start would take it for
   * saved, and overwrite the slot that is (docs/decisions/0018).
   */
  #writeAgain(number: number): void {
    const slot = this.#slot as Uint8Array;
    try {
      this.#file?.write(slot, 0, slot.length, (number % 2) * slot.length);
    } catch {
      // The disk is failing: the barrier's error says so.
    }
  }

  #create(): File {
    const { files, root } = this.#options;
    const file = files.open(this.path, "create");
    try {
      files.syncDirectory(root);
    } catch (error) {
      file.close();
      throw error;
    }
    return file;
  }

  #settle(): void {
    const callbacks = this.#idleCallbacks;
    this.#idleCallbacks = [];
    for (const callback of callbacks) callback();
    if (this.#closed) this.#release();
  }

  #release(): void {
    this.#file?.close();
    this.#file = undefined;
  }
}
