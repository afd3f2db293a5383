/** Bodies of `Err` frames: wire.md 7. */
import { frameTooLarge, lengthExceeds } from "./errors.ts";
import { writeFrameHeader } from "./hot.ts";
import { FRAME_HEADER_BYTES, MAX_FRAME_LENGTH } from "./limits.ts";
import type { Reader } from "./reader.ts";
import { Tag } from "./tags.ts";
import { decodeUtf8Lossy, encodeUtf8 } from "./utf8.ts";
import { Writer } from "./writer.ts";

/** The frozen tokens of wire.md 7.2. */
export const ErrorCode = {
  AtCapacity: "ERR_AT_CAPACITY",
  NotEnoughIsr: "ERR_NOT_ENOUGH_ISR",
  Storage: "ERR_STORAGE",
  ProducerFenced: "ERR_PRODUCER_FENCED",
  OutOfOrderSequence: "ERR_OUT_OF_ORDER_SEQUENCE",
  CumulativeAckNotAllowed: "ERR_CUMULATIVE_ACK_NOT_ALLOWED",
  CumulativeAckOutOfRange: "ERR_CUMULATIVE_ACK_OUT_OF_RANGE",
  BroadcastGroupBusy: "ERR_BROADCAST_GROUP_BUSY",
  BroadcastGroupNotNamed: "ERR_BROADCAST_GROUP_NOT_NAMED",
  EphemeralGroupConflict: "ERR_EPHEMERAL_GROUP_CONFLICT",
  TooManyGroups: "ERR_TOO_MANY_GROUPS",
  TooManyStreams: "ERR_TOO_MANY_STREAMS",
  InvalidGroupName: "ERR_INVALID_GROUP_NAME",
  InvalidStreamName: "ERR_INVALID_STREAM_NAME",
  UnknownStream: "ERR_UNKNOWN_STREAM",
  MirrorReadOnly: "ERR_MIRROR_READ_ONLY",
  InvalidSubject: "ERR_INVALID_SUBJECT",
  BindRejected: "ERR_BIND_REJECTED",
  BindingTableFull: "ERR_BINDING_TABLE_FULL",
  NoStreamForSubject: "ERR_NO_STREAM_FOR_SUBJECT",
  AmbiguousSubject: "ERR_AMBIGUOUS_SUBJECT",
  GenerationExhausted: "ERR_GENERATION_EXHAUSTED",
  MissingRecord: "ERR_MISSING_RECORD",
  ZeroMaxInFlight: "ERR_ZERO_MAX_IN_FLIGHT",
  Txn: "ERR_TXN",
  TxnCheckUnauthorized: "ERR_TXN_CHECK_UNAUTHORIZED",
  DelayTooLong: "ERR_DELAY_TOO_LONG",
  InvalidDelayHeader: "ERR_INVALID_DELAY_HEADER",
  ImportNotGranted: "ERR_IMPORT_NOT_GRANTED",
} as const;
export type ErrorCode = (typeof ErrorCode)[keyof typeof ErrorCode];

const KNOWN_CODES: ReadonlySet<string> = new Set(Object.values(ErrorCode));
const RETRYABLE_CODES: ReadonlySet<string> = new Set([ErrorCode.AtCapacity, ErrorCode.NotEnoughIsr]);

/** Whether `code` is a token of wire.md 7.2. A client treats any other token as no code. */
export function isErrorCode(code: string): code is ErrorCode {
  return KNOWN_CODES.has(code);
}

/** Whether the request may be sent again as it is. */
export function isRetryableCode(code: string): boolean {
  return RETRYABLE_CODES.has(code);
}

/** The fixed texts of wire.md 7.3, 7.4, 5.2, 2 and 21.3, verbatim. Uncoded unless the name of a code stands beside one. */
export const ErrorText = {
  AuthorizationViolation: "Authorization Violation",
  NotConnected: "not connected",
  UnknownFrameType: "unknown frame type",
  VerbNotSupported: "verb not supported on this connection",

  MalformedPub: "malformed pub body",
  MalformedAck: "malformed ack body",
  MalformedFetch: "malformed fetch body",
  MalformedCumulativeAck: "malformed cumulative-ack body",
  MalformedStreamFetch: "malformed stream-fetch body",
  MalformedStreamCommit: "malformed stream-commit body",
  MalformedStreamDeclare: "malformed stream-declare body",
  MalformedStreamInfo: "malformed stream-info body",
  MalformedPubTo: "malformed pub-to body",
  MalformedSubTo: "malformed sub-to body",
  MalformedBindSubject: "malformed bind-subject body",
  MalformedPubSubject: "malformed pub-subject body",
  MalformedSubSubject: "malformed sub-subject body",
  MalformedPauseGroup: "malformed pause-group body",
  MalformedTxnPrepare: "malformed txn-prepare body",
  MalformedTxnCommit: "malformed txn-commit body",
  MalformedTxnRollback: "malformed txn-rollback body",
  MalformedTxnListen: "malformed txn-listen body",
  MalformedTxnCheckResult: "malformed txn-check-result body",
  MalformedPubBatch: "malformed pub-batch body",
  FlowCredit: "flow credit must be a u32",

  SubNameUtf8: "subscription name must be valid UTF-8",
  GroupNameUtf8: "group name must be valid UTF-8",
  PauseGroupUtf8: "group must be valid UTF-8",
  CumulativeAckGroupUtf8: "cumulative-ack group name must be valid UTF-8",
  StreamCommitGroupUtf8: "stream-commit group name must be valid UTF-8",
  StreamIdUtf8: "stream id must be valid UTF-8",
  SubjectUtf8: "subject must be valid UTF-8",
  SubjectPatternUtf8: "subject pattern must be valid UTF-8",

  StreamsNotNegotiated: "stream addressing not negotiated (set understands_streams)",
  SubjectFilterNotNegotiated: "subject filtering not negotiated (set wants_subject_filter)",
  EphemeralNotNegotiated: "ephemeral groups not negotiated (set wants_ephemeral_groups)",
  UnsupportedFilterMode: "unsupported sub-subject filter_mode",

  ProducerIdTooLong: "producer_id too long",
  MsgIdTooLong: "msg_id too long",
  SequenceWithoutProducer: "idempotent sequence requires a non-empty producer_id",
  PubToLevel: "named-stream publish supports only server-ack (level 1) this phase",
  PubSubjectLevel: "subject-addressed publish supports only server-ack (level 1) this phase",
  DeclareDefaultStream: "cannot declare the default stream (empty id)",
  EphemeralPartition: "ephemeral groups are not supported on a partition-addressed subscribe",
  /** With ERR_INVALID_GROUP_NAME. */
  EphemeralDefaultGroup: "the default/empty group cannot be ephemeral (name a group)",
  CumulativeAckPriority: "cumulative-ack is not supported on a priority-stream consumer (ack per message)",
  /** With ERR_CUMULATIVE_ACK_NOT_ALLOWED. */
  CumulativeAckNamedStream:
    "cumulative-ack is not supported on a named-stream consumer (ack per message, or use StreamCommit for a Tier-S cursor)",
  FetchFailed: "fetch failed",
  NackFailed: "nack failed",
  TermFailed: "term failed",
  EmptyTxnId: "txn_id must not be empty",
  EmptyListenerGroup: "listener group must not be empty",
  ListenerCap: "txn-listen group listener cap exceeded",
  PushActive: "push is active on this connection",

  /** With ERR_PRODUCER_FENCED. */
  StaleEpoch: "fenced: stale producer epoch",
  /** With ERR_OUT_OF_ORDER_SEQUENCE. */
  SequenceGap: "out-of-order producer sequence",
  /** With ERR_AT_CAPACITY. */
  AtCapacity: "at capacity",
  ShedUnderLoad: "shed under load",
  FsyncHeadroom: "wal fsync headroom exhausted",
  /** With ERR_NOT_ENOUGH_ISR. */
  NotEnoughIsr: "not enough in-sync replicas to quorum-commit; retry",
  ProduceFailed: "produce failed",
  FatalStorage: "fatal storage error",
} as const;

/** Texts of wire.md 7.4 that carry a value. */
export const errorText = {
  malformedCompressed: (reason: string): string => `malformed compressed descriptor: ${reason}`,
  unknownStream: (stream: string): string =>
    `stream ${JSON.stringify(stream)} does not exist (declare or publish to it first)`,
  partitionNotAddressable: (partition: number, stream: string): string =>
    `partition ${partition} is not addressable on stream ${JSON.stringify(stream)}`,
  priorityNotAddressable: (stream: string): string =>
    `stream ${JSON.stringify(stream)} is a priority stream (subscribe to it as a whole; the broker drains the ` +
    "highest-priority lane first — a lane is not addressable)",
};

/** `code` is "" for an uncoded error. */
export interface ErrorBody {
  readonly code: string;
  readonly message: string;
}

// uncoded: message (UTF-8, never starts with NUL)
// coded:   [ 0x00 ][ code_len: u8 ][ code: ASCII ][ message ]

/** Never fails: what is not a coded body is a message, and bytes that are not UTF-8 are replaced. */
export function decodeErrorBody(reader: Reader): ErrorBody {
  const body = reader.rest();
  if (body.length >= 2 && body[0] === 0 && 2 + body[1] <= body.length) {
    const messageAt = 2 + body[1];
    return {
      code: decodeUtf8Lossy(body.subarray(2, messageAt)),
      message: decodeUtf8Lossy(body.subarray(messageAt)),
    };
  }
  return { code: "", message: decodeUtf8Lossy(body) };
}

/**
 * Throws WireError `length-exceeds` for a code above 255 bytes. An uncoded message that starts with NUL, which would be
 * taken for a coded one, is written as coded with an empty code.
 */
export function encodeErrorBody(writer: Writer, error: ErrorBody): void {
  if (error.code !== "" || error.message.startsWith("\0")) {
    const code = encodeUtf8(error.code);
    if (code.length > 0xff) throw lengthExceeds();
    writer.u8(0);
    writer.u8(code.length);
    writer.bytes(code);
  }
  writer.bytes(encodeUtf8(error.message));
}

/** A whole uncoded `Err` frame. */
export function errFrame(message: string): Uint8Array {
  return codedErrFrame("", message);
}

/** A whole `Err` frame; uncoded when `code` is "". */
export function codedErrFrame(code: ErrorCode | "", message: string): Uint8Array {
  const body = new Writer();
  encodeErrorBody(body, { code, message });
  if (body.position + 1 > MAX_FRAME_LENGTH) throw frameTooLarge(body.position + 1, MAX_FRAME_LENGTH);
  const frame = new Uint8Array(FRAME_HEADER_BYTES + body.position);
  frame.set(body.buffer.subarray(0, body.position), writeFrameHeader(frame, 0, Tag.Err, body.position));
  return frame;
}
