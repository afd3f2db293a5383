import { connect, type Socket } from "node:net";
import type { Signal } from "./signal.ts";
import type { Transport, TransportEvents } from "./transport.ts";

/** Pieces in which large buffers are written, so that a slow link still shows progress. */
const PIECE_BYTES = 256 * 1024;

/** node:net. It keeps a reference to what is written until the write's callback, hence the hand-over rule of send(). */
export function dialNode(host: string, port: number, events: TransportEvents, signal: Signal): Promise<Transport> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true });
    const abort = () => {
      socket.destroy();
      reject(signal.reason);
    };
    signal.addEventListener("abort", abort, { once: true });
    socket.once("error", (error) => {
      signal.removeEventListener("abort", abort);
      reject(error);
    });
    socket.once("connect", () => {
      signal.removeEventListener("abort", abort);
      socket.removeAllListeners("error");
      resolve(new NodeTransport(socket, events));
    });
  });
}

class NodeTransport implements Transport {
  readonly #socket: Socket;
  readonly #events: TransportEvents;

  constructor(socket: Socket, events: TransportEvents) {
    this.#socket = socket;
    this.#events = events;
    let cause: Error | undefined;
    socket.on("error", (error) => {
      cause = error;
    });
    socket.on("close", () => events.closed(cause));
    socket.on("data", (chunk: Uint8Array) => events.data(chunk));
  }

  send(buffer: Uint8Array, length: number): boolean {
    for (let at = 0; at < length; at += PIECE_BYTES) {
      const end = Math.min(at + PIECE_BYTES, length);
      this.#socket.write(buffer.subarray(at, end), (error) => {
        if (error != null) return;
        this.#events.progress();
        if (end === length) this.#events.released(buffer);
      });
    }
    return false;
  }

  end(): void {
    this.#socket.destroySoon();
  }

  destroy(): void {
    this.#socket.destroy();
  }
}
