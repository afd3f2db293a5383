import { ErrorText } from "../../wire/error-body.ts";
import { Tag } from "../../wire/tags.ts";
import { decodeUtf8 } from "../../wire/utf8.ts";
import type { Session } from "../session.ts";

/** Binds the connection to a group. The name is judged at the first Flow or Fetch, not here (wire.md 9.1). */
export function subscribe(session: Session, buffer: Uint8Array, start: number, end: number): void {
  const name = decodeUtf8(buffer.subarray(start, end));
  if (name === undefined) {
    session.refuse(ErrorText.SubNameUtf8);
    return;
  }
  session.consumer.bind(name);
  session.replyEmpty(Tag.Ok);
}

/** Back to the default group. */
export function unsubscribe(session: Session): void {
  session.consumer.bind("");
  session.replyEmpty(Tag.Ok);
}
