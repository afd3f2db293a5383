import { FrameSplitter } from "../wire/envelope.ts";
import { Tag, tagName } from "../wire/tags.ts";
import { ConnectError, ConnectionClosedError, type IronbusError, ProtocolError, TimeoutError } from "./errors.ts";
import type { Settings } from "./options.ts";
import { Outbound } from "./outbound.ts";
import type { Signal } from "./signal.ts";
import type { Transport, TransportEvents } from "./transport.ts";
import { dialBun } from "./transport-bun.ts";
import { dialNode } from "./transport-node.ts";

/** Who waits for replies. One sink may be owed any number of them in a row. */
export interface ReplySink {
  /**
   * One frame of the reply that is due: body = buffer[start, end). True when the reply is complete. Throwing closes the
   * connection: the frame cannot be what was asked for.
   */
  frame(tag: number, buffer: Uint8Array, start: number, end: number): boolean;
  /** The connection is gone and the replies still owed will never come. Called once. */
  failed(error: Error): void;
}

/** How long an orderly close may take before the socket is torn down. */
const CLOSE_GRACE_MS = 1_000;
/** Upper bound of the timer's period. */
const LONGEST_TICK_MS = 1_000;

/**
 * One TCP connection: sends frames, pairs what comes back with who asked, by order alone (wire.md 6.2), watches the
 * time. What the frames mean is its sinks' business.
 */
export class Connection implements TransportEvents {
  out!: Outbound;
  readonly #settings: Settings;
  readonly #splitter = new FrameSplitter();
  /** Runs of owed replies: the sink, and how many in a row are its. The first `#head` runs are over. */
  readonly #sinks: ReplySink[] = [];
  readonly #counts: number[] = [];
  #head = 0;
  /** Sum of the counts. */
  #owed = 0;
  #transport: Transport | undefined;
  #failure: IronbusError | undefined;
  #ended = false;
  #closing: Promise<void> | undefined;
  #flushPlanned = false;
  #drained: (() => void) | undefined;
  #closed: (() => void) | undefined;
  readonly #roomWaiters: (() => void)[] = [];
  readonly #failureListeners = new Set<(error: IronbusError) => void>();
  readonly #afterChunk: (() => void)[] = [];
  readonly #sendPing: (connection: Connection) => void;
  readonly #flush = () => {
    this.#flushPlanned = false;
    if (this.#failure === undefined) this.flush();
  };
  #timer: ReturnType<typeof setInterval> | undefined;
  #quietMs = 0;
  #stuckMs = 0;
  #unsentMs = 0;

  private constructor(settings: Settings, sendPing: (connection: Connection) => void) {
    this.#settings = settings;
    this.#sendPing = sendPing;
  }

  /**
   * Opens a socket; the handshake is the caller's. `sendPing` is called when nothing was sent for a while. Rejects with
   * ConnectError, or with `signal.reason`.
   */
  static async open(
    settings: Settings,
    signal: Signal,
    sendPing: (connection: Connection) => void,
  ): Promise<Connection> {
    const connection = new Connection(settings, sendPing);
    const dial = settings.sockets === "auto" && dialBun !== undefined ? dialBun : dialNode;
    try {
      signal.throwIfAborted();
      connection.#transport = await dial(settings.host, settings.port, connection, signal);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const reason = error instanceof Error ? error.message : String(error);
      throw new ConnectError(`cannot connect to ${settings.host}:${settings.port}: ${reason}`, { cause: error });
    }
    connection.out = new Outbound(connection.#transport);
    if (!connection.#ended) connection.#startTimer();
    return connection;
  }

  /** Why nothing can be sent any more; undefined while something can. */
  get failure(): IronbusError | undefined {
    return this.#failure;
  }

  /** close() was called. */
  get closing(): boolean {
    return this.#closing !== undefined;
  }

  /** Throws what makes a new request impossible. */
  assertOpen(): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#closing !== undefined) throw new ConnectionClosedError("the client was closed");
  }

  /** Notes that the frame just encoded will be answered to `sink`. Call it in the order of the frames. */
  owe(sink: ReplySink): void {
    if (this.#owed++ === 0) this.#quietMs = 0;
    const last = this.#sinks.length - 1;
    if (last >= this.#head && this.#sinks[last] === sink) {
      this.#counts[last]++;
      return;
    }
    this.#sinks.push(sink);
    this.#counts.push(1);
  }

  /**
   * Sends what was encoded: right after the current step when the line is quiet, else once per turn of the event loop,
   * so that a lone request does not wait and many share a write.
   */
  flushSoon(): void {
    if (this.#flushPlanned) return;
    this.#flushPlanned = true;
    if (this.#owed <= 1) queueMicrotask(this.#flush);
    else setImmediate(this.#flush);
  }

  /** Sends what was encoded, now. */
  flush(): void {
    if (this.out.used === 0) return;
    if (this.out.lentBytes === 0) this.#stuckMs = 0;
    this.#unsentMs = 0;
    this.out.flush();
  }

  /** Calls back once, when buffers came back from the socket or the connection failed. */
  onRoom(callback: () => void): void {
    this.#roomWaiters.push(callback);
  }

  /** Calls back when the connection fails, also when nothing is owed; returns how to stop that. */
  onFailure(callback: (error: IronbusError) => void): () => void {
    this.#failureListeners.add(callback);
    return () => this.#failureListeners.delete(callback);
  }

  /** Calls back once, when the chunk that is being read has been worked through. Only for use within a sink's frame(). */
  afterChunk(callback: () => void): void {
    this.#afterChunk.push(callback);
  }

  /** Gives the connection up: everything owed fails with `error`, at once; the socket is torn down. */
  fail(error: IronbusError): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    clearInterval(this.#timer);
    this.#transport?.destroy();
    const owed = new Set(this.#sinks.slice(this.#head));
    this.#sinks.length = 0;
    this.#counts.length = 0;
    this.#head = 0;
    this.#owed = 0;
    for (const sink of owed) sink.failed(error);
    for (const callback of this.#failureListeners) callback(error);
    this.#wake(this.#roomWaiters);
    this.#drained?.();
  }

  /** Waits for the replies that are owed, then closes in order. Never rejects. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#failure === undefined) {
      this.flush();
      if (this.#owed > 0) {
        await new Promise<void>((resolve) => {
          this.#drained = resolve;
        });
      }
    }
    if (this.#ended) return;
    const gone = new Promise<void>((resolve) => {
      this.#closed = resolve;
    });
    const grace = setTimeout(() => this.#transport?.destroy(), CLOSE_GRACE_MS);
    this.#failure ??= new ConnectionClosedError("the client was closed");
    clearInterval(this.#timer);
    this.#transport?.end();
    await gone;
    clearTimeout(grace);
  }

  data(chunk: Uint8Array): void {
    if (this.#failure !== undefined) return;
    this.#quietMs = 0;
    try {
      this.#read(chunk);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.fail(error instanceof ProtocolError ? error : new ProtocolError(reason, { cause: error }));
    }
    this.#wake(this.#afterChunk);
    if (this.#owed === 0) this.#drained?.();
  }

  progress(): void {
    this.#stuckMs = 0;
  }

  released(buffer: Uint8Array): void {
    this.out.released(buffer);
    if (!this.out.congested) this.#wake(this.#roomWaiters);
  }

  closed(cause: Error | undefined): void {
    this.#ended = true;
    const reason = cause === undefined ? "" : `: ${cause.message}`;
    this.fail(new ConnectionClosedError(`the connection was closed${reason}`, { cause }));
    this.#closed?.();
  }

  #read(chunk: Uint8Array): void {
    const splitter = this.#splitter;
    splitter.push(chunk);
    while (this.#failure === undefined && splitter.next()) {
      const { tag, buffer, bodyStart, bodyEnd } = splitter;
      if (this.#owed === 0) throw new ProtocolError(`${tagName(tag)} although no reply is owed`);
      const sink = this.#sinks[this.#head];
      // Messages keep views of their frame, and the buffer of a frame that was split between chunks is used again.
      const complete =
        tag === Tag.Deliver && buffer !== chunk
          ? sink.frame(tag, new Uint8Array(buffer.subarray(bodyStart, bodyEnd)), 0, bodyEnd - bodyStart)
          : sink.frame(tag, buffer, bodyStart, bodyEnd);
      // A sink that failed the connection from within has emptied the runs.
      if (complete && this.#failure === undefined) {
        this.#owed--;
        if (--this.#counts[this.#head] === 0) this.#advance();
      }
    }
  }

  #advance(): void {
    this.#head++;
    if (this.#head === this.#sinks.length) {
      this.#sinks.length = 0;
      this.#counts.length = 0;
      this.#head = 0;
    } else if (this.#head >= 1024 && this.#head * 2 >= this.#sinks.length) {
      this.#sinks.splice(0, this.#head);
      this.#counts.splice(0, this.#head);
      this.#head = 0;
    }
  }

  #wake(callbacks: (() => void)[]): void {
    if (callbacks.length === 0) return;
    for (const callback of callbacks.splice(0)) callback();
  }

  #startTimer(): void {
    const { readTimeoutMs, writeTimeoutMs, keepAliveMs } = this.#settings;
    const shortest = Math.min(...[readTimeoutMs, writeTimeoutMs, keepAliveMs].filter((time) => time > 0));
    if (shortest === Infinity) return;
    const tickMs = Math.max(1, Math.min(LONGEST_TICK_MS, Math.floor(shortest / 4)));
    let last = performance.now();
    this.#timer = setInterval(() => {
      const now = performance.now();
      const elapsed = now - last;
      last = now;
      this.#tick(elapsed, tickMs);
    }, tickMs);
    this.#timer.unref();
  }

  /**
   * A program that was busy for a minute must not blame the broker for it: of a late tick, only two periods count as
   * silence of the other side.
   */
  #tick(elapsedMs: number, tickMs: number): void {
    const { readTimeoutMs, writeTimeoutMs, keepAliveMs } = this.#settings;
    const counted = Math.min(elapsedMs, 2 * tickMs);
    if (this.#owed > 0) {
      this.#quietMs += counted;
      if (readTimeoutMs > 0 && this.#quietMs >= readTimeoutMs) {
        this.fail(new TimeoutError(`no reply within ${readTimeoutMs} ms`));
        return;
      }
    }
    if (this.out.lentBytes > 0) {
      this.#stuckMs += counted;
      if (writeTimeoutMs > 0 && this.#stuckMs >= writeTimeoutMs) {
        this.fail(new TimeoutError(`nothing could be sent for ${writeTimeoutMs} ms`));
      }
      return;
    }
    this.#unsentMs += elapsedMs;
    if (keepAliveMs > 0 && this.#unsentMs >= keepAliveMs && this.#closing === undefined) this.#sendPing(this);
  }
}
