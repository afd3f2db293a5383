import {
  ACK_FRAME_BYTES,
  type AckOp,
  AckStatusCode,
  BACKOFF_DELAY_MS,
  readAckStatus,
  writeAck,
  writeU32,
} from "../wire/hot.ts";
import { FRAME_HEADER_BYTES } from "../wire/limits.ts";
import { Tag } from "../wire/tags.ts";
import type { Connection, ReplySink } from "./connection.ts";
import type { BrokerError } from "./errors.ts";
import type { Message, Settlement, Settlements } from "./message.ts";
import type { Outbound } from "./outbound.ts";
import { brokerError, exchange, SingleReply, unexpected } from "./replies.ts";
import type { Signal } from "./signal.ts";

/** Where the lease token lies in an Ack frame: after op and offset. */
const GENERATION_AT = FRAME_HEADER_BYTES + 9;

/** Settles one message (wire.md 9.4). */
export function settleOne(
  connection: Connection,
  op: AckOp,
  message: Message,
  delayMs: number,
  signal: Signal | undefined,
): Promise<Settlement> {
  return exchange(connection, signal, (resolve, reject) => {
    encodeAck(connection.out, op, message, delayMs);
    connection.owe(new SingleReply(settlementOf, resolve, reject));
    connection.flushSoon();
  });
}

/** Settles many messages in as few writes as possible; resolves when all are answered. */
export function settleMany(
  connection: Connection,
  op: AckOp,
  messages: readonly Message[],
  delayMs: number,
  signal: Signal | undefined,
): Promise<Settlements> {
  return exchange(connection, signal, (resolve, reject) => {
    const sink = new ManyReplies(messages.length, resolve, reject);
    if (messages.length === 0) return;
    for (const message of messages) {
      encodeAck(connection.out, op, message, delayMs);
      connection.owe(sink);
    }
    connection.flushSoon();
  });
}

/** `delayMs` for a nack that leaves the delay to the broker's schedule. */
export const SCHEDULED_DELAY = BACKOFF_DELAY_MS;

function encodeAck(out: Outbound, op: AckOp, message: Message, delayMs: number): void {
  const at = out.reserve(ACK_FRAME_BYTES);
  out.used = writeAck(out.buffer, at, op, message.offset, 0, delayMs);
  // A token uses all 64 bits, which no number holds.
  writeU32(out.buffer, at + GENERATION_AT, message.generationLow);
  writeU32(out.buffer, at + GENERATION_AT + 4, message.generationHigh);
}

function settlementOf(tag: number, buffer: Uint8Array, start: number, end: number): Settlement {
  if (tag !== Tag.AckStatus) throw unexpected(tag, "an ack");
  const status = readAckStatus(buffer, start, end);
  if (status === AckStatusCode.Done) return "done";
  if (status === AckStatusCode.Fenced) return "fenced";
  if (status === AckStatusCode.ProgressCap) return "capped";
  throw unexpected(tag, `an ack, with status ${status}`);
}

class ManyReplies implements ReplySink {
  readonly #total: number;
  readonly #resolve: (value: Settlements) => void;
  readonly #reject: (error: Error) => void;
  readonly #fenced: number[] = [];
  readonly #capped: number[] = [];
  #answered = 0;
  #refusal: BrokerError | undefined;

  constructor(total: number, resolve: (value: Settlements) => void, reject: (error: Error) => void) {
    this.#total = total;
    this.#resolve = resolve;
    this.#reject = reject;
    if (total === 0) this.#finish();
  }

  frame(tag: number, buffer: Uint8Array, start: number, end: number): boolean {
    const index = this.#answered++;
    if (tag === Tag.Err) {
      this.#refusal ??= brokerError(buffer, start, end, index);
    } else {
      const settlement = settlementOf(tag, buffer, start, end);
      if (settlement === "fenced") this.#fenced.push(index);
      else if (settlement === "capped") this.#capped.push(index);
    }
    if (this.#answered === this.#total) this.#finish();
    return true;
  }

  failed(error: Error): void {
    this.#reject(error);
  }

  #finish(): void {
    if (this.#refusal !== undefined) {
      this.#reject(this.#refusal);
      return;
    }
    const done = this.#total - this.#fenced.length - this.#capped.length;
    this.#resolve({ done, fenced: this.#fenced, capped: this.#capped });
  }
}
