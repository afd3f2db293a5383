/** Subjects: wire.md 13. */
import { MAX_NAME_BYTES } from "./limits.ts";
import { decodePub, encodePub, type Pub } from "./pub.ts";
import type { Reader } from "./reader.ts";
import type { Writer } from "./writer.ts";

export interface BindSubject {
  /** Empty: the default stream. */
  readonly streamId: Uint8Array;
  readonly pattern: Uint8Array;
}

// V{ stream_id: var, pattern: var }

export function decodeBindSubject(reader: Reader): BindSubject {
  const bodyEnd = reader.enterBlock();
  const bind = { streamId: reader.name(MAX_NAME_BYTES), pattern: reader.name(MAX_NAME_BYTES) };
  reader.leaveBlock(bodyEnd);
  return bind;
}

export function encodeBindSubject(writer: Writer, bind: BindSubject): void {
  const block = writer.beginBlock();
  writer.name(bind.streamId, MAX_NAME_BYTES);
  writer.name(bind.pattern, MAX_NAME_BYTES);
  writer.endBlock(block);
}

export interface PubSubject {
  readonly subject: Uint8Array;
  readonly pub: Pub;
}

// V{ subject: var } + PubBody

/** The block alone; the reader is left at the PubBody. */
export function decodePubSubjectAddress(reader: Reader): Uint8Array {
  const bodyEnd = reader.enterBlock();
  const subject = reader.name(MAX_NAME_BYTES);
  reader.leaveBlock(bodyEnd);
  return subject;
}

export function decodePubSubject(reader: Reader): PubSubject {
  return { subject: decodePubSubjectAddress(reader), pub: decodePub(reader) };
}

export function encodePubSubject(writer: Writer, pubSubject: PubSubject): void {
  const block = writer.beginBlock();
  writer.name(pubSubject.subject, MAX_NAME_BYTES);
  writer.endBlock(block);
  encodePub(writer, pubSubject.pub);
}

export interface SubSubject {
  /** A pattern in filter mode 1. */
  readonly subject: Uint8Array;
  readonly group: Uint8Array;
  /** 0: the whole resolved stream; 1: the subject filters. Higher values are refused by the server. */
  readonly filterMode: number;
}

// V{ subject: var, group: var, [filter_mode: u8, written when not 0] }

export function decodeSubSubject(reader: Reader): SubSubject {
  const bodyEnd = reader.enterBlock();
  const sub = { subject: reader.name(MAX_NAME_BYTES), group: reader.var(), filterMode: reader.u8OrZero() };
  reader.leaveBlock(bodyEnd);
  return sub;
}

export function encodeSubSubject(writer: Writer, sub: SubSubject): void {
  const block = writer.beginBlock();
  writer.name(sub.subject, MAX_NAME_BYTES);
  writer.var(sub.group);
  if (sub.filterMode !== 0) writer.u8(sub.filterMode);
  writer.endBlock(block);
}
