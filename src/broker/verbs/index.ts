import { ErrorText } from "../../wire/error-body.ts";
import { isExtensionTag, isKnownTag, Tag } from "../../wire/tags.ts";
import type { Session } from "../session.ts";
import { acknowledge } from "./ack.ts";
import { connect } from "./connect.ts";
import { fetch, flow } from "./fetch.ts";
import { refuseCumulativeAck, refuseStreamCommit, refuseStreamFetch, refuseStreamVerb } from "./not-yet.ts";
import { subscribe, unsubscribe } from "./subscribe.ts";

/** Serves one request frame: writes its whole reply, or sets `session.delivery`. The body is buffer[start, end). */
export type Handler = (session: Session, buffer: Uint8Array, start: number, end: number) => void;

const unknown: Handler = (session) => session.refuse(ErrorText.UnknownFrameType);
const unsupported: Handler = (session) => session.refuse(ErrorText.VerbNotSupported);

/** Every verb but Connect and Ping needs a handshake first (wire.md 5.3). */
function connected(handler: Handler): Handler {
  return (session, buffer, start, end) => {
    if (session.connected) handler(session, buffer, start, end);
    else session.refuse(ErrorText.NotConnected);
  };
}

const handlers: Handler[] = [];
for (let tag = 0; tag < 256; tag++) {
  // Extension tags do not exist on a connection without a granted capability (wire.md 21.1), and none is granted.
  handlers.push(isKnownTag(tag) && !isExtensionTag(tag) ? unsupported : unknown);
}
handlers[Tag.Connect] = connect;
handlers[Tag.Sub] = connected(subscribe);
handlers[Tag.Unsub] = connected(unsubscribe);
handlers[Tag.Ack] = connected(acknowledge);
handlers[Tag.Flow] = connected(flow);
handlers[Tag.Fetch] = connected(fetch);
handlers[Tag.CumulativeAck] = connected(refuseCumulativeAck);
handlers[Tag.StreamFetch] = connected(refuseStreamFetch);
handlers[Tag.StreamCommit] = connected(refuseStreamCommit);
for (const tag of [
  Tag.StreamDeclare,
  Tag.StreamInfo,
  Tag.PubTo,
  Tag.SubTo,
  Tag.BindSubject,
  Tag.PubSubject,
  Tag.SubSubject,
]) {
  handlers[tag] = connected(refuseStreamVerb);
}
for (const tag of [Tag.TxnPrepare, Tag.TxnCommit, Tag.TxnRollback, Tag.TxnCheckResult, Tag.TxnListen, Tag.PauseGroup]) {
  handlers[tag] = connected(unsupported);
}

/** The handler of a tag; every byte has one. Pub and Ping are on the session's own path. */
export function handlerOf(tag: number): Handler {
  return handlers[tag];
}
