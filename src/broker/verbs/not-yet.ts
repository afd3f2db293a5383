import { decodeStreamFetch } from "../../wire/consume.ts";
import { ErrorCode, ErrorText } from "../../wire/error-body.ts";
import { WireError } from "../../wire/errors.ts";
import { Reader } from "../../wire/reader.ts";
import { decodeUtf8 } from "../../wire/utf8.ts";
import type { Session } from "../session.ts";

/*
 * Verbs of features that this version does not have. Each gets the answer that the contract gives on a broker where the
 * feature is not in use, so that a client sees a refusal it knows, never a silent success.
 */

const COMPETING_TEXT = "cumulative ack is not allowed on a competing work-group (broadcast consumers only)";

/** Every group is a competing one. */
export function refuseCumulativeAck(session: Session, buffer: Uint8Array, start: number, end: number): void {
  refuseCommit(session, buffer, start, end, ErrorText.MalformedCumulativeAck, ErrorText.CumulativeAckGroupUtf8);
}

/** No group is a streaming one. */
export function refuseStreamCommit(session: Session, buffer: Uint8Array, start: number, end: number): void {
  refuseCommit(session, buffer, start, end, ErrorText.MalformedStreamCommit, ErrorText.StreamCommitGroupUtf8);
}

export function refuseStreamFetch(session: Session, buffer: Uint8Array, start: number, end: number): void {
  try {
    decodeStreamFetch(new Reader(buffer, start, end));
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    session.refuse(ErrorText.MalformedStreamFetch);
    return;
  }
  session.refuseCoded(ErrorCode.CumulativeAckNotAllowed, COMPETING_TEXT);
}

/** The capability is never confirmed, so it is not negotiated on any connection. */
export function refuseStreamVerb(session: Session): void {
  session.refuse(ErrorText.StreamsNotNegotiated);
}

function refuseCommit(
  session: Session,
  buffer: Uint8Array,
  start: number,
  end: number,
  malformed: string,
  notUtf8: string,
): void {
  if (end - start < 8) session.refuse(malformed);
  else if (decodeUtf8(buffer.subarray(start + 8, end)) === undefined) session.refuse(notUtf8);
  else session.refuseCoded(ErrorCode.CumulativeAckNotAllowed, COMPETING_TEXT);
}
