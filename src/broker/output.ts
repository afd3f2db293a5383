import type { Connection } from "../runtime/sockets.ts";
import { copyBytes } from "../wire/hot.ts";
import { OUTPUT_BUFFER_BYTES } from "./limits.ts";

/**
 * The buffer that replies are composed in. One serves all connections: a connection composes and flushes within one
 * turn, and only what its socket did not take is copied away.
 */
export class Scratch {
  readonly buffer = new Uint8Array(OUTPUT_BUFFER_BYTES);
  /** Bytes composed and not flushed yet. */
  at = 0;
}

/** What one connection has to send. After a short write everything queues behind the rest, in order. */
export class Output {
  readonly scratch: Scratch;
  readonly #connection: Connection;
  #backlog: Uint8Array | undefined;
  #head = 0;
  #tail = 0;
  #closed = false;
  /** Bytes that the socket has taken so far: it tells a slow peer from one that does not read at all. */
  takenBytes = 0;

  constructor(connection: Connection, scratch: Scratch) {
    this.#connection = connection;
    this.scratch = scratch;
  }

  /** Bytes that the socket has not taken yet. */
  get backlogBytes(): number {
    return this.#tail - this.#head;
  }

  /** Makes room for `bytes` (at most the scratch buffer's size) at `scratch.at`. */
  reserve(bytes: number): void {
    if (this.scratch.at + bytes > this.scratch.buffer.length) this.flush();
  }

  /** Adds source[start, end), of any length. */
  bytes(source: Uint8Array, start: number, end: number): void {
    const scratch = this.scratch;
    const length = end - start;
    if (length > scratch.buffer.length - scratch.at) {
      this.flush();
      if (length > scratch.buffer.length) {
        this.#send(source, start, end);
        return;
      }
    }
    scratch.at = copyBytes(scratch.buffer, scratch.at, source, start, length);
  }

  /** Hands what was composed to the socket. */
  flush(): void {
    const end = this.scratch.at;
    if (end === 0) return;
    this.scratch.at = 0;
    this.#send(this.scratch.buffer, 0, end);
  }

  /** Sends what is queued; true when nothing is left. */
  drain(): boolean {
    if (this.#backlog === undefined) return true;
    const taken = this.#connection.write(this.#backlog, this.#head, this.#tail);
    if (taken < 0) {
      this.close();
    } else {
      this.#head += taken;
      this.takenBytes += taken;
    }
    if (this.#head < this.#tail) return false;
    this.#backlog = undefined;
    this.#head = 0;
    this.#tail = 0;
    return true;
  }

  /** The connection is gone: everything queued and everything to come is dropped. */
  close(): void {
    this.#closed = true;
    this.#backlog = undefined;
    this.#head = 0;
    this.#tail = 0;
  }

  #send(source: Uint8Array, start: number, end: number): void {
    if (this.#closed) return;
    let from = start;
    if (this.#backlog === undefined) {
      const taken = this.#connection.write(source, start, end);
      if (taken < 0) {
        this.close();
        return;
      }
      from += taken;
      this.takenBytes += taken;
      if (from === end) return;
    }
    this.#queue(source, from, end);
  }

  #queue(source: Uint8Array, start: number, end: number): void {
    const needed = this.backlogBytes + end - start;
    let backlog = this.#backlog;
    if (backlog === undefined || this.#tail + end - start > backlog.length) {
      const grown =
        backlog !== undefined && needed <= backlog.length ? backlog : new Uint8Array(Math.max(needed * 2, 4096));
      if (backlog !== undefined) grown.set(backlog.subarray(this.#head, this.#tail), 0);
      this.#tail -= this.#head;
      this.#head = 0;
      backlog = grown;
      this.#backlog = grown;
    }
    backlog.set(source.subarray(start, end), this.#tail);
    this.#tail += end - start;
  }
}
