import { type Codec, FIELDS, ScanStop } from "../runtime/codec.ts";
import type { ReadableFile } from "./byte-window.ts";
import { readExactly } from "./read-exactly.ts";

const WINDOW_BYTES = 512 * 1024;
const MAX_ROWS = 4096;

/**
 * Walks the stored frames of a file from one position to another, a window at a time, each frame checked completely.
 * Memory is one window; a frame that is larger makes the window as large as itself, once its header is known to be
 * intact and the file to be long enough.
 */
export class FrameScanner {
  /** Rows of the last next() (see `runtime/codec.ts`); positions are into `window`. */
  readonly table = new Int32Array(MAX_ROWS * FIELDS);
  window: Uint8Array;
  /** File position right behind the last intact frame found. */
  position = 0;
  /** Intact frames found since begin(). */
  count = 0;
  /** Why the walk ended; meaningful once next() returned 0. */
  stop: ScanStop = ScanStop.End;

  readonly #codec: Codec;
  readonly #result = new Float64Array(4);
  #file: ReadableFile | undefined;
  #limit = 0;
  #sequence = 0;
  #endSequence = Number.POSITIVE_INFINITY;
  /** window[#at, #filled) holds the file's bytes from `position` on. */
  #at = 0;
  #filled = 0;

  constructor(codec: Codec) {
    this.#codec = codec;
    this.window = new Uint8Array(WINDOW_BYTES);
  }

  /**
   * Starts a walk over file[position, limit); the first frame has to have `sequence`, each next one higher. A frame of
   * `endSequence` is not looked at.
   */
  begin(
    file: ReadableFile,
    position: number,
    limit: number,
    sequence: number,
    endSequence = Number.POSITIVE_INFINITY,
  ): void {
    this.#file = file;
    this.#limit = limit;
    this.#sequence = sequence;
    this.#endSequence = endSequence;
    this.#at = 0;
    this.#filled = 0;
    this.position = position;
    this.count = 0;
    this.stop = ScanStop.End;
  }

  /** Goes on to a limit further behind, after a stop. */
  extend(limit: number): void {
    this.#limit = Math.max(this.#limit, limit);
  }

  /** Sequence of the frame that begins at `position`. */
  get sequence(): number {
    return this.#sequence;
  }

  /** Goes on behind a frame that is not intact and whose length is known all the same. */
  skip(lengthBytes: number): void {
    this.position += lengthBytes;
    this.#sequence += 1;
    if (this.#filled - this.#at > lengthBytes) {
      this.#at += lengthBytes;
    } else {
      this.#at = 0;
      this.#filled = 0;
    }
  }

  /**
   * Finds the next frames and returns how many: rows of `table`, valid until the next call. 0 at the limit or at the
   * first frame that is not intact, which begins at `position`. Throws FileSystemError.
   */
  next(): number {
    for (;;) {
      const mostRows = Math.min(MAX_ROWS, this.#endSequence - this.#sequence);
      if (mostRows <= 0) {
        this.stop = ScanStop.End;
        return 0;
      }
      if (this.#at < this.#filled) {
        const found = this.#codec.scan(
          this.window,
          this.#at,
          this.#filled,
          this.table,
          mostRows,
          this.#sequence,
          this.#result,
        );
        if (found > 0) {
          this.position += this.#result[0] - this.#at;
          this.#at = this.#result[0];
          this.count += found;
          this.#sequence += found;
          return found;
        }
        this.stop = this.#result[1] as ScanStop;
        if (this.stop !== ScanStop.Truncated) return 0;
      } else {
        this.stop = ScanStop.End;
      }
      const available = this.#filled - this.#at;
      const remaining = this.#limit - this.position;
      if (available >= remaining) return 0;
      const needed = this.stop === ScanStop.End ? 1 : Math.max(this.#result[2], available + 1);
      if (needed > remaining) return 0;
      this.#fill(needed);
    }
  }

  /** The bytes of the frame that stopped the walk, as far as they are in memory. */
  stoppedBytes(): Uint8Array {
    return this.window.subarray(this.#at, this.#filled);
  }

  /** Moves what is left to the front and reads on, so that at least `needed` bytes are there. */
  #fill(needed: number): void {
    const left = this.#filled - this.#at;
    if (needed > this.window.length) {
      const larger = new Uint8Array(needed);
      larger.set(this.window.subarray(this.#at, this.#filled));
      this.window = larger;
    } else {
      this.window.copyWithin(0, this.#at, this.#filled);
    }
    this.#at = 0;
    this.#filled = left;
    const length = Math.min(this.window.length - left, this.#limit - this.position - left);
    readExactly(this.#file as ReadableFile, this.window, left, length, this.position + left);
    this.#filled += length;
  }
}
