import { decodeErrorBody, isErrorCode, isRetryableCode } from "../wire/error-body.ts";
import { Reader } from "../wire/reader.ts";
import { Tag, tagName } from "../wire/tags.ts";
import { decodeUtf8Lossy } from "../wire/utf8.ts";
import type { Connection, ReplySink } from "./connection.ts";
import { BrokerError, ConnectionClosedError, NotLeaderError, ProtocolError } from "./errors.ts";
import type { Signal } from "./signal.ts";

/** The typed error for an Err frame's body. A code that is not in the registry is no code (wire.md 7.1). */
export function brokerError(buffer: Uint8Array, start: number, end: number, index?: number): BrokerError {
  const { code, message } = decodeErrorBody(new Reader(buffer, start, end));
  return new BrokerError(message, isErrorCode(code) ? code : undefined, isRetryableCode(code), index);
}

// NotLeader: version u8 (any), leader_hint var, ignored bytes (wire.md 3, 15)
/** The typed error for a NotLeader frame's body. Throws WireError. */
export function notLeaderError(buffer: Uint8Array, start: number, end: number, index?: number): NotLeaderError {
  const reader = new Reader(buffer, start, end);
  reader.u8();
  const hint = decodeUtf8Lossy(reader.var());
  return new NotLeaderError(hint === "" ? undefined : hint, index);
}

/** For a reply that cannot follow the request it is paired with. */
export function unexpected(tag: number, request: string): ProtocolError {
  return new ProtocolError(`${tagName(tag)} as the reply to ${request}`);
}

/** Waits for the one frame that answers one request: an Err rejects, anything else is up to `accept`. */
export class SingleReply<Value> implements ReplySink {
  readonly #accept: (tag: number, buffer: Uint8Array, start: number, end: number) => Value;
  readonly #resolve: (value: Value) => void;
  readonly #reject: (error: Error) => void;

  /** `accept` throws when the frame cannot be the reply; that closes the connection. */
  constructor(
    accept: (tag: number, buffer: Uint8Array, start: number, end: number) => Value,
    resolve: (value: Value) => void,
    reject: (error: Error) => void,
  ) {
    this.#accept = accept;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  frame(tag: number, buffer: Uint8Array, start: number, end: number): boolean {
    if (tag === Tag.Err) this.#reject(brokerError(buffer, start, end));
    else if (tag === Tag.NotLeader) this.#reject(notLeaderError(buffer, start, end));
    else this.#resolve(this.#accept(tag, buffer, start, end));
    return true;
  }

  failed(error: Error): void {
    this.#reject(error);
  }
}

/**
 * Runs one exchange as a promise. `send` encodes the frames and owes their replies, all in one go; it gets what settles
 * the promise. An abort before `send` sends nothing; one after it closes the connection, because the reply that is still
 * to come could no longer be told from the next one (wire.md 19). Rejects with `signal.reason` either way.
 */
export function exchange<Value>(
  connection: Connection,
  signal: Signal | undefined,
  send: (resolve: (value: Value) => void, reject: (error: unknown) => void) => void,
): Promise<Value> {
  return new Promise<Value>((resolve, reject) => {
    connection.assertOpen();
    if (signal === undefined) {
      send(resolve, reject);
      return;
    }
    signal.throwIfAborted();
    const abort = () => {
      reject(signal.reason);
      connection.fail(
        new ConnectionClosedError("a call was aborted while its reply was owed", { cause: signal.reason }),
      );
    };
    const settled = () => signal.removeEventListener("abort", abort);
    signal.addEventListener("abort", abort, { once: true });
    try {
      send(
        (value) => {
          settled();
          resolve(value);
        },
        (error) => {
          settled();
          reject(error);
        },
      );
    } catch (error) {
      settled();
      throw error;
    }
  });
}
