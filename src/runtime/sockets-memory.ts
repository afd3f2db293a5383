import { Pipe } from "./memory-pipe.ts";
import type { SeededRandom } from "./random-seeded.ts";
import type { Connection, ConnectionHandler, Listener, Network } from "./sockets.ts";
import type { ReportHandlerError } from "./sockets-bun.ts";
import { Turns } from "./turns.ts";

export interface MemoryNetworkOptions {
  /** When things happen; by default one thing a macrotask. Share it with a simulated file system for one order of all. */
  readonly turns?: Turns;
  /** Bytes under way to a peer before write() returns short. Default 65,536. */
  readonly windowBytes?: number;
  /** The most bytes of one `data` call. Default 65,536. */
  readonly chunkBytes?: number;
  /** Makes each chunk's size random, from 1 to `chunkBytes`. */
  readonly random?: SeededRandom;
  /** Told of what a handler threw. By default nobody is: the connection is terminated. */
  readonly report?: ReportHandlerError;
}

interface Port extends Listener {
  readonly handler: ConnectionHandler;
}

/** A network within the process. The broker listens on it as on any; a test connects with `connect`. */
export class MemoryNetwork implements Network {
  readonly turns: Turns;
  readonly #options: MemoryNetworkOptions;
  readonly #ports = new Map<number, Port>();
  #nextFreePort = 49_152;
  #nextPeerPort = 1024;

  constructor(options: MemoryNetworkOptions = {}) {
    this.#options = options;
    this.turns = options.turns ?? new Turns("auto");
  }

  async listen({ host, port }: { host: string; port: number }, handler: ConnectionHandler): Promise<Listener> {
    const actual = port === 0 ? this.#nextFreePort++ : port;
    if (this.#ports.has(actual)) {
      throw Object.assign(new Error(`address in use: ${host}:${port}`), { code: "EADDRINUSE" });
    }
    const listener: Port = { host, port: actual, handler, stop: () => void this.#ports.delete(actual) };
    this.#ports.set(actual, listener);
    return listener;
  }

  /** Connects to a listening port; throws an Error with code ECONNREFUSED when nobody listens there. */
  connect({ port }: { readonly port: number }): MemoryEndpoint {
    const listener = this.#ports.get(port);
    if (listener === undefined) {
      throw Object.assign(new Error(`connection refused: port ${port}`), { code: "ECONNREFUSED" });
    }
    const { windowBytes = 65_536, chunkBytes = 65_536, random, report = () => {} } = this.#options;
    const sizeOf = (available: number) =>
      random === undefined ? chunkBytes : 1 + random.below(Math.min(available, chunkBytes));
    const link = new Link(
      this.turns,
      sizeOf,
      windowBytes,
      listener.handler,
      report,
      `10.0.0.1:${this.#nextPeerPort++}`,
    );
    return link.endpoint;
  }
}

/** The peer's end of a connection, driven by a test. */
export class MemoryEndpoint {
  readonly #link: Link;
  #received: Uint8Array[] = [];
  /** Called with each piece that arrives, instead of keeping it for take(). */
  onReceive: ((bytes: Uint8Array) => void) | undefined;
  /** The other side sent a FIN. */
  ended = false;
  /** The connection is over in both directions. */
  closed = false;
  /** It ended by a reset from the other side. */
  wasReset = false;

  constructor(link: Link) {
    this.#link = link;
  }

  /** Sends a copy of all of it; unsent bytes wait here while the other side does not read. */
  send(bytes: Uint8Array): void {
    this.#link.toServer.push(bytes, 0, bytes.length);
  }

  /** Bytes sent and not read by the other side. */
  get unsentBytes(): number {
    return this.#link.toServer.bytes;
  }

  /** Sends a FIN after everything sent; replies still arrive. */
  end(): void {
    this.#link.toServer.end();
  }

  /** Breaks the connection. */
  reset(): void {
    this.#link.break();
  }

  /** Stops and restarts reading: a slow peer, whose window fills. */
  pauseReading(): void {
    this.#link.toPeer.pause();
  }

  resumeReading(): void {
    this.#link.toPeer.resume();
  }

  /** Everything received since the last call, as one array. */
  take(): Uint8Array {
    const result = new Uint8Array(this.#received.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of this.#received) {
      result.set(piece, at);
      at += piece.length;
    }
    this.#received = [];
    return result;
  }

  arrived(bytes: Uint8Array): void {
    if (this.onReceive !== undefined) this.onReceive(bytes);
    else this.#received.push(bytes);
  }
}

/** Both directions of one connection, and the server's end of it. */
class Link implements Connection {
  readonly remoteAddress: string;
  state: unknown;
  readonly endpoint: MemoryEndpoint;
  readonly toServer: Pipe;
  readonly toPeer: Pipe;
  readonly #turns: Turns;
  readonly #handler: ConnectionHandler;
  readonly #report: ReportHandlerError;
  readonly #windowBytes: number;
  #full = false;
  #shutDown = false;
  #opened = false;
  /** Nothing but `close` follows. */
  #leaving = false;

  constructor(
    turns: Turns,
    sizeOf: (available: number) => number,
    windowBytes: number,
    handler: ConnectionHandler,
    report: ReportHandlerError,
    remoteAddress: string,
  ) {
    this.#turns = turns;
    this.#handler = handler;
    this.#report = report;
    this.#windowBytes = windowBytes;
    this.remoteAddress = remoteAddress;
    this.endpoint = new MemoryEndpoint(this);
    this.toServer = new Pipe(
      turns,
      sizeOf,
      (bytes) => this.#unlessLeaving(() => handler.data(this, bytes)),
      () => this.#peerEnded(),
    );
    this.toPeer = new Pipe(
      turns,
      sizeOf,
      (bytes) => this.#passed(bytes),
      () => this.#endPassed(),
    );
    this.toServer.pause();
    turns.add(() => {
      if (this.#leaving) return;
      this.#opened = true;
      this.toServer.resume();
      this.#guard(() => handler.open(this));
    });
  }

  write(buffer: Uint8Array, start: number, end: number): number {
    if (this.#leaving || this.#shutDown) return -1;
    if (this.#full) throw new Error("written before drain");
    const taken = Math.min(end - start, Math.max(0, this.#windowBytes - this.toPeer.bytes));
    this.toPeer.push(buffer, start, start + taken);
    if (taken < end - start) this.#full = true;
    return taken;
  }

  pause(): void {
    if (!this.#leaving) this.toServer.pause();
  }

  resume(): void {
    if (!this.#leaving) this.toServer.resume();
  }

  shutdown(): void {
    if (this.#leaving || this.#shutDown) return;
    this.#shutDown = true;
    this.toPeer.end();
    if (this.toServer.endDelivered) this.close();
  }

  close(): void {
    if (this.#leaving) return;
    this.#leave();
    this.toPeer.end();
    if (this.toPeer.endDelivered) this.endpoint.closed = true;
  }

  terminate(): void {
    if (this.#leaving) return;
    this.endpoint.wasReset = true;
    this.break();
  }

  break(): void {
    this.toPeer.destroy();
    this.endpoint.closed = true;
    if (!this.#leaving) this.#leave();
  }

  #leave(): void {
    this.#leaving = true;
    this.toServer.destroy();
    this.#turns.add(() => {
      if (this.#opened) this.#guard(() => this.#handler.close(this));
    });
  }

  #peerEnded(): void {
    this.#unlessLeaving(() => this.#handler.end(this));
    if (this.#shutDown) this.close();
  }

  #passed(bytes: Uint8Array): void {
    this.endpoint.arrived(bytes);
    if (!this.#full || this.#shutDown) return;
    this.#full = false;
    this.#unlessLeaving(() => this.#handler.drain(this));
  }

  #endPassed(): void {
    this.endpoint.ended = true;
    if (this.#leaving) this.endpoint.closed = true;
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
