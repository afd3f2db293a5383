import type { Transport } from "./transport.ts";

/** Frames are gathered in buffers of this size, one write each. */
export const WRITE_BYTES = 128 * 1024;

/** Bytes in the transport's hands from which producers of many records wait. */
const CONGESTED_BYTES = 4 * WRITE_BYTES;

/**
 * The send side of a connection. Frames are encoded straight into `buffer` from `used` on; a full buffer is handed to the
 * transport, which gives it back when the kernel has its bytes.
 */
export class Outbound {
  buffer: Uint8Array = Buffer.alloc(0);
  used = 0;
  readonly #transport: Transport;
  readonly #spare: Uint8Array[] = [];
  #lentBytes = 0;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Bytes handed over and not yet taken by the kernel. */
  get lentBytes(): number {
    return this.#lentBytes;
  }

  /** The socket does not keep up: whoever can wait, waits for `released`. */
  get congested(): boolean {
    return this.#lentBytes >= CONGESTED_BYTES;
  }

  /** Makes room for `length` bytes in `buffer` and returns where they start. The caller then moves `used` to their end. */
  reserve(length: number): number {
    if (this.used + length > this.buffer.length) {
      this.flush();
      if (length > WRITE_BYTES) this.buffer = Buffer.allocUnsafeSlow(length);
      else if (this.buffer.length !== WRITE_BYTES)
        this.buffer = this.#spare.pop() ?? Buffer.allocUnsafeSlow(WRITE_BYTES);
    }
    return this.used;
  }

  /** Hands everything encoded so far to the transport. */
  flush(): void {
    if (this.used === 0) return;
    const { buffer, used } = this;
    this.used = 0;
    if (this.#transport.send(buffer, used)) return;
    this.#lentBytes += buffer.length;
    this.buffer = this.#spare.pop() ?? Buffer.alloc(0);
  }

  /** The transport gives a buffer back. */
  released(buffer: Uint8Array): void {
    this.#lentBytes -= buffer.length;
    if (buffer.length === WRITE_BYTES && this.#spare.length < CONGESTED_BYTES / WRITE_BYTES) {
      this.#spare.push(buffer);
    }
  }
}
