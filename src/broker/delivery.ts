import { CompressionError } from "../log/compressed-payload.ts";
import { LogReadError, type Window } from "../log/reader.ts";
import { GenerationExhaustedError } from "../queue/group-options.ts";
import type { Member } from "../queue/member.ts";
import {
  FIELD_FLAGS,
  FIELD_HEADERS,
  FIELD_HEADERS_LENGTH,
  FIELD_KEY,
  FIELD_KEY_LENGTH,
  FIELD_PAYLOAD,
  FIELD_PAYLOAD_LENGTH,
  FIELD_TIMESTAMP,
  FIELDS,
} from "../runtime/codec.ts";
import { FileSystemError } from "../runtime/file-system.ts";
import { ErrorText } from "../wire/error-body.ts";
import {
  DELIVER_FRAME_OVERHEAD_BYTES,
  FLOW_END_FRAME_BYTES,
  GAP_MARKER_FRAME_BYTES,
  TRUNCATED_FRAME_BYTES,
  writeDeliverHeader,
  writeFlowEnd,
  writeGapMarker,
  writeTruncated,
  writeU16,
} from "../wire/hot.ts";
import type { ConsumerGroup } from "./consumer-group.ts";
import type { Session } from "./session.ts";

const COMPRESSED = 0x01;
const GAP_RETENTION = 1;
const GAP_LOST = 200;

/**
 * The response to one Fetch or Flow (wire.md 9.2, 9.3): polls step by step, each step at most one frame, then FlowEnd.
 * It stops whenever the socket is full and goes on from there, so a slow reader costs no memory.
 */
export class Delivery {
  readonly #group: ConsumerGroup;
  readonly #member: Member;
  readonly #requested: number;
  readonly #remaining: number;
  readonly #granted: number;
  readonly #byteBudget: number;
  readonly #deadlineMs: number;
  #stepsLeft: number;
  #delivered = 0;

  /**
   * `requested` records at most; `maxBytes` 0 = no bound besides the negotiated one; `deadlineMs` is monotonic time after
   * which no further step is taken.
   */
  constructor(session: Session, group: ConsumerGroup, requested: number, maxBytes: number, deadlineMs: number) {
    const { consumer } = session;
    this.#group = group;
    this.#member = consumer.member as Member;
    group.group.pruneExpired(this.#member, session.broker.clock.monotonicMs());
    this.#requested = requested;
    this.#remaining = consumer.window.remaining(this.#member.held);
    this.#granted = Math.min(requested, this.#remaining);
    this.#stepsLeft = this.#granted;
    const budget = consumer.byteBudget;
    this.#byteBudget = budget === 0 || maxBytes === 0 ? budget || maxBytes : Math.min(budget, maxBytes);
    this.#deadlineMs = deadlineMs;
  }

  /** Writes as much of the response as the socket takes; true once it is complete. */
  proceed(session: Session): boolean {
    const { output } = session;
    const { stream, clock } = session.broker;
    const nowMs = clock.monotonicMs();
    const group = this.#group.group;
    try {
      this.#reportTruncation(session, stream.log.earliestOffset);
      group.beginScan(nowMs);
      const head = stream.log.visibleHead;
      while (this.#stepsLeft > 0 && nowMs < this.#deadlineMs && this.#withinBudget()) {
        if (output.backlogBytes > 0) return false;
        const offset = group.next(this.#member, head);
        if (offset < 0) break;
        this.#stepsLeft -= 1;
        if (!this.#deliver(session, offset, head)) continue;
        this.#delivered += 1;
        stream.counters.delivered += 1;
        if (group.lastDeliveries > 1) stream.counters.redelivered += 1;
      }
    } catch (error) {
      if (error instanceof GenerationExhaustedError) session.fatal();
      else if (error instanceof LogReadError || error instanceof FileSystemError) session.refuse(ErrorText.FetchFailed);
      else throw error;
      return true;
    }
    session.consumer.window.afterBatch(this.#requested, this.#remaining, this.#granted, this.#delivered);
    output.reserve(FLOW_END_FRAME_BYTES);
    output.scratch.at = writeFlowEnd(output.scratch.buffer, output.scratch.at, this.#delivered);
    return true;
  }

  /** A connection that holds nothing always gets one record, whatever its size. */
  #withinBudget(): boolean {
    return this.#byteBudget === 0 || this.#member.held === 0 || this.#member.heldBytes < this.#byteBudget;
  }

  /** The records before `earliest` are gone: the group moves there and the consumer is told once. */
  #reportTruncation(session: Session, earliest: number): void {
    if (this.#stepsLeft === 0) return;
    const truncated = this.#group.group.truncateTo(earliest);
    if (truncated === undefined) return;
    const { skipped } = truncated;
    session.broker.stream.counters.truncated(earliest, skipped);
    this.#stepsLeft -= 1;
    this.#tellGap(session, earliest - skipped, earliest, GAP_RETENTION);
  }

  /** The consumer will never see the records [start, end). */
  #tellGap(session: Session, start: number, end: number, reason: number): void {
    const { output } = session;
    if (session.consumer.gapMarkers) {
      output.reserve(GAP_MARKER_FRAME_BYTES);
      output.scratch.at = writeGapMarker(output.scratch.buffer, output.scratch.at, start, end, 0, reason);
    } else {
      output.reserve(TRUNCATED_FRAME_BYTES);
      output.scratch.at = writeTruncated(output.scratch.buffer, output.scratch.at, end, end - start);
    }
  }

  /** The record just claimed is lost, and others with it: the group settles all of them in one step (README ruling 1). */
  #cross(session: Session, offset: number, head: number): void {
    const gap = session.broker.stream.log.gapAt(offset) ?? { start: offset, end: offset + 1 };
    const lost = this.#group.group.lose(gap.start, Math.min(gap.end, head));
    if (lost !== undefined) this.#tellGap(session, lost.start, lost.end, GAP_LOST);
  }

  /** Writes the Deliver frame of a record just claimed; false when the record is lost, and the consumer told of that. */
  #deliver(session: Session, offset: number, head: number): boolean {
    const group = this.#group.group;
    let window: Window | undefined;
    try {
      window = session.broker.stream.log.read(offset, head);
    } catch (error) {
      group.unclaim(offset);
      throw error;
    }
    if (window === undefined) {
      this.#cross(session, offset, head);
      return false;
    }
    const { rows } = window;
    const at = (offset - window.firstOffset) * FIELDS;
    let flags = rows[at + FIELD_FLAGS];
    const keyLength = rows[at + FIELD_KEY_LENGTH];
    const headersLength = rows[at + FIELD_HEADERS_LENGTH];
    let payloadSource = window.buffer;
    let payload = rows[at + FIELD_PAYLOAD];
    let payloadLength = rows[at + FIELD_PAYLOAD_LENGTH];
    group.setBytes(offset, keyLength + headersLength + payloadLength);
    if ((flags & COMPRESSED) !== 0 && !session.consumer.compressedDeliveries) {
      const { plain, undecodable } = session.broker.stream;
      try {
        plain.find(window, offset);
      } catch (error) {
        if (!(error instanceof CompressionError)) {
          group.unclaim(offset);
          throw error;
        }
        // Handing it out undecoded would break the agreement with the peer, and waiting for it would block the group.
        undecodable.met(window, offset, error);
        group.lose(offset, offset + 1);
        this.#tellGap(session, offset, offset + 1, GAP_LOST);
        return false;
      }
      flags &= ~COMPRESSED;
      payloadSource = plain.source;
      payload = plain.start;
      payloadLength = plain.lengthBytes;
    }
    const { output } = session;
    const { scratch } = output;
    output.reserve(DELIVER_FRAME_OVERHEAD_BYTES);
    scratch.at = writeDeliverHeader(
      scratch.buffer,
      scratch.at,
      offset,
      group.lastGeneration,
      flags,
      window.buffer,
      rows[at + FIELD_TIMESTAMP],
      keyLength,
      headersLength,
      payloadLength,
    );
    const key = rows[at + FIELD_KEY];
    if (keyLength > 0) output.bytes(window.buffer, key, key + keyLength);
    output.reserve(2);
    scratch.at = writeU16(scratch.buffer, scratch.at, headersLength);
    const headers = rows[at + FIELD_HEADERS];
    if (headersLength > 0) output.bytes(window.buffer, headers, headers + headersLength);
    output.bytes(payloadSource, payload, payload + payloadLength);
    return true;
  }
}
