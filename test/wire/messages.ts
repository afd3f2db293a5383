/** An arbitrary for the body of every kind of message. */
import fc from "fast-check";
import type { Bodies, MessageKind } from "../../src/wire/message.ts";
import { Tag } from "../../src/wire/tags.ts";

const u8 = fc.integer({ min: 0, max: 0xff });
const u32 = fc.integer({ min: 0, max: 0xffff_ffff });
const u64 = fc.oneof(
  fc.bigInt({ min: 0n, max: 0xffff_ffff_ffff_ffffn }),
  fc.constantFrom(0n, 1n, 0xffff_ffffn, 0x1_0000_0000n, 2n ** 53n - 1n, 2n ** 53n, 0xffff_ffff_ffff_ffffn),
);
const bool = fc.boolean();
const blob = fc.uint8Array({ maxLength: 40 });
const name = fc.oneof(blob, fc.uint8Array({ minLength: 1024, maxLength: 1024 }));
const id = fc.oneof(blob, fc.uint8Array({ minLength: 256, maxLength: 256 }));
const text = fc.string({ unit: "grapheme", maxLength: 20 });
const tier = fc.constantFrom(0 as const, 1 as const);
const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(arbitrary, { nil: undefined });
const empty = fc.constant({});

const dedup = fc.record({ producerId: blob, epoch: u64, msgId: blob, seq: maybe(u64) });

const pub: fc.Arbitrary<Bodies["pub"]> = fc
  .record({
    low: fc.integer({ min: 0, max: 0x1f }),
    fireAndForget: bool,
    timestampMs: u64,
    key: blob,
    headers: blob,
    dedup: maybe(dedup),
    payload: blob,
  })
  .map(({ low, ...body }) => ({
    ...body,
    flags:
      low |
      (body.fireAndForget ? 0x40 : 0) |
      (body.dedup === undefined ? 0 : 0x80) |
      (body.dedup?.seq === undefined ? 0 : 0x20),
  }));

const connect = fc.record({
  requestedCredit: maybe(u32),
  requestedCreditBytes: maybe(u64),
  wantsGapMarker: bool,
  defaultAckLevel: maybe(u8),
  understandsStreaming: bool,
  defaultTier: maybe(tier),
  understandsDeliverBatch: bool,
  understandsStreams: bool,
  flags2: u8,
  auth: maybe(fc.record({ mechanism: fc.constantFrom(1 as const, 2 as const, 3 as const), material: blob })),
});

const info = fc.record({
  credit: maybe(fc.record({ negotiated: u32, cap: u32 })),
  creditBytes: maybe(fc.record({ negotiated: u64, cap: u64 })),
  gapMarker: bool,
  defaultAckLevel: maybe(u8),
  streaming: bool,
  defaultTier: maybe(tier),
  deliverBatch: bool,
  streams: bool,
  flags2: u8,
});

const pubBatch: fc.Arbitrary<Bodies["pubBatch"]> = fc
  .record({
    low: u8,
    batchId: u32,
    recordCount: u32,
    baseTimestampMs: u64,
    target: name,
    partition: maybe(fc.integer({ min: 0, max: 0xffff_fffe })),
    priority: u8,
    producer: maybe(fc.record({ producerId: blob, epoch: u64, firstSeq: u64 })),
    region: blob,
  })
  .map(({ low, ...body }) => ({ ...body, flags: (low & 0x5f) | (body.producer === undefined ? 0 : 0xa0) }));

const ackRangeStatus: fc.Arbitrary<Bodies["ackRangeStatus"]> = fc
  .record({ committed: fc.nat(64), fenced: fc.nat(64), fill: u8 })
  .map(({ committed, fenced, fill }) => ({
    committed,
    fenced,
    fencedBitmap: new Uint8Array(fenced > 0 ? Math.ceil((committed + fenced) / 8) : 0).fill(fill),
  }));

const err: fc.Arbitrary<Bodies["err"]> = fc.oneof(
  fc.record({ code: fc.string({ maxLength: 60 }), message: text }),
  fc.record({ code: fc.constant(""), message: text.map((message) => `\0${message}`) }),
);

const ofKind = <Kind extends string, T>(kind: Kind, rest: fc.Arbitrary<T>): fc.Arbitrary<T & { kind: Kind }> =>
  rest.map((fields) => ({ kind, ...fields }));

const fingerprint = fc.record({ segmentId: u64, lastSeq: u64, recordCount: u32, footerCrc: u32, contentHash: u64 });
const geoName = fc.string({ unit: "grapheme", maxLength: 10 });
const mac = fc.uint8Array({ minLength: 32, maxLength: 32 });

export const bodyArbitraries: { [Kind in MessageKind]: fc.Arbitrary<Bodies[Kind]> } = {
  connect,
  info,
  ping: empty,
  pong: empty,
  pub,
  sub: fc.record({ group: blob }),
  unsub: empty,
  ack: fc.record({
    op: fc.constantFrom(0 as const, 1 as const, 2 as const, 3 as const),
    offset: u64,
    generation: u64,
    delayMs: u64,
  }),
  flow: fc.record({ credit: u32 }),
  ok: empty,
  err,
  deliver: fc.record({
    offset: u64,
    generation: u64,
    flags: u8,
    timestampMs: u64,
    key: blob,
    headers: blob,
    payload: blob,
  }),
  pubAck: fc.record({ offset: u64 }),
  ackStatus: fc.record({ status: u8 }),
  flowEnd: fc.record({ delivered: u32 }),
  deadLetter: fc.record({ offset: u64, reason: u8 }),
  truncated: fc.record({ earliestRetained: u64, skipped: u64 }),
  cumulativeAck: fc.record({ upTo: u64, group: blob }),
  pubAckDuplicate: fc.record({ offset: u64 }),
  gapMarker: fc.record({ from: u64, to: u64, bytesSkipped: u64, reason: u8 }),
  produceConfirm: fc.record({ offset: u64, status: u8 }),
  fetch: fc.record({ maxRecords: u32, maxBytes: u64, expiresMs: u64, noWait: bool }),
  streamFetch: fc.record({
    startOffset: u64,
    maxRecords: u32,
    maxBytes: u64,
    startTimeMs: maybe(u64.filter((time) => time !== 0n)),
    endTimeMs: maybe(u64.filter((time) => time !== 0n)),
  }),
  streamCommit: fc.record({ upTo: u64, group: blob }),
  deliverBatch: fc.record({ firstOffset: u64, generation: u64, recordCount: u32, frames: blob }),
  raft: fc.record({ message: blob }),
  streamDeclare: fc.record({ streamId: name, partitionCount: u32.map((count) => count || 1), priority: bool }),
  streamInfoRequest: fc.record({ streamId: name }),
  streamInfoResponse: fc.record({ exists: bool, head: u64 }),
  pubTo: fc.record({ streamId: name, priority: u8, pub }),
  subTo: fc.record({ streamId: name, group: blob, partition: maybe(u32), subFlags: u8 }),
  fetchRecords: fc.record({ partition: u64, fromOffset: u64, maxRecords: u32, maxBytes: u32 }),
  fetchResponse: fc.record({
    partition: u64,
    highWatermark: u64,
    firstOffset: u64,
    recordCount: u32,
    frames: blob,
  }),
  bindSubject: fc.record({ streamId: name, pattern: name }),
  pubSubject: fc.record({ subject: name, pub }),
  subSubject: fc.record({ subject: name, group: blob, filterMode: u8 }),
  ackReplicated: fc.record({ partition: u64, followerId: u64, fsyncedOffset: u64 }),
  offsetForLeaderEpoch: fc.oneof(
    ofKind("request", fc.record({ partition: u64, epoch: u64 })),
    ofKind("response", fc.record({ partition: u64, requestedEpoch: u64, answeredEpoch: u64, endOffset: u64 })),
  ),
  segmentFingerprints: fc.record({ committedHw: u64, fingerprints: fc.array(fingerprint, { maxLength: 5 }) }),
  mirrorPull: fc.oneof(
    ofKind("request", fc.record({ fromOffset: u64, maxRecords: u32, maxBytes: u32, originStream: geoName })),
    ofKind("response", fc.record({ originHighWatermark: u64, firstOffset: u64, recordCount: u32, frames: blob })),
  ),
  leafPush: fc.oneof(
    ofKind("request", fc.record({ fromLeafOffset: u64, recordCount: u32, hubStream: geoName, frames: blob })),
    ofKind("response", fc.record({ acceptedThroughLeafOffset: u64 })),
  ),
  notLeader: fc.record({ leaderHint: text }),
  committedHwQuery: fc.oneof(
    ofKind("request", fc.record({ partition: u64 })),
    ofKind("response", fc.record({ partition: u64, committedHw: u64 })),
  ),
  txnPrepare: fc.record({ txnId: id, streamId: name, pub }),
  txnCommit: fc.record({ txnId: id }),
  txnRollback: fc.record({ txnId: id }),
  txnCheck: fc.record({ txnId: id }),
  txnCheckResult: fc.record({ txnId: id, decision: u8 }),
  txnListen: fc.record({ group: id }),
  raftAuth: fc.record({ mac, content: blob }),
  dataPlaneAuth: fc.record({ mac, content: blob }),
  pauseGroup: fc.record({ streamId: name, group: blob, pauseMs: u64 }),
  extHelloRequest: fc.record({ caps: u64, clientName: text }),
  extHelloResponse: fc.record({
    caps: u64,
    maxBatchRecords: u32,
    maxBatchBytes: u32,
    maxInflightBatches: u32,
    serverName: text,
  }),
  pubBatch,
  pubBatchAck: fc.record({ batchId: u32, firstOffset: u64, appended: u32, duplicates: u32 }),
  pushStart: fc.record({ credit: u32, creditBytes: u64, flags: u8 }),
  pushDeliver: fc.record({
    tag: fc.constantFrom(Tag.Deliver, Tag.DeliverBatch, Tag.DeadLetter, Tag.GapMarker, Tag.Truncated),
    body: blob,
  }),
  pushCredit: fc.record({ credit: u32, creditBytes: u64 }),
  pushStop: empty,
  ackRange: fc.record({ op: fc.constantFrom(0 as const, 2 as const), generation: u64, firstOffset: u64, count: u32 }),
  ackRangeStatus,
};
