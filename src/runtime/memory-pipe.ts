import type { Turns } from "./turns.ts";

/** One direction of a connection in memory: bytes in order, then perhaps an end, handed over a piece a turn. */
export class Pipe {
  readonly #turns: Turns;
  readonly #sizeOf: (available: number) => number;
  readonly #onBytes: (bytes: Uint8Array) => void;
  readonly #onEnd: () => void;
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  #ended = false;
  #endDelivered = false;
  #paused = false;
  #scheduled = false;
  #destroyed = false;

  /** `sizeOf` says how many of the available bytes the next piece has, at least 1. */
  constructor(
    turns: Turns,
    sizeOf: (available: number) => number,
    onBytes: (bytes: Uint8Array) => void,
    onEnd: () => void,
  ) {
    this.#turns = turns;
    this.#sizeOf = sizeOf;
    this.#onBytes = onBytes;
    this.#onEnd = onEnd;
  }

  /** Bytes that were pushed and not handed over. */
  get bytes(): number {
    return this.#bytes;
  }

  get endDelivered(): boolean {
    return this.#endDelivered;
  }

  /** Takes a copy. */
  push(buffer: Uint8Array, start: number, end: number): void {
    if (this.#ended || this.#destroyed || end <= start) return;
    this.#pieces.push(new Uint8Array(buffer.subarray(start, end)));
    this.#bytes += end - start;
    this.#schedule();
  }

  end(): void {
    this.#ended = true;
    this.#schedule();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#schedule();
  }

  /** Drops what is under way; nothing is handed over any more. */
  destroy(): void {
    this.#destroyed = true;
    this.#pieces = [];
    this.#bytes = 0;
  }

  #schedule(): void {
    if (this.#scheduled || this.#paused || this.#destroyed) return;
    if (this.#bytes === 0 && (!this.#ended || this.#endDelivered)) return;
    this.#scheduled = true;
    this.#turns.add(() => this.#run());
  }

  #run(): void {
    this.#scheduled = false;
    if (this.#paused || this.#destroyed) return;
    if (this.#bytes > 0) {
      this.#onBytes(this.#take());
    } else if (this.#ended && !this.#endDelivered) {
      this.#endDelivered = true;
      this.#onEnd();
    }
    this.#schedule();
  }

  #take(): Uint8Array {
    const size = Math.max(1, Math.min(this.#bytes, this.#sizeOf(this.#bytes)));
    const result = new Uint8Array(size);
    let done = 0;
    let used = 0;
    while (done < size) {
      const piece = this.#pieces[used];
      const count = Math.min(piece.length, size - done);
      result.set(piece.subarray(0, count), done);
      done += count;
      if (count === piece.length) used++;
      else this.#pieces[used] = piece.subarray(count);
    }
    this.#pieces.splice(0, used);
    this.#bytes -= size;
    return result;
  }
}
