import { FileSystemError } from "../../runtime/file-system.ts";
import { decodeFetch } from "../../wire/consume.ts";
import { ErrorText } from "../../wire/error-body.ts";
import { WireError } from "../../wire/errors.ts";
import { readU32 } from "../../wire/hot.ts";
import { Reader } from "../../wire/reader.ts";
import type { ConsumerGroup } from "../consumer-group.ts";
import { Delivery } from "../delivery.ts";
import type { Session } from "../session.ts";

/** `credit: u32`: that many records at most. */
export function flow(session: Session, buffer: Uint8Array, start: number, end: number): void {
  if (end - start !== 4) session.refuse(ErrorText.FlowCredit);
  else deliver(session, readU32(buffer, start), 0, Number.POSITIVE_INFINITY);
}

/** Like Flow, with a bound on bytes held and a deadline for the work; an empty queue answers at once (wire.md 9.2). */
export function fetch(session: Session, buffer: Uint8Array, start: number, end: number): void {
  let request: ReturnType<typeof decodeFetch>;
  try {
    request = decodeFetch(new Reader(buffer, start, end));
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    session.refuse(ErrorText.MalformedFetch);
    return;
  }
  const limitMs = Number(request.expiresMs);
  const deadlineMs =
    limitMs > 0 && !request.noWait ? session.broker.clock.monotonicMs() + limitMs : Number.POSITIVE_INFINITY;
  deliver(session, request.maxRecords, Number(request.maxBytes), deadlineMs);
}

function deliver(session: Session, requested: number, maxBytes: number, deadlineMs: number): void {
  const group = join(session);
  if (group === undefined) session.refuse(ErrorText.FetchFailed);
  else session.delivery = new Delivery(session, group, requested, maxBytes, deadlineMs);
}

/** The group to poll; undefined when it cannot be had, be it for its name, the cap or its files (wire.md 7.4). */
function join(session: Session): ConsumerGroup | undefined {
  try {
    return session.consumer.join();
  } catch (error) {
    if (error instanceof FileSystemError) return undefined;
    throw error;
  }
}
