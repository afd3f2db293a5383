import { DeliverView, readDeliver, readFlowEnd, readU32, readU64, readU64Exact } from "../wire/hot.ts";
import { Tag } from "../wire/tags.ts";
import type { Connection, ReplySink } from "./connection.ts";
import { ProtocolError } from "./errors.ts";
import { type Advisory, type Batch, Message } from "./message.ts";
import { wholeNumber } from "./options.ts";
import { brokerError, exchange, unexpected } from "./replies.ts";
import { appendFetch } from "./requests.ts";
import type { Signal } from "./signal.ts";

export interface FetchOptions {
  /** Most messages (and advisories) in the answer; 256 by default. The broker's credit window may give fewer. */
  readonly max?: number;
  /** Most bytes leased to this connection, with what it holds already; at least one message comes all the same. 0: no bound. */
  readonly maxBytes?: number;
  /** Never wait, also where the broker is set up to let empty fetches wait. */
  readonly noWait?: boolean;
  readonly signal?: Signal;
}

const DEFAULT_MAX = 256;
/** Payload, key and header bytes in one answer that no broker has reason to exceed (wire.md 19). */
const MOST_ANSWER_BYTES = 256 * 1024 * 1024;

const NO_BYTES = new Uint8Array(0);

/** Leases what is ready now; an empty queue gives an empty batch at once. See Client.fetch(). */
export function fetchBatch(connection: Connection, options: FetchOptions): Promise<Batch> {
  return exchange(connection, options.signal, (resolve, reject) => {
    const max = wholeNumber("max", options.max ?? DEFAULT_MAX, 0, 0xffff_ffff);
    const maxBytes = wholeNumber("maxBytes", options.maxBytes ?? 0, 0, Number.MAX_SAFE_INTEGER);
    appendFetch(connection.out, max, maxBytes, options.noWait === true);
    connection.owe(new BatchReply(max, resolve, reject));
    connection.flushSoon();
  });
}

/** Deliveries and advisories, then one terminator: FlowEnd or Err (wire.md 6.2, 9.3). */
class BatchReply implements ReplySink {
  readonly #max: number;
  readonly #resolve: (batch: Batch) => void;
  readonly #reject: (error: Error) => void;
  readonly #messages: Message[] = [];
  readonly #advisories: Advisory[] = [];
  readonly #view = new DeliverView();
  #bytes = 0;

  constructor(max: number, resolve: (batch: Batch) => void, reject: (error: Error) => void) {
    this.#max = max;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  frame(tag: number, buffer: Uint8Array, start: number, end: number): boolean {
    if (tag === Tag.FlowEnd) {
      const delivered = readFlowEnd(buffer, start, end);
      if (delivered !== this.#messages.length) {
        throw new ProtocolError(`FlowEnd counts ${delivered} messages, ${this.#messages.length} came`);
      }
      this.#resolve({ messages: this.#messages, advisories: this.#advisories });
      return true;
    }
    if (tag === Tag.Err) {
      // What came before the Err stays leased until its visibility timeout (wire.md 9.3).
      this.#reject(brokerError(buffer, start, end));
      return true;
    }
    if (this.#messages.length + this.#advisories.length >= this.#max) {
      throw new ProtocolError(`more than the ${this.#max} messages asked for`);
    }
    if (tag === Tag.Deliver) this.#messages.push(this.#message(buffer, start, end));
    else this.#advisories.push(advisory(tag, buffer, start, end));
    return false;
  }

  failed(error: Error): void {
    this.#reject(error);
  }

  #message(buffer: Uint8Array, start: number, end: number): Message {
    this.#bytes += end - start;
    if (this.#bytes > MOST_ANSWER_BYTES) throw new ProtocolError(`an answer of more than ${MOST_ANSWER_BYTES} bytes`);
    const view = this.#view;
    readDeliver(buffer, start, end, view);
    return new Message(
      knownOffset(view.offset),
      readU32(buffer, start + 8),
      readU32(buffer, start + 12),
      view.timestampMs >= 0 ? view.timestampMs : Number(readU64Exact(buffer, start + 17)),
      slice(buffer, view.keyStart, view.keyLength),
      slice(buffer, view.headersStart, view.headersLength),
      slice(buffer, view.payloadStart, view.payloadLength),
    );
  }
}

/** A view that is a plain Uint8Array on both runtimes, whatever class the socket's chunk has. */
function slice(buffer: Uint8Array, start: number, length: number): Uint8Array {
  return length === 0 ? NO_BYTES : new Uint8Array(buffer.buffer, buffer.byteOffset + start, length);
}

function knownOffset(offset: number): number {
  if (offset < 0) throw new ProtocolError("an offset is above 2^53-1");
  return offset;
}

function advisory(tag: number, buffer: Uint8Array, start: number, end: number): Advisory {
  const need = (bytes: number) => {
    if (end - start !== bytes) throw unexpected(tag, `a fetch, with ${end - start} bytes`);
  };
  const at = (position: number) => knownOffset(readU64(buffer, start + position));
  switch (tag) {
    case Tag.DeadLetter:
      need(9);
      return { kind: "dead-letter", offset: at(0), reason: buffer[start + 8] };
    case Tag.Truncated:
      need(16);
      return { kind: "truncated", earliestRetained: at(0), skipped: at(8) };
    case Tag.GapMarker:
      need(25);
      return { kind: "gap", from: at(0), to: at(8), bytesSkipped: at(16), reason: buffer[start + 24] };
    default:
      throw unexpected(tag, "a fetch");
  }
}
