/** Frames between cluster peers, and between sites: wire.md 2 and cluster.md 5.5, 5.6, 8 and 18. */
import { lengthExceeds, truncated, unknownKind, WireError } from "./errors.ts";
import { MAX_GEO_NAME_BYTES, MAX_PEER_FRAMES_BYTES } from "./limits.ts";
import { Reader } from "./reader.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";
import type { Writer } from "./writer.ts";

const AUTH_VERSION = 1;
const MAC_BYTES = 32;
const FINGERPRINT_BYTES = 32;
const MAX_FINGERPRINTS = 1_048_576;

/** A Raft body is one protobuf-encoded `eraftpb.Message`, not looked into here. */
export interface Raft {
  readonly message: Uint8Array;
}

// message: rest

export function decodeRaft(reader: Reader): Raft {
  return { message: reader.rest() };
}

export function encodeRaft(writer: Writer, raft: Raft): void {
  writer.bytes(raft.message);
}

/** Body of RaftAuth and DataPlaneAuth. Verify `mac` before decoding `content`. */
export interface PeerAuth {
  /** HMAC-SHA256, 32 bytes. */
  readonly mac: Uint8Array;
  /** RaftAuth: the Raft body. DataPlaneAuth: see decodePeerContent(). */
  readonly content: Uint8Array;
}

// ver: u8 = 1, mac[32], content: rest

export function decodePeerAuth(reader: Reader): PeerAuth {
  const version = reader.u8();
  if (version !== AUTH_VERSION) {
    throw new WireError("unknown-version", `unknown peer authentication version ${version}`);
  }
  return { mac: reader.bytes(MAC_BYTES), content: reader.rest() };
}

export function encodePeerAuth(writer: Writer, auth: PeerAuth): void {
  if (auth.mac.length !== MAC_BYTES) throw lengthExceeds();
  writer.u8(AUTH_VERSION);
  writer.bytes(auth.mac);
  writer.bytes(auth.content);
}

/** What DataPlaneAuth protects. */
export interface PeerContent {
  readonly tag: number;
  readonly partition: bigint;
  /** The body of `tag` behind its partition. */
  readonly layerBody: Uint8Array;
}

// verb tag: u8, partition: u64, layer body: rest

export function decodePeerContent(content: Uint8Array): PeerContent {
  const reader = new Reader(content);
  return { tag: reader.u8(), partition: reader.u64(), layerBody: reader.rest() };
}

export function encodePeerContent(writer: Writer, content: PeerContent): void {
  writer.u8(content.tag);
  writer.u64(content.partition);
  writer.bytes(content.layerBody);
}

export interface FetchRecords {
  readonly partition: bigint;
  readonly fromOffset: bigint;
  /** 0 asks for none. */
  readonly maxRecords: number;
  /** 0 = the cap of 8 MiB. */
  readonly maxBytes: number;
}

// partition: u64, from_offset: u64, max_records: u32, max_bytes: u32

export function decodeFetchRecords(reader: Reader): FetchRecords {
  const fetch = {
    partition: reader.u64(),
    fromOffset: reader.u64(),
    maxRecords: reader.u32(),
    maxBytes: reader.u32(),
  };
  reader.expectEnd();
  return fetch;
}

export function encodeFetchRecords(writer: Writer, fetch: FetchRecords): void {
  writer.u64(fetch.partition);
  writer.u64(fetch.fromOffset);
  writer.u32(fetch.maxRecords);
  writer.u32(fetch.maxBytes);
}

export interface FetchResponse {
  readonly partition: bigint;
  readonly highWatermark: bigint;
  readonly firstOffset: bigint;
  readonly recordCount: number;
  /** Stored record frames, at most 8 MiB, not checked. */
  readonly frames: Uint8Array;
}

// partition: u64, high_watermark: u64, first_offset: u64, record_count: u32, frame_bytes_len: u32, frames

export function decodeFetchResponse(reader: Reader): FetchResponse {
  const partition = reader.u64();
  const highWatermark = reader.u64();
  const firstOffset = reader.u64();
  const recordCount = reader.u32();
  const frames = reader.bytes(framesLength(reader));
  reader.expectEnd();
  return { partition, highWatermark, firstOffset, recordCount, frames };
}

export function encodeFetchResponse(writer: Writer, response: FetchResponse): void {
  writer.u64(response.partition);
  writer.u64(response.highWatermark);
  writer.u64(response.firstOffset);
  writer.u32(response.recordCount);
  writeFramesLength(writer, response.frames);
  writer.bytes(response.frames);
}

export interface AckReplicated {
  readonly partition: bigint;
  readonly followerId: bigint;
  readonly fsyncedOffset: bigint;
}

// partition: u64, follower_id: u64, fsynced_offset: u64

export function decodeAckReplicated(reader: Reader): AckReplicated {
  const ack = { partition: reader.u64(), followerId: reader.u64(), fsyncedOffset: reader.u64() };
  reader.expectEnd();
  return ack;
}

export function encodeAckReplicated(writer: Writer, ack: AckReplicated): void {
  writer.u64(ack.partition);
  writer.u64(ack.followerId);
  writer.u64(ack.fsyncedOffset);
}

export type OffsetForLeaderEpoch =
  | { readonly kind: "request"; readonly partition: bigint; readonly epoch: bigint }
  | {
      readonly kind: "response";
      readonly partition: bigint;
      readonly requestedEpoch: bigint;
      readonly answeredEpoch: bigint;
      readonly endOffset: bigint;
    };

// partition: u64, kind: u8; 0: epoch: u64; 1: requested_epoch: u64, answered_epoch: u64, end_offset: u64

export function decodeOffsetForLeaderEpoch(reader: Reader): OffsetForLeaderEpoch {
  const partition = reader.u64();
  const kind = requestOrResponse(reader);
  const message: OffsetForLeaderEpoch =
    kind === "request"
      ? { kind, partition, epoch: reader.u64() }
      : {
          kind,
          partition,
          requestedEpoch: reader.u64(),
          answeredEpoch: reader.u64(),
          endOffset: reader.u64(),
        };
  reader.expectEnd();
  return message;
}

export function encodeOffsetForLeaderEpoch(writer: Writer, message: OffsetForLeaderEpoch): void {
  writer.u64(message.partition);
  if (message.kind === "request") {
    writer.u8(0);
    writer.u64(message.epoch);
    return;
  }
  writer.u8(1);
  writer.u64(message.requestedEpoch);
  writer.u64(message.answeredEpoch);
  writer.u64(message.endOffset);
}

export type CommittedHwQuery =
  | { readonly kind: "request"; readonly partition: bigint }
  | { readonly kind: "response"; readonly partition: bigint; readonly committedHw: bigint };

// partition: u64, kind: u8; 1: committed_hw: u64

export function decodeCommittedHwQuery(reader: Reader): CommittedHwQuery {
  const partition = reader.u64();
  const kind = requestOrResponse(reader);
  const message: CommittedHwQuery =
    kind === "request" ? { kind, partition } : { kind, partition, committedHw: reader.u64() };
  reader.expectEnd();
  return message;
}

export function encodeCommittedHwQuery(writer: Writer, message: CommittedHwQuery): void {
  writer.u64(message.partition);
  if (message.kind === "request") {
    writer.u8(0);
    return;
  }
  writer.u8(1);
  writer.u64(message.committedHw);
}

export interface SegmentFingerprint {
  readonly segmentId: bigint;
  readonly lastSeq: bigint;
  readonly recordCount: number;
  readonly footerCrc: number;
  readonly contentHash: bigint;
}

/** The layer body: on the data plane a partition (u64) stands before it, as with the other types. */
export interface SegmentFingerprints {
  readonly committedHw: bigint;
  readonly fingerprints: readonly SegmentFingerprint[];
}

// committed_hw: u64, count: u32, count x (segment_id: u64, last_seq: u64, record_count: u32, footer_crc: u32,
// content_hash: u64)

export function decodeSegmentFingerprints(reader: Reader): SegmentFingerprints {
  const committedHw = reader.u64();
  const count = reader.u32();
  if (count > MAX_FINGERPRINTS) throw lengthExceeds();
  if (count * FINGERPRINT_BYTES > reader.remaining) throw truncated();
  const fingerprints: SegmentFingerprint[] = [];
  for (let index = 0; index < count; index++) {
    fingerprints.push({
      segmentId: reader.u64(),
      lastSeq: reader.u64(),
      recordCount: reader.u32(),
      footerCrc: reader.u32(),
      contentHash: reader.u64(),
    });
  }
  reader.expectEnd();
  return { committedHw, fingerprints };
}

export function encodeSegmentFingerprints(writer: Writer, message: SegmentFingerprints): void {
  writer.u64(message.committedHw);
  writer.u32(message.fingerprints.length);
  for (const fingerprint of message.fingerprints) {
    writer.u64(fingerprint.segmentId);
    writer.u64(fingerprint.lastSeq);
    writer.u32(fingerprint.recordCount);
    writer.u32(fingerprint.footerCrc);
    writer.u64(fingerprint.contentHash);
  }
}

export type MirrorPull =
  | {
      readonly kind: "request";
      readonly fromOffset: bigint;
      readonly maxRecords: number;
      readonly maxBytes: number;
      readonly originStream: string;
    }
  | {
      readonly kind: "response";
      readonly originHighWatermark: bigint;
      readonly firstOffset: bigint;
      readonly recordCount: number;
      /** Stored record frames, at most 8 MiB, not checked. */
      readonly frames: Uint8Array;
    };

// kind: u8; 0: from_offset: u64, max_records: u32, max_bytes: u32, name_len: u16, origin stream name
// 1: origin_high_watermark: u64, first_offset: u64, record_count: u32, frame_bytes_len: u32, frames

export function decodeMirrorPull(reader: Reader): MirrorPull {
  const kind = requestOrResponse(reader);
  const message: MirrorPull =
    kind === "request"
      ? {
          kind,
          fromOffset: reader.u64(),
          maxRecords: reader.u32(),
          maxBytes: reader.u32(),
          originStream: geoName(reader.name(MAX_GEO_NAME_BYTES)),
        }
      : {
          kind,
          originHighWatermark: reader.u64(),
          firstOffset: reader.u64(),
          recordCount: reader.u32(),
          frames: reader.bytes(framesLength(reader)),
        };
  reader.expectEnd();
  return message;
}

export function encodeMirrorPull(writer: Writer, message: MirrorPull): void {
  if (message.kind === "request") {
    writer.u8(0);
    writer.u64(message.fromOffset);
    writer.u32(message.maxRecords);
    writer.u32(message.maxBytes);
    writer.name(encodeUtf8(message.originStream), MAX_GEO_NAME_BYTES);
    return;
  }
  writer.u8(1);
  writer.u64(message.originHighWatermark);
  writer.u64(message.firstOffset);
  writer.u32(message.recordCount);
  writeFramesLength(writer, message.frames);
  writer.bytes(message.frames);
}

export type LeafPush =
  | {
      readonly kind: "request";
      readonly fromLeafOffset: bigint;
      readonly recordCount: number;
      readonly hubStream: string;
      /** Stored record frames, at most 8 MiB, not checked. */
      readonly frames: Uint8Array;
    }
  | { readonly kind: "response"; readonly acceptedThroughLeafOffset: bigint };

// kind: u8; 0: from_leaf_offset: u64, record_count: u32, frame_bytes_len: u32, name_len: u16, hub stream name, frames
// 1: accepted_through_leaf_offset: u64

export function decodeLeafPush(reader: Reader): LeafPush {
  const kind = requestOrResponse(reader);
  const message = kind === "request" ? decodeLeafPushRequest(reader) : decodeLeafPushResponse(reader);
  reader.expectEnd();
  return message;
}

function decodeLeafPushRequest(reader: Reader): LeafPush {
  const fromLeafOffset = reader.u64();
  const recordCount = reader.u32();
  const framesBytes = framesLength(reader);
  const hubStream = geoName(reader.name(MAX_GEO_NAME_BYTES));
  return { kind: "request", fromLeafOffset, recordCount, hubStream, frames: reader.bytes(framesBytes) };
}

function decodeLeafPushResponse(reader: Reader): LeafPush {
  return { kind: "response", acceptedThroughLeafOffset: reader.u64() };
}

export function encodeLeafPush(writer: Writer, message: LeafPush): void {
  if (message.kind === "response") {
    writer.u8(1);
    writer.u64(message.acceptedThroughLeafOffset);
    return;
  }
  writer.u8(0);
  writer.u64(message.fromLeafOffset);
  writer.u32(message.recordCount);
  writeFramesLength(writer, message.frames);
  writer.name(encodeUtf8(message.hubStream), MAX_GEO_NAME_BYTES);
  writer.bytes(message.frames);
}

function requestOrResponse(reader: Reader): "request" | "response" {
  const kind = reader.u8();
  if (kind > 1) throw unknownKind("peer message kind", kind);
  return kind === 0 ? "request" : "response";
}

function framesLength(reader: Reader): number {
  const length = reader.u32();
  if (length > MAX_PEER_FRAMES_BYTES) throw lengthExceeds();
  return length;
}

function writeFramesLength(writer: Writer, frames: Uint8Array): void {
  if (frames.length > MAX_PEER_FRAMES_BYTES) throw lengthExceeds();
  writer.u32(frames.length);
}

function geoName(bytes: Uint8Array): string {
  const name = decodeUtf8(bytes);
  if (name === undefined) throw new WireError("bad-text", "a stream name is not valid UTF-8");
  return name;
}
