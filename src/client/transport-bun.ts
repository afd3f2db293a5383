import type { Dial, Transport, TransportEvents } from "./transport.ts";

/** The part of Bun's socket API that is used here, so that no type of Bun's is needed to compile against the SDK. */
interface BunSocket {
  data: BunTransport;
  write(buffer: Uint8Array, offset: number, length: number): number;
  setNoDelay(on: boolean): boolean;
  end(): void;
  terminate(): void;
}
interface BunConnectOptions {
  hostname: string;
  port: number;
  data: BunTransport;
  socket: {
    open(socket: BunSocket): void;
    data(socket: BunSocket, chunk: Uint8Array): void;
    drain(socket: BunSocket): void;
    close(socket: BunSocket, error?: Error): void;
    error(socket: BunSocket, error: Error): void;
  };
}
interface BunGlobal {
  connect(options: BunConnectOptions): Promise<BunSocket>;
}

const bun = (globalThis as { Bun?: BunGlobal }).Bun;

/** Bun's own sockets, undefined where another runtime runs. */
export const dialBun: Dial | undefined =
  bun === undefined
    ? undefined
    : async (host, port, events, signal) => {
        const transport = new BunTransport(events);
        let abort: (() => void) | undefined;
        const aborted = new Promise<never>((_, reject) => {
          abort = () => {
            transport.destroy();
            reject(signal.reason);
          };
          signal.addEventListener("abort", abort, { once: true });
        });
        try {
          await Promise.race([bun.connect({ hostname: host, port, data: transport, socket: handlers }), aborted]);
        } finally {
          signal.removeEventListener("abort", abort!);
        }
        return transport;
      };

const handlers: BunConnectOptions["socket"] = {
  open(socket) {
    socket.data.opened(socket);
  },
  data(socket, chunk) {
    socket.data.events.data(chunk);
  },
  drain(socket) {
    socket.data.drain();
  },
  close(socket, error) {
    socket.data.closed(error);
  },
  error(socket, error) {
    socket.data.failed(error);
  },
};

/**
 * Bun's write() sends now and buffers nothing, and after a short write a later one could overtake the rest: whatever was
 * not taken waits here until `drain`, and so does everything after it.
 */
class BunTransport implements Transport {
  readonly events: TransportEvents;
  #socket: BunSocket | undefined;
  #cause: Error | undefined;
  #unwanted = false;
  readonly #waiting: { buffer: Uint8Array; at: number; length: number }[] = [];

  constructor(events: TransportEvents) {
    this.events = events;
  }

  opened(socket: BunSocket): void {
    this.#socket = socket;
    if (this.#unwanted) socket.terminate();
    else socket.setNoDelay(true);
  }

  send(buffer: Uint8Array, length: number): boolean {
    let at = 0;
    if (this.#waiting.length === 0) {
      at = Math.max(0, this.#socket!.write(buffer, 0, length));
      if (at === length) return true;
    }
    this.#waiting.push({ buffer, at, length });
    return false;
  }

  drain(): void {
    while (this.#waiting.length > 0) {
      const next = this.#waiting[0];
      const taken = this.#socket!.write(next.buffer, next.at, next.length - next.at);
      if (taken <= 0) return;
      next.at += taken;
      this.events.progress();
      if (next.at < next.length) return;
      this.#waiting.shift();
      this.events.released(next.buffer);
    }
  }

  failed(error: Error): void {
    this.#cause = error;
    this.#socket?.terminate();
  }

  closed(error: Error | undefined): void {
    this.events.closed(this.#cause ?? error);
  }

  end(): void {
    this.#socket?.end();
  }

  destroy(): void {
    this.#unwanted = true;
    this.#socket?.terminate();
  }
}
