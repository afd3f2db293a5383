import { FileSystemError } from "../runtime/file-system.ts";
import type { ReadableFile } from "./byte-window.ts";

const PIECE_BYTES = 4096;
/** A disk may take seconds for each failure: after this many the rest of a failing read counts as unreadable at once. */
const MAX_FAILURES = 256;

/**
 * A file of which some pieces cannot be read: they read as zeros, which no checksum of a record allows, so that the
 * records there come out as lost and their neighbours do not. Nothing is asked for again that failed once in that size.
 */
export class PatchyFile implements ReadableFile {
  readonly path: string;
  /** Pieces that could not be read so far. */
  failures = 0;
  readonly #file: ReadableFile;

  constructor(file: ReadableFile) {
    this.#file = file;
    this.path = file.path;
  }

  read(buffer: Uint8Array, offset: number, length: number, position: number): number {
    if (this.#readable(buffer, offset, length, position)) return length;
    for (let at = 0; at < length; ) {
      const piece = Math.min(PIECE_BYTES - ((position + at) % PIECE_BYTES), length - at);
      const tried = piece < length && this.failures < MAX_FAILURES;
      if (!tried || !this.#readable(buffer, offset + at, piece, position + at)) {
        buffer.fill(0, offset + at, offset + at + piece);
        this.failures++;
      }
      at += piece;
    }
    return length;
  }

  /** The caller asks within the file's length only, so fewer bytes are a failure as well. */
  #readable(buffer: Uint8Array, offset: number, length: number, position: number): boolean {
    try {
      return this.#file.read(buffer, offset, length, position) === length;
    } catch (error) {
      if (!(error instanceof FileSystemError)) throw error;
      return false;
    }
  }
}
