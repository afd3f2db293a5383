import { readPubAck } from "../wire/hot.ts";
import { Tag } from "../wire/tags.ts";
import type { Connection, ReplySink } from "./connection.ts";
import {
  type BrokerError,
  ConnectionClosedError,
  ProduceError,
  type ProduceProgress,
  ProtocolError,
} from "./errors.ts";
import { type Bytes, encodeRecord, type ProduceRecord, type RecordOptions } from "./record.ts";
import { brokerError, exchange, notLeaderError, SingleReply, unexpected } from "./replies.ts";
import type { Signal } from "./signal.ts";

/** What produceAll() takes one record as: a bare payload, or a payload with its key, headers, timestamp. */
export type Producible = Bytes | ProduceRecord;

export interface ProduceAllOptions {
  /** Most records in flight; 16,384 by default. */
  readonly window?: number;
  /**
   * Called for each acknowledged record, in input order, from within the reading of the socket: keep it short. A throw
   * ends the run.
   */
  readonly onAck?: (index: number, offset: number) => void;
  /**
   * Called for each record that the broker refused; the run goes on without it. Without this function the first refusal
   * ends the run.
   */
  readonly onReject?: (index: number, error: BrokerError) => void;
  readonly signal?: Signal;
}

const DEFAULT_WINDOW = 16_384;

/** The offset in a PubAck or PubAckDuplicate. */
function acknowledgedOffset(tag: number, buffer: Uint8Array, start: number, end: number): number {
  if (tag !== Tag.PubAck && tag !== Tag.PubAckDuplicate) throw unexpected(tag, "a publish");
  const offset = readPubAck(buffer, start, end);
  if (offset < 0) throw new ProtocolError("an acknowledged offset is above 2^53-1");
  return offset;
}

/** Publishes one record; resolves with its offset once it is durable. */
export function produceOne(
  connection: Connection,
  payload: Bytes,
  options: RecordOptions | undefined,
  signal: Signal | undefined,
): Promise<number> {
  return exchange(connection, signal, (resolve, reject) => {
    encodeRecord(connection.out, payload, options, Date.now());
    connection.owe(new SingleReply(acknowledgedOffset, resolve, reject));
    connection.flushSoon();
  });
}

/** Publishes many records through a sliding window, full duplex; see Client.produceAll(). */
export async function produceMany(
  connection: Connection,
  source: Iterable<Producible> | AsyncIterable<Producible | readonly Producible[]>,
  options: ProduceAllOptions,
): Promise<ProduceProgress> {
  const run = new ProduceRun(connection, options);
  const { signal } = options;
  const abort = () => run.abort(signal!.reason);
  const forget = connection.onFailure(run.lost);
  signal?.addEventListener("abort", abort, { once: true });
  try {
    signal?.throwIfAborted();
    connection.assertOpen();
    if (Symbol.iterator in source) run.feed(source).catch(run.stop);
    else run.feedAsync(source[Symbol.asyncIterator]()).catch(run.stop);
    return await run.finished;
  } catch (error) {
    throw error instanceof ProduceError ? error : new ProduceError(error, run.progress());
  } finally {
    signal?.removeEventListener("abort", abort);
    forget();
  }
}

class ProduceRun implements ReplySink {
  /** Settles when every record taken from the source is settled, or none can be any more. */
  readonly finished: Promise<ProduceProgress>;
  readonly #connection: Connection;
  readonly #window: number;
  /** Refilling starts when this few are in flight, so that a write carries more than one record. */
  readonly #refillAt: number;
  readonly #onAck: ((index: number, offset: number) => void) | undefined;
  readonly #onReject: ((index: number, error: BrokerError) => void) | undefined;
  #resolve!: (progress: ProduceProgress) => void;
  #reject!: (error: ProduceError) => void;
  #sent = 0;
  #acknowledged = 0;
  #rejected = 0;
  #lastOffset = -1;
  #sourceEnded = false;
  #stopped = false;
  #stopCause: unknown;
  #wakeFeeder: (() => void) | undefined;
  #wakePlanned = false;
  #roomAsked = false;
  #release: (() => void) | undefined;
  #nowMs = 0;

  constructor(connection: Connection, options: ProduceAllOptions) {
    this.#connection = connection;
    const window = options.window ?? DEFAULT_WINDOW;
    if (!Number.isSafeInteger(window) || window < 1) throw new RangeError(`window must be 1 or more, got ${window}`);
    this.#window = window;
    this.#refillAt = window - Math.ceil(window / 4);
    this.#onAck = options.onAck;
    this.#onReject = options.onReject;
    this.finished = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  progress(): ProduceProgress {
    return {
      acknowledged: this.#acknowledged,
      rejected: this.#rejected,
      lastOffset: this.#lastOffset < 0 ? undefined : this.#lastOffset,
    };
  }

  async feed(source: Iterable<Producible>): Promise<void> {
    this.#nowMs = Date.now();
    for (const record of source) {
      if (this.#full()) await this.#room();
      if (this.#stopped) break;
      this.#send(record);
    }
    this.#end();
  }

  async feedAsync(source: AsyncIterator<Producible | readonly Producible[]>): Promise<void> {
    // A source may be silent for ever: it is told at once when its records are no longer wanted.
    this.#release = () => void source.return?.()?.then(undefined, () => undefined);
    while (!this.#stopped) {
      const { done, value } = await source.next();
      if (done === true) {
        this.#release = undefined;
        break;
      }
      this.#nowMs = Date.now();
      for (const record of isMany(value) ? value : [value]) {
        if (this.#full()) await this.#room();
        if (this.#stopped) break;
        this.#send(record);
      }
      this.#connection.flushSoon();
    }
    this.#end();
  }

  /** Takes nothing more from the source; what is in flight is still waited for. */
  readonly stop = (cause: unknown): void => {
    this.#halt(cause);
    this.#end();
  };

  abort(reason: unknown): void {
    this.#halt(reason);
    if (this.#inFlight === 0) this.#end();
    else
      this.#connection.fail(
        new ConnectionClosedError("a call was aborted while its reply was owed", { cause: reason }),
      );
  }

  frame(tag: number, buffer: Uint8Array, start: number, end: number): boolean {
    const index = this.#acknowledged + this.#rejected;
    if (tag === Tag.Err || tag === Tag.NotLeader) {
      this.#rejected++;
      const refusal =
        tag === Tag.Err ? brokerError(buffer, start, end, index) : notLeaderError(buffer, start, end, index);
      if (this.#onReject === undefined) this.stop(refusal);
      else this.#tell(this.#onReject, index, refusal);
    } else {
      const offset = acknowledgedOffset(tag, buffer, start, end);
      this.#acknowledged++;
      this.#lastOffset = offset;
      if (this.#onAck !== undefined) this.#tell(this.#onAck, index, offset);
    }
    if (!this.#wakePlanned) {
      this.#wakePlanned = true;
      this.#connection.afterChunk(this.#settled);
    }
    return true;
  }

  failed(error: Error): void {
    this.#halt(error);
    this.#reject(new ProduceError(this.#stopCause, this.progress()));
    this.#wakeFeeder?.();
  }

  /** The connection failed, perhaps while nothing was owed. */
  readonly lost = (error: Error): void => this.failed(error);

  #halt(cause: unknown): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#stopCause = cause;
    this.#release?.();
  }

  get #inFlight(): number {
    return this.#sent - this.#acknowledged - this.#rejected;
  }

  #full(): boolean {
    return this.#inFlight >= this.#window || this.#connection.out.congested;
  }

  /** Sends what there is and waits until the window or the socket has room again, or the run is over. */
  async #room(): Promise<void> {
    const connection = this.#connection;
    connection.flush();
    while (!this.#stopped && (this.#inFlight > this.#refillAt || connection.out.congested)) {
      await new Promise<void>((resolve) => {
        this.#wakeFeeder = resolve;
        if (!connection.out.congested || this.#roomAsked) return;
        this.#roomAsked = true;
        connection.onRoom(this.#roomAgain);
      });
    }
    this.#wakeFeeder = undefined;
    this.#nowMs = Date.now();
  }

  readonly #roomAgain = (): void => {
    this.#roomAsked = false;
    this.#wakeFeeder?.();
  };

  #send(record: Producible): void {
    const connection = this.#connection;
    connection.assertOpen();
    if (typeof record === "string" || record instanceof Uint8Array) {
      encodeRecord(connection.out, record, undefined, this.#nowMs);
    } else {
      encodeRecord(connection.out, record.payload, record, this.#nowMs);
    }
    this.#sent++;
    connection.owe(this);
  }

  /** The source gives nothing more. */
  #end(): void {
    this.#sourceEnded = true;
    if (this.#connection.failure === undefined) this.#connection.flush();
    this.#settled();
  }

  readonly #settled = (): void => {
    this.#wakePlanned = false;
    this.#wakeFeeder?.();
    if (this.#inFlight > 0 || !(this.#sourceEnded || this.#stopped)) return;
    if (this.#stopped) this.#reject(new ProduceError(this.#stopCause, this.progress()));
    else this.#resolve(this.progress());
  };

  /** A throw of the caller's own function must not be taken for a fault of the broker. */
  #tell<What>(callback: (index: number, what: What) => void, index: number, what: What): void {
    try {
      callback(index, what);
    } catch (error) {
      this.stop(error);
    }
  }
}

function isMany(item: Producible | readonly Producible[]): item is readonly Producible[] {
  return Array.isArray(item);
}
