// Carries over into the published types, so that a project needs no setting for `await using`.
/// <reference lib="esnext.disposable" preserve="true" />

import type { WireError } from "../wire/errors.ts";
import { AckOp } from "../wire/hot.ts";
import { Tag } from "../wire/tags.ts";
import { Connection } from "./connection.ts";
import { type ConsumeOptions, consume } from "./consume.ts";
import { ConnectError, type IronbusError, type ProduceProgress, ProtocolError, TimeoutError } from "./errors.ts";
import { type FetchOptions, fetchBatch } from "./fetch.ts";
import type { Batch, Message, Settlement, Settlements } from "./message.ts";
import { type ConnectOptions, parseAddress, resolveOptions, type Settings, wholeNumber } from "./options.ts";
import { type ProduceAllOptions, type Producible, produceMany, produceOne } from "./produce.ts";
import type { Bytes, RecordOptions } from "./record.ts";
import { exchange, SingleReply, unexpected } from "./replies.ts";
import { appendConnect, appendEmpty, appendSub, type Limits, readInfo } from "./requests.ts";
import { SCHEDULED_DELAY, settleMany, settleOne } from "./settle.ts";
import type { Signal } from "./signal.ts";

export interface CallOptions {
  /** Aborts the call. While its reply is owed this closes the connection; see docs/client.md. */
  readonly signal?: Signal;
}
export interface ProduceOptions extends RecordOptions, CallOptions {}
export interface NackOptions extends CallOptions {
  /** Milliseconds until the message is delivered again, 0 for at once; the broker's back-off schedule when absent. */
  readonly delayMs?: number;
}

/** `await using` needs a symbol that the oldest runtimes lack; compilers look for this one then. */
const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for("Symbol.asyncDispose") as typeof Symbol.asyncDispose);

/**
 * Connects to a broker and shakes hands. `target` is `host:port`, `host`, `:port` or `[v6]:port`, or the options alone.
 * Rejects with ConnectError, TimeoutError, BrokerError (the broker said no), or the signal's reason; with RangeError for
 * options that cannot be meant.
 */
export async function connect(target: string | ConnectOptions = {}, options: ConnectOptions = {}): Promise<Client> {
  const all = typeof target === "string" ? { ...options, ...parseAddress(target) } : target;
  const settings = resolveOptions(all);
  return Client.open(settings, all.signal);
}

/**
 * A connection to one broker. Calls may overlap freely: they are sent in the order of the calls and answered in that
 * order. Nothing is ever sent twice: when the connection breaks, what was owed rejects, and so does everything after it
 * until reconnect().
 */
export class Client implements AsyncDisposable {
  readonly #settings: Settings;
  #connection: Connection;
  #limits: Limits;
  #group = "";
  #consuming = false;

  private constructor(settings: Settings, connection: Connection, limits: Limits) {
    this.#settings = settings;
    this.#connection = connection;
    this.#limits = limits;
  }

  /** What connect() does, with settings already checked. */
  static async open(settings: Settings, signal: Signal | undefined): Promise<Client> {
    const { connection, limits } = await handshake(settings, signal);
    return new Client(settings, connection, limits);
  }

  /** False once the connection broke or close() was called. */
  get connected(): boolean {
    return this.#connection.failure === undefined && !this.#connection.closing;
  }

  /** Why the connection is gone; undefined while it is not. */
  get failure(): IronbusError | undefined {
    return this.#connection.failure;
  }

  /** What the broker granted this connection: most messages, and most bytes (0: no bound), leased at a time. */
  get limits(): Limits {
    return this.#limits;
  }

  /** The group this connection consumes as; "" is the default group. */
  get group(): string {
    return this.#group;
  }

  /** Round trip; resolves when everything sent before it was answered. */
  ping(options: CallOptions = {}): Promise<void> {
    return exchange(this.#connection, options.signal, (resolve, reject) => {
      sendPing(this.#connection, resolve, reject);
    });
  }

  /**
   * Publishes one record. Resolves with its offset once the broker holds it durably. Rejects with BrokerError when it was
   * refused; with RangeError, sending nothing, when it cannot be encoded. When the connection breaks first, the record
   * may or may not have been stored.
   */
  produce(payload: Bytes, options: ProduceOptions = {}): Promise<number> {
    return produceOne(this.#connection, payload, options, options.signal);
  }

  /**
   * Publishes all records of `source` through a sliding window, many per write, with nothing kept per record. An async
   * source may also yield arrays of records, which saves a turn for each. Takes from the source only as fast as window
   * and socket allow.
   *
   * Resolves when the source has ended and every record is settled. Otherwise (the connection broke, the source threw,
   * a record could not be encoded, one was refused and there is no `onReject`, the signal was aborted) it takes nothing
   * more, waits for what is in flight where that can still come, and rejects with ProduceError: `cause` says why,
   * `progress` how many of the first records are safe.
   */
  produceAll(
    source: Iterable<Producible> | AsyncIterable<Producible | readonly Producible[]>,
    options: ProduceAllOptions = {},
  ): Promise<ProduceProgress> {
    return produceMany(this.#connection, source, options);
  }

  /**
   * Consumes as `group` from now on ("" is the default group). Leases held under another group are given up: they come
   * back after their visibility timeout. A group that cannot exist is only refused by the next fetch (wire.md 9.1).
   */
  async subscribe(group: string, options: CallOptions = {}): Promise<void> {
    this.#assertNotConsuming();
    await this.#bind(group, options);
  }

  /** Back to the default group. */
  async unsubscribe(options: CallOptions = {}): Promise<void> {
    this.#assertNotConsuming();
    const connection = this.#connection;
    await exchange<void>(connection, options.signal, (resolve, reject) => {
      appendEmpty(connection.out, Tag.Unsub);
      connection.owe(new SingleReply(okOf("an unsubscription"), resolve, reject));
      connection.flushSoon();
    });
    this.#group = "";
  }

  /** Leases what is ready now, up to `max` messages; an empty queue gives an empty batch at once. */
  fetch(options: FetchOptions = {}): Promise<Batch> {
    return fetchBatch(this.#connection, options);
  }

  /**
   * Messages of a group as they come, for `for await`. Polls with a growing pause while the queue is empty. Ends when the
   * signal is aborted (quietly, the connection stays) or the loop is left; what was leased and not yielded goes back to
   * the queue. Each message is the caller's to settle. One connection runs one such loop at a time.
   */
  async *consume(options: ConsumeOptions = {}): AsyncGenerator<Message, void, undefined> {
    this.#assertNotConsuming();
    const { group = "", signal } = options;
    this.#consuming = true;
    try {
      if (group !== this.#group && !signal?.aborted) await this.#bind(group, {});
      yield* consume(this, options);
    } finally {
      this.#consuming = false;
    }
  }

  /** The message is done; it is not delivered to this group again. */
  ack(message: Message, options: CallOptions = {}): Promise<Settlement> {
    return settleOne(this.#connection, AckOp.Ack, message, 0, options.signal);
  }

  /** The message failed; it is delivered again, after a while. */
  async nack(message: Message, options: NackOptions = {}): Promise<Settlement> {
    return settleOne(this.#connection, AckOp.Nack, message, nackDelay(options), options.signal);
  }

  /** The message can never be processed; it is dropped for this group. */
  term(message: Message, options: CallOptions = {}): Promise<Settlement> {
    return settleOne(this.#connection, AckOp.Term, message, 0, options.signal);
  }

  /** The message takes longer; its lease runs for another visibility timeout from now. */
  extend(message: Message, options: CallOptions = {}): Promise<Settlement> {
    return settleOne(this.#connection, AckOp.Progress, message, 0, options.signal);
  }

  /** ack() for many, pipelined. If the broker answers one with an error, rejects with the first such, its `index` set. */
  ackAll(messages: readonly Message[], options: CallOptions = {}): Promise<Settlements> {
    return settleMany(this.#connection, AckOp.Ack, messages, 0, options.signal);
  }

  /** nack() for many, pipelined; see ackAll(). */
  async nackAll(messages: readonly Message[], options: NackOptions = {}): Promise<Settlements> {
    return settleMany(this.#connection, AckOp.Nack, messages, nackDelay(options), options.signal);
  }

  /** term() for many, pipelined; see ackAll(). */
  termAll(messages: readonly Message[], options: CallOptions = {}): Promise<Settlements> {
    return settleMany(this.#connection, AckOp.Term, messages, 0, options.signal);
  }

  /** extend() for many, pipelined; see ackAll(). */
  extendAll(messages: readonly Message[], options: CallOptions = {}): Promise<Settlements> {
    return settleMany(this.#connection, AckOp.Progress, messages, 0, options.signal);
  }

  /**
   * A new connection in place of this one, to the same broker and consuming as the same group. Nothing is sent again, and
   * leases of the old connection cannot be settled on the new one (they read as fenced). Rejects as connect() does; the
   * client can be reconnected again then.
   */
  async reconnect(options: CallOptions = {}): Promise<void> {
    await this.close();
    const { connection, limits } = await handshake(this.#settings, options.signal);
    this.#connection = connection;
    this.#limits = limits;
    if (this.#group !== "") await this.#bind(this.#group, options);
  }

  /** Waits for the replies that are owed, then closes. Never rejects; a closed client may be reconnected. */
  close(): Promise<void> {
    return this.#connection.close();
  }

  [asyncDispose](): Promise<void> {
    return this.close();
  }

  async #bind(group: string, options: CallOptions): Promise<void> {
    const connection = this.#connection;
    await exchange<void>(connection, options.signal, (resolve, reject) => {
      appendSub(connection.out, group);
      connection.owe(new SingleReply(okOf("a subscription"), resolve, reject));
      connection.flushSoon();
    });
    this.#group = group;
  }

  #assertNotConsuming(): void {
    if (this.#consuming) throw new Error("this client is consuming already; connect another one for another group");
  }
}

function nackDelay(options: NackOptions): number {
  const { delayMs } = options;
  return delayMs === undefined ? SCHEDULED_DELAY : wholeNumber("delayMs", delayMs, 0, Number.MAX_SAFE_INTEGER);
}

function okOf(request: string): (tag: number) => void {
  return (tag) => {
    if (tag !== Tag.Ok) throw unexpected(tag, request);
  };
}

function sendPing(connection: Connection, resolve: () => void, reject: (error: Error) => void): void {
  appendEmpty(connection.out, Tag.Ping);
  const accept = (tag: number): void => {
    if (tag !== Tag.Pong) throw unexpected(tag, "a ping");
  };
  connection.owe(new SingleReply(accept, resolve, reject));
  connection.flushSoon();
}

/** Socket and handshake under one deadline. */
async function handshake(
  settings: Settings,
  signal: Signal | undefined,
): Promise<{ connection: Connection; limits: Limits }> {
  signal?.throwIfAborted();
  const control = new AbortController();
  const abort = () => control.abort(signal!.reason);
  signal?.addEventListener("abort", abort, { once: true });
  const { host, port, connectTimeoutMs } = settings;
  let connection: Connection | undefined;
  const late = () => {
    const what =
      connection === undefined
        ? `no connection to ${host}:${port}`
        : `the connection to ${host}:${port} was made, but nothing answered`;
    control.abort(new TimeoutError(`${what} within ${connectTimeoutMs} ms`));
  };
  const timer = connectTimeoutMs > 0 ? setTimeout(late, connectTimeoutMs) : undefined;
  try {
    const opened = await Connection.open(settings, control.signal, keepAlive);
    connection = opened;
    const limits = await exchange<Limits>(opened, control.signal, (resolve, reject) => {
      appendConnect(opened.out, settings.credit, settings.creditBytes);
      opened.owe(new SingleReply(readInfo, resolve, reject));
      opened.flush();
    });
    return { connection: opened, limits };
  } catch (error) {
    connection?.fail(new ConnectError("the handshake failed", { cause: error }));
    const otherVersion =
      error instanceof ProtocolError && (error.cause as Partial<WireError>)?.kind === "unknown-version";
    if (!(error instanceof ProtocolError) || otherVersion) throw error;
    // With the first bytes wrong, it is another kind of server before it is a broken broker.
    const message = `the other side does not speak the IronBus protocol: ${error.message}`;
    throw new ProtocolError(message, { cause: error });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

function keepAlive(connection: Connection): void {
  // A ping that fails has failed the connection, and everyone who waits hears of it there.
  const ignore = () => undefined;
  sendPing(connection, ignore, ignore);
}
