import type { Socket } from "bun";
import { resolveHost } from "./listen-address.ts";
import type { Connection, ConnectionHandler, Listener, Network } from "./sockets.ts";

/** Told of what a handler threw; the connection it threw for is terminated already. */
export type ReportHandlerError = (error: unknown) => void;

/** Bun's own sockets: no buffering of theirs between the session and the kernel. */
export function createBunNetwork(report: ReportHandlerError): Network {
  return {
    async listen({ host, port }, handler) {
      const server = Bun.listen<BunConnection>({
        hostname: await resolveHost(host),
        port,
        allowHalfOpen: true,
        socket: {
          binaryType: "uint8array",
          open(socket) {
            socket.setNoDelay(true);
            socket.data = new BunConnection(socket, handler, report);
            socket.data.opened();
          },
          data: (socket, chunk) => socket.data.received(chunk as Uint8Array),
          drain: (socket) => socket.data.drained(),
          end: (socket) => socket.data.ended(),
          close: (socket, error) => socket.data.closed(error),
          // Errors of the connection are followed by close; handlers do not throw, see guard().
          error() {},
        },
      });
      return new BunListener(server.hostname, server.port, () => server.stop(false));
    },
  };
}

class BunListener implements Listener {
  readonly host: string;
  readonly port: number;
  readonly stop: () => void;

  constructor(host: string, port: number, stop: () => void) {
    this.host = host;
    this.port = port;
    this.stop = stop;
  }
}

class BunConnection implements Connection {
  readonly remoteAddress: string;
  state: unknown;
  readonly #socket: Socket<BunConnection>;
  readonly #handler: ConnectionHandler;
  readonly #report: ReportHandlerError;
  #full = false;
  #peerEnded = false;
  #shutDown = false;
  /** Set by close() and terminate(): nothing but `close` follows. */
  #leaving = false;
  #closed = false;

  constructor(socket: Socket<BunConnection>, handler: ConnectionHandler, report: ReportHandlerError) {
    this.#socket = socket;
    this.#handler = handler;
    this.#report = report;
    this.remoteAddress = socket.remoteAddress;
  }

  write(buffer: Uint8Array, start: number, end: number): number {
    if (this.#leaving || this.#closed || this.#shutDown) return -1;
    if (this.#full) throw new Error("written before drain");
    const length = end - start;
    if (length === 0) return 0;
    const taken = this.#socket.write(buffer, start, length);
    if (taken >= 0 && taken < length) this.#full = true;
    return taken;
  }

  pause(): void {
    if (!this.#leaving && !this.#closed) this.#socket.pause();
  }

  resume(): void {
    if (!this.#leaving && !this.#closed) this.#socket.resume();
  }

  shutdown(): void {
    if (this.#leaving || this.#closed || this.#shutDown) return;
    this.#shutDown = true;
    if (this.#peerEnded) this.close();
    else this.#socket.shutdown();
  }

  close(): void {
    if (this.#leaving || this.#closed) return;
    this.#leaving = true;
    this.#socket.end();
  }

  terminate(): void {
    if (this.#closed) return;
    this.#leaving = true;
    this.#socket.terminate();
  }

  opened(): void {
    this.#guard(() => this.#handler.open(this));
  }

  received(chunk: Uint8Array): void {
    if (!this.#leaving) this.#guard(() => this.#handler.data(this, chunk));
  }

  drained(): void {
    if (!this.#full || this.#leaving || this.#shutDown) return;
    this.#full = false;
    this.#guard(() => this.#handler.drain(this));
  }

  ended(): void {
    if (this.#leaving || this.#peerEnded) return;
    this.#peerEnded = true;
    this.#guard(() => this.#handler.end(this));
    if (this.#shutDown) this.close();
  }

  closed(error: unknown): void {
    if (this.#closed) return;
    // After our own FIN, Bun reports the peer's FIN as a close without an error and without `end`.
    if (this.#shutDown && error == null) this.ended();
    this.#closed = true;
    // Never from within close() or terminate(): the caller is in the middle of something.
    if (this.#leaving) queueMicrotask(() => this.#guard(() => this.#handler.close(this)));
    else this.#guard(() => this.#handler.close(this));
  }

  #guard(call: () => void): void {
    try {
      call();
    } catch (error) {
      this.terminate();
      this.#report(error);
    }
  }
}
