import type { Refusal } from "../log/refusal.ts";
import {
  FIELD_HEADERS_LENGTH,
  FIELD_KEY_LENGTH,
  FIELD_PAYLOAD,
  FIELD_PAYLOAD_LENGTH,
  FIELDS,
} from "../runtime/codec.ts";
import type { Connection } from "../runtime/sockets.ts";
import { checkCompressedDescriptor } from "../wire/compressed.ts";
import { codedErrFrame, ErrorCode, ErrorText, errFrame, errorText } from "../wire/error-body.ts";
import { WireError } from "../wire/errors.ts";
import { PUB_ACK_FRAME_BYTES, writeEmpty, writePubAck } from "../wire/hot.ts";
import { FRAME_HEADER_BYTES } from "../wire/limits.ts";
import { frameStartOfRow, PubOutcome, publishLevel, readPubRow } from "../wire/pub-table.ts";
import { Tag } from "../wire/tags.ts";
import { Consumer } from "./consumer.ts";
import type { BrokerContext } from "./context.ts";
import type { Delivery } from "./delivery.ts";
import { Inbound } from "./inbound.ts";
import { MAX_UNSETTLED_PUBLISHES, PUBLISH_TABLE_ROWS } from "./limits.ts";
import { Output } from "./output.ts";
import type { Publisher } from "./publisher.ts";
import { UnsettledPublishes } from "./settlement.ts";
import { handlerOf } from "./verbs/index.ts";

/** Acknowledgements that are composed at a time; they fit the shared output buffer. */
const MOST_ACKS = 4096;

/** Refusals of what later versions will take; nothing is appended (docs/decisions). */
const NO_CONFIRM_TEXT = "confirmed publish (level 2) is not available in this version";
const NO_DEDUP_TEXT = "deduplicated publish is not available in this version";

/**
 * One connection: takes frames in order, appends publishes, serves the other verbs, and writes the replies in the order
 * of the requests (wire.md 6). It works in turns: whatever has arrived is processed until it is used up or something has
 * to be waited for (a barrier, room in the log, the socket), then the rest is kept and the socket paused.
 */
export class Session implements Publisher {
  readonly broker: BrokerContext;
  readonly connection: Connection;
  readonly output: Output;
  readonly consumer: Consumer;
  /** A well-formed Connect was answered with Info. */
  connected = false;
  /** The Fetch or Flow response that is being written, if one is. */
  delivery: Delivery | undefined;

  readonly #inbound = new Inbound();
  readonly #unsettled = new UnsettledPublishes();
  #rows = 0;
  #silentRows = false;
  #running = false;
  #paused = false;
  #waitsForRoom = false;
  #peerEnded = false;
  #finishing = false;
  #closed = false;
  #lastReceivedMs: number;
  /** When the socket was last seen to take something, or to have nothing to take. */
  #lastProgressMs: number;
  #takenBytes = 0;
  #finishDeadlineMs = Number.POSITIVE_INFINITY;

  constructor(connection: Connection, broker: BrokerContext) {
    this.connection = connection;
    this.broker = broker;
    this.output = new Output(connection, broker.scratch);
    this.consumer = new Consumer(broker);
    this.#lastReceivedMs = broker.clock.monotonicMs();
    this.#lastProgressMs = this.#lastReceivedMs;
  }

  /** The socket brought bytes. */
  received(chunk: Uint8Array): void {
    this.#lastReceivedMs = this.broker.clock.monotonicMs();
    if (this.#finishing) return;
    this.#inbound.push(chunk);
    this.#turn();
  }

  /** The socket has room again. */
  drained(): void {
    if (!this.output.drain()) return;
    if (this.#finishing) this.#finishIfSettled();
    else this.#turn();
  }

  /** The peer sent a FIN: what it asked for before is still answered. */
  peerEnded(): void {
    this.#peerEnded = true;
    if (this.#finishing) this.#finishIfSettled();
    else this.#turn();
  }

  /** The connection is gone. */
  closed(): void {
    this.#closed = true;
    this.#finishing = true;
    this.output.close();
    this.#inbound.clear();
    this.delivery = undefined;
    this.broker.stream.forget(this);
    this.consumer.leave();
  }

  /** A few times a second: the timeouts of wire.md 6.1. */
  tick(nowMs: number): void {
    const { idleTimeoutMs, writeTimeoutMs } = this.broker.limits;
    const stuck = this.output.backlogBytes > 0 && this.output.takenBytes === this.#takenBytes;
    this.#takenBytes = this.output.takenBytes;
    if (!stuck) this.#lastProgressMs = nowMs;
    // While its socket is not read, or a response is under way, the peer cannot be silent.
    if (this.#paused || this.output.backlogBytes > 0) this.#lastReceivedMs = nowMs;
    if (nowMs >= this.#finishDeadlineMs) {
      this.connection.close();
    } else if (stuck) {
      if (nowMs - this.#lastProgressMs >= writeTimeoutMs) this.connection.terminate();
    } else if (nowMs - this.#lastReceivedMs >= idleTimeoutMs && this.#allSettled()) {
      this.connection.close();
    }
  }

  /** Stops taking requests, lets what is owed go out, then closes. */
  finish(): void {
    if (this.#finishing) return;
    this.#finishing = true;
    this.delivery = undefined;
    this.#inbound.clear();
    this.#resume();
    this.#finishIfSettled();
  }

  /** Replies with an uncoded error text. */
  refuse(text: string): void {
    const frame = errFrame(text);
    this.output.bytes(frame, 0, frame.length);
  }

  /** Replies with a coded error. */
  refuseCoded(code: ErrorCode, text: string): void {
    const frame = codedErrFrame(code, text);
    this.output.bytes(frame, 0, frame.length);
  }

  /** A frame without a body. */
  replyEmpty(tag: number): void {
    this.output.reserve(FRAME_HEADER_BYTES);
    const scratch = this.output.scratch;
    scratch.at = writeEmpty(scratch.buffer, scratch.at, tag);
  }

  /** The engine cannot go on for this connection: the fatal Err, then the end (wire.md 6.4). */
  fatal(): void {
    this.refuse(ErrorText.FatalStorage);
    this.#unsettled.clear(0);
    this.finish();
  }

  settle(head: number): boolean {
    if (this.#closed) return true;
    this.#acknowledge(head);
    this.output.flush();
    if (this.#finishing) this.#finishIfSettled();
    else if (this.#inbound.holding || this.#peerEnded) this.#turn();
    return this.#allSettled();
  }

  rejected(from: number, refusal: Refusal | undefined): void {
    if (this.#closed) return;
    this.#acknowledge(from);
    const owed = this.#unsettled.clear(from);
    for (let index = 0; index < owed; index++) {
      if (refusal === undefined) this.refuse(ErrorText.ProduceFailed);
      else this.refuseCoded(ErrorCode.AtCapacity, ErrorText.AtCapacity);
    }
    this.broker.stream.counters.produceRejected += owed;
    this.output.flush();
  }

  froze(head: number): void {
    if (this.#closed) return;
    this.#acknowledge(head);
    if (this.#unsettled.clear(head) === 0) {
      // Nothing is owed that could be answered with the error: it is the answer to the next publish.
      this.settle(head);
      return;
    }
    this.refuse(ErrorText.FatalStorage);
    this.output.flush();
    this.finish();
  }

  roomMade(): void {
    this.#waitsForRoom = false;
    if (!this.#finishing) this.#turn();
  }

  #allSettled(): boolean {
    return this.#unsettled.until <= this.broker.stream.log.visibleHead;
  }

  #turn(): void {
    if (this.#running) return;
    this.#running = true;
    try {
      this.#work();
    } catch (error) {
      if (!(error instanceof WireError)) {
        // The buffer is everybody's: what was composed for this peer must not reach another.
        this.output.scratch.at = 0;
        throw error;
      }
      // The envelope cannot be resynchronised: what is owed goes out, nothing else is said (wire.md 1). Without room for
      // the publishes before it the turn ends here, and the next one comes to it again.
      if (this.#append()) this.finish();
    } finally {
      this.#running = false;
    }
    this.output.flush();
    this.consumer.turnEnded();
    this.broker.stream.log.pump();
    this.#afterTurn();
  }

  /** Processes frames until there are none or one of them has to wait. */
  #work(): void {
    while (!this.#finishing && !this.#waitsForRoom && this.output.backlogBytes === 0) {
      if (this.delivery !== undefined) {
        if (!this.delivery.proceed(this)) return;
        this.delivery = undefined;
        continue;
      }
      if (this.#unsettled.count >= MAX_UNSETTLED_PUBLISHES) return;
      if (!this.#inbound.next()) {
        if (!this.#append() || !this.#inbound.release()) return;
      } else if (this.#inbound.tag === Tag.Pub ? !this.#publish() : !this.#serve()) {
        return;
      }
    }
  }

  #afterTurn(): void {
    if (this.#finishing || this.#closed) return;
    if (this.#inbound.holding || this.delivery !== undefined) {
      if (!this.#paused) {
        this.#paused = true;
        this.connection.pause();
      }
      return;
    }
    this.#resume();
    if (this.#peerEnded && this.#allSettled()) this.finish();
  }

  #resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.connection.resume();
  }

  #finishIfSettled(): void {
    if (this.#closed || !this.#allSettled() || this.output.backlogBytes > 0) return;
    this.output.flush();
    if (this.output.backlogBytes > 0) return;
    // A FIN after everything sent; closing at once would lose what is still under way, also for a peer that sent its own.
    if (this.#finishDeadlineMs !== Number.POSITIVE_INFINITY) return;
    this.#finishDeadlineMs = this.broker.clock.monotonicMs() + this.broker.limits.lingerMs;
    this.connection.shutdown();
  }

  /** One Pub frame becomes a row of the table; false when the frame has to be read again later. */
  #publish(): boolean {
    const { buffer, bodyStart, bodyEnd } = this.#inbound;
    if (!this.connected) return this.#refusePublish(ErrorText.NotConnected);
    const table = this.broker.publishTable;
    let outcome = readPubRow(buffer, bodyStart, bodyEnd, table.rows, this.#rows);
    if (outcome === PubOutcome.Compressed) {
      const at = this.#rows * FIELDS;
      const payload = table.rows[at + FIELD_PAYLOAD];
      const reason = checkCompressedDescriptor(buffer, payload, payload + table.rows[at + FIELD_PAYLOAD_LENGTH]);
      outcome = publishLevel(buffer[bodyStart]);
      if (reason !== undefined) {
        return outcome === PubOutcome.FireAndForget || this.#refusePublish(errorText.malformedCompressed(reason));
      }
    }
    if (outcome > PubOutcome.Acknowledged) {
      if (outcome === PubOutcome.Malformed) return this.#refusePublish(ErrorText.MalformedPub);
      return publishLevel(buffer[bodyStart]) === 0 || this.#refusePublish(refusalOf(outcome));
    }
    const silent = outcome === PubOutcome.FireAndForget;
    const at = this.#rows * FIELDS;
    const body =
      table.rows[at + FIELD_KEY_LENGTH] + table.rows[at + FIELD_HEADERS_LENGTH] + table.rows[at + FIELD_PAYLOAD_LENGTH];
    if (body > this.broker.stream.log.maxBodyBytes) return silent || this.#refusePublish(ErrorText.ProduceFailed);
    table.silent[this.#rows] = silent ? 1 : 0;
    if (silent) this.#silentRows = true;
    this.#rows += 1;
    // A frame in the carry buffer does not survive the next step.
    return (this.#rows < PUBLISH_TABLE_ROWS && !this.#inbound.fromCarry) || this.#append();
  }

  #refusePublish(text: string): boolean {
    if (!this.#settledBefore()) return false;
    this.refuse(text);
    return true;
  }

  /** Any other frame: waits until the publishes before it are settled, then is served (wire.md 6.3). */
  #serve(): boolean {
    if (!this.#settledBefore()) return false;
    const { tag, buffer, bodyStart, bodyEnd } = this.#inbound;
    if (tag === Tag.Ping) this.replyEmpty(Tag.Pong);
    else handlerOf(tag)(this, buffer, bodyStart, bodyEnd);
    return true;
  }

  /** Whether all earlier publishes are settled; if not, the current frame is read again once they are. */
  #settledBefore(): boolean {
    if (this.#rows > 0 && !this.#append()) return false;
    if (this.#finishing) return false;
    if (this.#allSettled()) {
      // Acknowledgements that are due but not written yet come first.
      this.#acknowledge(this.broker.stream.log.visibleHead);
      return true;
    }
    this.#inbound.rewindTo(this.#inbound.frameStart);
    return false;
  }

  /** Appends the table's rows; false when the log took only some and the rest has to be read again later. */
  #append(): boolean {
    const rows = this.#rows;
    if (rows === 0) return true;
    const table = this.broker.publishTable;
    const { stream } = this.broker;
    this.#rows = 0;
    const first = stream.log.nextOffset;
    const taken = stream.log.append(this.#inbound.buffer, table.rows, 0, rows);
    if (taken > 0) {
      this.#unsettled.until = first + taken;
      if (this.#silentRows) this.#addAcknowledged(first, taken);
      else this.#unsettled.add(first, taken);
      stream.await(this);
    }
    stream.appendedUntil = first + taken;
    this.#silentRows = false;
    if (taken === rows) return true;
    if (stream.log.frozen !== undefined) {
      if (table.silent[taken] === 0) this.refuse(ErrorText.FatalStorage);
      this.finish();
      return false;
    }
    const refusal = stream.log.hasRoom ? stream.log.refusal : undefined;
    const waitsForRoom = refusal === undefined || stream.makeRoom(refusal);
    if (!waitsForRoom && this.#allSettled()) {
      this.#refuseRows(taken, rows, refusal);
      return true;
    }
    this.#inbound.rewindTo(frameStartOfRow(table.rows, taken));
    if (waitsForRoom) {
      this.#waitsForRoom = true;
      stream.awaitRoom(this);
    }
    return false;
  }

  /** The log is healthy and takes none of the rows [first, end): nothing of them is appended (wire.md 7.3). */
  #refuseRows(first: number, end: number, refusal: Refusal): void {
    const { publishTable, stream } = this.broker;
    // Acknowledgements that are due but not written yet come first.
    this.#acknowledge(stream.log.visibleHead);
    let silent = 0;
    for (let row = first; row < end; row++) {
      if (publishTable.silent[row] === 1) silent += 1;
      else this.refuseCoded(ErrorCode.AtCapacity, ErrorText.AtCapacity);
    }
    stream.countRefused(end - first - silent, silent, refusal);
  }

  #addAcknowledged(first: number, count: number): void {
    const { silent } = this.broker.publishTable;
    for (let index = 0; index < count; index++) {
      if (silent[index] === 0) this.#unsettled.add(first + index, 1);
      else this.broker.stream.counters.producedWithoutAck += 1;
    }
  }

  /** Writes the acknowledgements owed for offsets below `head`. */
  #acknowledge(head: number): void {
    const unsettled = this.#unsettled;
    const { output } = this;
    const { scratch } = output;
    for (let due = unsettled.settledBelow(head); due > 0; due = unsettled.settledBelow(head)) {
      const first = unsettled.first;
      const count = Math.min(due, MOST_ACKS);
      output.reserve(count * PUB_ACK_FRAME_BYTES);
      let at = scratch.at;
      for (let index = 0; index < count; index++) at = writePubAck(scratch.buffer, at, first + index);
      scratch.at = at;
      unsettled.take(count);
    }
  }
}

function refusalOf(outcome: PubOutcome): string {
  switch (outcome) {
    case PubOutcome.ProducerIdTooLong:
      return ErrorText.ProducerIdTooLong;
    case PubOutcome.MessageIdTooLong:
      return ErrorText.MsgIdTooLong;
    case PubOutcome.SequenceWithoutProducer:
      return ErrorText.SequenceWithoutProducer;
    case PubOutcome.Confirmed:
      return NO_CONFIRM_TEXT;
    default:
      return NO_DEDUP_TEXT;
  }
}
