import * as net from "node:net";
import { resolveHost } from "./listen-address.ts";
import type { Connection, ConnectionHandler, Listener, Network } from "./sockets.ts";
import type { ReportHandlerError } from "./sockets-bun.ts";

/** Bytes taken and not yet with the kernel, for each connection; a stream of Node's never refuses by itself. */
const MOST_QUEUED_BYTES = 256 * 1024;

/** Node's sockets. What write() takes is copied, because the stream keeps a reference until the kernel has the bytes. */
export function createNodeNetwork(report: ReportHandlerError): Network {
  return {
    async listen({ host, port }, handler) {
      const address = await resolveHost(host);
      return new Promise((resolve, reject) => {
        const server = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
          new NodeConnection(socket, handler, report).opened();
        });
        server.once("error", reject);
        server.listen({ host: address, port }, () => {
          server.off("error", reject);
          // Failures to accept (no descriptors left) are no reason to stop listening.
          server.on("error", () => {});
          resolve(new NodeListener(server));
        });
      });
    },
  };
}

class NodeListener implements Listener {
  readonly host: string;
  readonly port: number;
  readonly #server: net.Server;

  constructor(server: net.Server) {
    const address = server.address() as net.AddressInfo;
    this.host = address.address;
    this.port = address.port;
    this.#server = server;
  }

  stop(): void {
    this.#server.close();
  }
}

class NodeConnection implements Connection {
  readonly remoteAddress: string;
  state: unknown;
  readonly #socket: net.Socket;
  readonly #handler: ConnectionHandler;
  readonly #report: ReportHandlerError;
  #full = false;
  #shutDown = false;
  /** Set by close() and terminate(): nothing but `close` follows. */
  #leaving = false;
  #closed = false;

  constructor(socket: net.Socket, handler: ConnectionHandler, report: ReportHandlerError) {
    this.#socket = socket;
    this.#handler = handler;
    this.#report = report;
    this.remoteAddress = socket.remoteAddress ?? "";
  }

  opened(): void {
    const socket = this.#socket;
    const handler = this.#handler;
    // Errors of the connection are followed by close.
    socket.on("error", () => {});
    socket.on("close", () => {
      this.#closed = true;
      this.#guard(() => handler.close(this));
    });
    this.#guard(() => handler.open(this));
    socket.on("data", (chunk: Uint8Array) => this.#unlessLeaving(() => handler.data(this, chunk)));
    socket.on("end", () => this.#unlessLeaving(() => handler.end(this)));
    socket.on("drain", () => {
      if (!this.#full || this.#shutDown) return;
      this.#full = false;
      this.#unlessLeaving(() => handler.drain(this));
    });
  }

  write(buffer: Uint8Array, start: number, end: number): number {
    if (this.#leaving || this.#closed || this.#shutDown || this.#socket.destroyed) return -1;
    if (this.#full) throw new Error("written before drain");
    // Until the stream really holds back: only then does it report drain. What the kernel took at once left no trace.
    let at = start;
    while (at < end && this.#socket.writableLength < MOST_QUEUED_BYTES) {
      const next = Math.min(end, at + MOST_QUEUED_BYTES - this.#socket.writableLength);
      this.#socket.write(Buffer.from(buffer.subarray(at, next)));
      at = next;
    }
    if (at < end) this.#full = true;
    return at - start;
  }

  pause(): void {
    if (!this.#leaving) this.#socket.pause();
  }

  resume(): void {
    if (!this.#leaving) this.#socket.resume();
  }

  shutdown(): void {
    if (this.#leaving || this.#shutDown) return;
    this.#shutDown = true;
    this.#socket.end();
  }

  close(): void {
    if (this.#closed) return;
    this.#leaving = true;
    this.#socket.destroy();
  }

  terminate(): void {
    if (this.#closed) return;
    this.#leaving = true;
    this.#socket.resetAndDestroy();
  }

  #unlessLeaving(call: () => void): void {
    if (!this.#leaving) this.#guard(call);
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
