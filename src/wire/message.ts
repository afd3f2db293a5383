/** Any frame as an object: for tests, the client and the verbs that are not on the path of a record. */
import * as ack from "./ack.ts";
import * as cluster from "./cluster.ts";
import * as connect from "./connect.ts";
import * as consume from "./consume.ts";
import * as deliver from "./deliver.ts";
import * as errorBody from "./error-body.ts";
import { frameTooLarge, WireError } from "./errors.ts";
import * as extension from "./extension.ts";
import { writeFrameHeader } from "./hot.ts";
import { FRAME_HEADER_BYTES, MAX_FRAME_LENGTH } from "./limits.ts";
import * as pub from "./pub.ts";
import { Reader } from "./reader.ts";
import * as stream from "./stream.ts";
import * as subject from "./subject.ts";
import { Tag } from "./tags.ts";
import * as txn from "./txn.ts";
import { Writer } from "./writer.ts";

/** A body without fields. */
export type Empty = Readonly<Record<string, never>>;

/** The bodies by kind: the tag's name, with the two sides of StreamInfo and ExtHello apart. */
export interface Bodies {
  connect: connect.Connect;
  info: connect.Info;
  ping: Empty;
  pong: Empty;
  pub: pub.Pub;
  sub: consume.Sub;
  unsub: Empty;
  ack: ack.Ack;
  flow: consume.Flow;
  ok: Empty;
  err: errorBody.ErrorBody;
  deliver: deliver.Deliver;
  pubAck: pub.PubAck;
  ackStatus: ack.AckStatus;
  flowEnd: deliver.FlowEnd;
  deadLetter: deliver.DeadLetter;
  truncated: deliver.Truncated;
  cumulativeAck: ack.CursorCommit;
  pubAckDuplicate: pub.PubAck;
  gapMarker: deliver.GapMarker;
  produceConfirm: pub.ProduceConfirm;
  fetch: consume.Fetch;
  streamFetch: consume.StreamFetch;
  streamCommit: ack.CursorCommit;
  deliverBatch: deliver.DeliverBatch;
  raft: cluster.Raft;
  streamDeclare: stream.StreamDeclare;
  streamInfoRequest: stream.StreamInfoRequest;
  streamInfoResponse: stream.StreamInfoResponse;
  pubTo: stream.PubTo;
  subTo: stream.SubTo;
  fetchRecords: cluster.FetchRecords;
  fetchResponse: cluster.FetchResponse;
  bindSubject: subject.BindSubject;
  pubSubject: subject.PubSubject;
  subSubject: subject.SubSubject;
  ackReplicated: cluster.AckReplicated;
  offsetForLeaderEpoch: cluster.OffsetForLeaderEpoch;
  segmentFingerprints: cluster.SegmentFingerprints;
  mirrorPull: cluster.MirrorPull;
  leafPush: cluster.LeafPush;
  notLeader: pub.NotLeader;
  committedHwQuery: cluster.CommittedHwQuery;
  txnPrepare: txn.TxnPrepare;
  txnCommit: txn.TxnResolve;
  txnRollback: txn.TxnResolve;
  txnCheck: txn.TxnResolve;
  txnCheckResult: txn.TxnCheckResult;
  txnListen: txn.TxnListen;
  raftAuth: cluster.PeerAuth;
  dataPlaneAuth: cluster.PeerAuth;
  pauseGroup: consume.PauseGroup;
  extHelloRequest: extension.ExtHelloRequest;
  extHelloResponse: extension.ExtHelloResponse;
  pubBatch: extension.PubBatch;
  pubBatchAck: extension.PubBatchAck;
  pushStart: extension.PushStart;
  pushDeliver: extension.PushDeliver;
  pushCredit: extension.PushCredit;
  pushStop: Empty;
  ackRange: extension.AckRange;
  ackRangeStatus: extension.AckRangeStatus;
}

export type MessageKind = keyof Bodies;
export type Message = { [Kind in MessageKind]: { readonly kind: Kind; readonly body: Bodies[Kind] } }[MessageKind];

interface BodyCodec<Body> {
  readonly tag: Tag;
  decode(reader: Reader): Body;
  encode(writer: Writer, body: Body): void;
}

function codec<Body>(
  tag: Tag,
  decode: (reader: Reader) => Body,
  encode: (writer: Writer, body: Body) => void,
): BodyCodec<Body> {
  return { tag, decode, encode };
}

/** Bytes in a body without fields are ignored. */
function empty(tag: Tag): BodyCodec<Empty> {
  return codec(
    tag,
    (reader) => {
      reader.skipRest();
      return {};
    },
    () => {},
  );
}

const CODECS: { readonly [Kind in MessageKind]: BodyCodec<Bodies[Kind]> } = {
  connect: codec(Tag.Connect, connect.decodeConnect, connect.encodeConnect),
  info: codec(Tag.Info, connect.decodeInfo, connect.encodeInfo),
  ping: empty(Tag.Ping),
  pong: empty(Tag.Pong),
  pub: codec(Tag.Pub, pub.decodePub, pub.encodePub),
  sub: codec(Tag.Sub, consume.decodeSub, consume.encodeSub),
  unsub: empty(Tag.Unsub),
  ack: codec(Tag.Ack, ack.decodeAck, ack.encodeAck),
  flow: codec(Tag.Flow, consume.decodeFlow, consume.encodeFlow),
  ok: empty(Tag.Ok),
  err: codec(Tag.Err, errorBody.decodeErrorBody, errorBody.encodeErrorBody),
  deliver: codec(Tag.Deliver, deliver.decodeDeliver, deliver.encodeDeliver),
  pubAck: codec(Tag.PubAck, pub.decodePubAck, pub.encodePubAck),
  ackStatus: codec(Tag.AckStatus, ack.decodeAckStatus, ack.encodeAckStatus),
  flowEnd: codec(Tag.FlowEnd, deliver.decodeFlowEnd, deliver.encodeFlowEnd),
  deadLetter: codec(Tag.DeadLetter, deliver.decodeDeadLetter, deliver.encodeDeadLetter),
  truncated: codec(Tag.Truncated, deliver.decodeTruncated, deliver.encodeTruncated),
  cumulativeAck: codec(Tag.CumulativeAck, ack.decodeCursorCommit, ack.encodeCursorCommit),
  pubAckDuplicate: codec(Tag.PubAckDuplicate, pub.decodePubAck, pub.encodePubAck),
  gapMarker: codec(Tag.GapMarker, deliver.decodeGapMarker, deliver.encodeGapMarker),
  produceConfirm: codec(Tag.ProduceConfirm, pub.decodeProduceConfirm, pub.encodeProduceConfirm),
  fetch: codec(Tag.Fetch, consume.decodeFetch, consume.encodeFetch),
  streamFetch: codec(Tag.StreamFetch, consume.decodeStreamFetch, consume.encodeStreamFetch),
  streamCommit: codec(Tag.StreamCommit, ack.decodeCursorCommit, ack.encodeCursorCommit),
  deliverBatch: codec(Tag.DeliverBatch, deliver.decodeDeliverBatch, deliver.encodeDeliverBatch),
  raft: codec(Tag.Raft, cluster.decodeRaft, cluster.encodeRaft),
  streamDeclare: codec(Tag.StreamDeclare, stream.decodeStreamDeclare, stream.encodeStreamDeclare),
  streamInfoRequest: codec(Tag.StreamInfo, stream.decodeStreamInfoRequest, stream.encodeStreamInfoRequest),
  streamInfoResponse: codec(Tag.StreamInfo, stream.decodeStreamInfoResponse, stream.encodeStreamInfoResponse),
  pubTo: codec(Tag.PubTo, stream.decodePubTo, stream.encodePubTo),
  subTo: codec(Tag.SubTo, stream.decodeSubTo, stream.encodeSubTo),
  fetchRecords: codec(Tag.FetchRecords, cluster.decodeFetchRecords, cluster.encodeFetchRecords),
  fetchResponse: codec(Tag.FetchResponse, cluster.decodeFetchResponse, cluster.encodeFetchResponse),
  bindSubject: codec(Tag.BindSubject, subject.decodeBindSubject, subject.encodeBindSubject),
  pubSubject: codec(Tag.PubSubject, subject.decodePubSubject, subject.encodePubSubject),
  subSubject: codec(Tag.SubSubject, subject.decodeSubSubject, subject.encodeSubSubject),
  ackReplicated: codec(Tag.AckReplicated, cluster.decodeAckReplicated, cluster.encodeAckReplicated),
  offsetForLeaderEpoch: codec(
    Tag.OffsetForLeaderEpoch,
    cluster.decodeOffsetForLeaderEpoch,
    cluster.encodeOffsetForLeaderEpoch,
  ),
  segmentFingerprints: codec(
    Tag.SegmentFingerprints,
    cluster.decodeSegmentFingerprints,
    cluster.encodeSegmentFingerprints,
  ),
  mirrorPull: codec(Tag.MirrorPull, cluster.decodeMirrorPull, cluster.encodeMirrorPull),
  leafPush: codec(Tag.LeafPush, cluster.decodeLeafPush, cluster.encodeLeafPush),
  notLeader: codec(Tag.NotLeader, pub.decodeNotLeader, pub.encodeNotLeader),
  committedHwQuery: codec(Tag.CommittedHwQuery, cluster.decodeCommittedHwQuery, cluster.encodeCommittedHwQuery),
  txnPrepare: codec(Tag.TxnPrepare, txn.decodeTxnPrepare, txn.encodeTxnPrepare),
  txnCommit: codec(Tag.TxnCommit, txn.decodeTxnResolve, txn.encodeTxnResolve),
  txnRollback: codec(Tag.TxnRollback, txn.decodeTxnResolve, txn.encodeTxnResolve),
  txnCheck: codec(Tag.TxnCheck, txn.decodeTxnResolve, txn.encodeTxnResolve),
  txnCheckResult: codec(Tag.TxnCheckResult, txn.decodeTxnCheckResult, txn.encodeTxnCheckResult),
  txnListen: codec(Tag.TxnListen, txn.decodeTxnListen, txn.encodeTxnListen),
  raftAuth: codec(Tag.RaftAuth, cluster.decodePeerAuth, cluster.encodePeerAuth),
  dataPlaneAuth: codec(Tag.DataPlaneAuth, cluster.decodePeerAuth, cluster.encodePeerAuth),
  pauseGroup: codec(Tag.PauseGroup, consume.decodePauseGroup, consume.encodePauseGroup),
  extHelloRequest: codec(Tag.ExtHello, extension.decodeExtHelloRequest, extension.encodeExtHelloRequest),
  extHelloResponse: codec(Tag.ExtHello, extension.decodeExtHelloResponse, extension.encodeExtHelloResponse),
  pubBatch: codec(Tag.PubBatch, extension.decodePubBatch, extension.encodePubBatch),
  pubBatchAck: codec(Tag.PubBatchAck, extension.decodePubBatchAck, extension.encodePubBatchAck),
  pushStart: codec(Tag.PushStart, extension.decodePushStart, extension.encodePushStart),
  pushDeliver: codec(Tag.PushDeliver, extension.decodePushDeliver, extension.encodePushDeliver),
  pushCredit: codec(Tag.PushCredit, extension.decodePushCredit, extension.encodePushCredit),
  pushStop: empty(Tag.PushStop),
  ackRange: codec(Tag.AckRange, extension.decodeAckRange, extension.encodeAckRange),
  ackRangeStatus: codec(Tag.AckRangeStatus, extension.decodeAckRangeStatus, extension.encodeAckRangeStatus),
};

const KINDS_FROM_CLIENT = kindsByTag("streamInfoResponse", "extHelloResponse");
const KINDS_FROM_SERVER = kindsByTag("streamInfoRequest", "extHelloRequest");

function kindsByTag(...left: MessageKind[]): ReadonlyMap<number, MessageKind> {
  const kinds = (Object.keys(CODECS) as MessageKind[]).filter((kind) => !left.includes(kind));
  return new Map(kinds.map((kind) => [CODECS[kind].tag, kind]));
}

/** The tag of a kind. */
export function tagOf(kind: MessageKind): Tag {
  return CODECS[kind].tag;
}

/**
 * Decodes the body of a frame. `sender` decides only where request and response share a tag (StreamInfo, ExtHello). Byte
 * fields are views of `body`. Throws WireError, of kind `unknown-tag` for a tag that has no body.
 */
export function decodeBody(tag: number, body: Uint8Array, sender: "client" | "server" = "client"): Message {
  const kind = (sender === "client" ? KINDS_FROM_CLIENT : KINDS_FROM_SERVER).get(tag);
  if (kind === undefined) throw new WireError("unknown-tag", "unknown frame type");
  return { kind, body: CODECS[kind].decode(new Reader(body)) } as Message;
}

/** The body's bytes. Throws WireError when a field does not fit. */
export function encodeBody(message: Message): Uint8Array {
  const writer = new Writer();
  encodeInto(writer, message);
  return writer.toBytes();
}

/** The whole frame. Throws WireError, `frame-too-large` above MAX_FRAME_LENGTH. */
export function encodeFrame(message: Message): Uint8Array {
  const writer = new Writer();
  writeFrame(writer, message);
  return writer.toBytes();
}

/** Appends a whole frame to `writer`; on a WireError the writer is as before. */
export function writeFrame(writer: Writer, message: Message): void {
  const start = writer.position;
  try {
    writer.reserve(FRAME_HEADER_BYTES);
    writer.position += FRAME_HEADER_BYTES;
    encodeInto(writer, message);
    const length = writer.position - start - FRAME_HEADER_BYTES + 1;
    if (length > MAX_FRAME_LENGTH) throw frameTooLarge(length, MAX_FRAME_LENGTH);
    writeFrameHeader(writer.buffer, start, tagOf(message.kind), length - 1);
  } catch (error) {
    writer.position = start;
    throw error;
  }
}

function encodeInto(writer: Writer, message: Message): void {
  (CODECS[message.kind] as BodyCodec<Message["body"]>).encode(writer, message.body);
}
