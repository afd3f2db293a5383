import type { Batch } from "./batch.ts";
import type { SegmentEntry } from "./segment-entry.ts";

/** Up to here a batch is copied behind the one before it; a larger one keeps its buffer. */
const COPIED_BYTES = 64 * 1024;

/** Bytes [start, end) of `buffer` are those of the segment's file at `position` + index. */
interface Piece {
  readonly segment: SegmentEntry;
  readonly buffer: Uint8Array;
  readonly position: number;
  readonly start: number;
  end: number;
}

/**
 * The newest written bytes of a log. Direct writes leave nothing in the page cache, so without this a consumer that is close
 * behind would read from the disk what was in memory a moment ago.
 */
export class TailCache {
  readonly #maxBytes: number;
  /** Oldest first. */
  #pieces: Piece[] = [];
  /** Bytes of their buffers. */
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /**
   * Takes over a batch that was written. Returns a buffer that is free now, the batch's own or that of an older one, if
   * there is one: the caller's again.
   */
  add({ segment, buffer, position, start, end }: Batch): Uint8Array | undefined {
    const newest = this.#pieces.at(-1);
    const length = end - start;
    if (
      newest?.segment === segment &&
      newest.position + newest.end === position + start &&
      length <= COPIED_BYTES &&
      newest.end + length <= newest.buffer.length
    ) {
      newest.buffer.set(buffer.subarray(start, end), newest.end);
      newest.end += length;
      return buffer;
    }
    if (buffer.length > this.#maxBytes) return buffer;
    let free: Uint8Array | undefined;
    while (this.#bytes + buffer.length > this.#maxBytes) {
      free = (this.#pieces.shift() as Piece).buffer;
      this.#bytes -= free.length;
    }
    this.#pieces.push({ segment, buffer, position, start, end });
    this.#bytes += buffer.length;
    return free;
  }

  /**
   * Copies the file's bytes [position, position + length) to buffer[offset, ...) if all of them are here. False, and nothing
   * copied, if not.
   */
  read(segment: SegmentEntry, buffer: Uint8Array, offset: number, length: number, position: number): boolean {
    let first = this.#pieces.length - 1;
    // From the newest: the first that goes back far enough.
    while (first >= 0 && !reaches(this.#pieces[first], segment, position)) first--;
    if (first < 0) return false;
    let last = first;
    for (let at = position; ; last++) {
      const piece = this.#pieces[last];
      if (piece === undefined || !reaches(piece, segment, at)) return false;
      at = piece.position + piece.end;
      if (at >= position + length) break;
    }
    for (let index = first, done = 0; index <= last; index++) {
      const piece = this.#pieces[index];
      const from = position + done - piece.position;
      const until = Math.min(piece.end, from + length - done);
      buffer.set(piece.buffer.subarray(from, until), offset + done);
      done += until - from;
    }
    return true;
  }

  /** Forgets everything. */
  clear(): void {
    this.#pieces = [];
    this.#bytes = 0;
  }
}

function reaches(piece: Piece, segment: SegmentEntry, position: number): boolean {
  return (
    piece.segment === segment && piece.position + piece.start <= position && position <= piece.position + piece.end
  );
}
