import { GenerationExhaustedError, SERVER_BACKOFF } from "../../queue/group-options.ts";
import { ErrorText } from "../../wire/error-body.ts";
import { WireError } from "../../wire/errors.ts";
import {
  ACK_STATUS_FRAME_BYTES,
  AckOp,
  AckStatusCode,
  AckView,
  BACKOFF_DELAY_MS,
  readAck,
  writeAckStatus,
} from "../../wire/hot.ts";
import type { ConsumerGroup } from "../consumer-group.ts";
import type { Session } from "../session.ts";

/** One view serves all connections: it is read and used within one frame. */
const view = new AckView();

/** Ack, nack, term and progress of one lease (wire.md 9.4, semantics.md 7). */
export function acknowledge(session: Session, buffer: Uint8Array, start: number, end: number): void {
  try {
    readAck(buffer, start, end, view);
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    session.refuse(ErrorText.MalformedAck);
    return;
  }
  let status: AckStatusCode;
  try {
    status = settle(session);
  } catch (error) {
    if (!(error instanceof GenerationExhaustedError)) throw error;
    session.fatal();
    return;
  }
  const { output } = session;
  output.reserve(ACK_STATUS_FRAME_BYTES);
  output.scratch.at = writeAckStatus(output.scratch.buffer, output.scratch.at, status);
}

function settled(session: Session, group: ConsumerGroup, done: boolean): AckStatusCode {
  if (!done) return AckStatusCode.Fenced;
  session.broker.stream.counters.acks += 1;
  group.consumed += 1;
  return AckStatusCode.Done;
}

function settle(session: Session): AckStatusCode {
  const { consumer } = session;
  const { member } = consumer;
  if (consumer.group === undefined || member === undefined) return AckStatusCode.Fenced;
  const { group } = consumer.group;
  const { offset, generation } = view;
  consumer.touch();
  switch (view.op) {
    case AckOp.Ack:
      return settled(session, consumer.group, group.ack(member, offset, generation));
    case AckOp.Term:
      return settled(session, consumer.group, group.term(member, offset, generation));
    case AckOp.Nack: {
      const delayMs = view.delayMs === BACKOFF_DELAY_MS ? SERVER_BACKOFF : view.delayMs;
      const nowMs = session.broker.clock.monotonicMs();
      if (!group.nack(member, offset, generation, nowMs, delayMs)) return AckStatusCode.Fenced;
      consumer.window.backOff();
      return AckStatusCode.Done;
    }
    case AckOp.Progress: {
      const outcome = group.extend(member, offset, generation, session.broker.clock.monotonicMs());
      if (outcome === "fenced") return AckStatusCode.Fenced;
      return outcome === "cap" ? AckStatusCode.ProgressCap : AckStatusCode.Done;
    }
  }
}
