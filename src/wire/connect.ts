/** Handshake and credentials: wire.md 4 and 5.1. */
import { trailingBytes, WireError } from "./errors.ts";
import { Reader } from "./reader.ts";
import type { Writer } from "./writer.ts";

export const ConnectFlag = {
  Credit: 0x01,
  CreditBytes: 0x02,
  GapMarker: 0x04,
  DefaultAckLevel: 0x08,
  Streaming: 0x10,
  DefaultTier: 0x20,
  DeliverBatch: 0x40,
  Streams: 0x80,
} as const;

export const ConnectFlag2 = { CompressedDeliveries: 0x01, SubjectFilter: 0x02, EphemeralGroups: 0x04 } as const;

export const InfoFlag2 = { EphemeralGroups: 0x01 } as const;

/** 0 = W (work queue), 1 = S (streaming). */
export type Tier = 0 | 1;

export interface Connect {
  /** Absent: nothing requested. */
  readonly requestedCredit?: number;
  readonly requestedCreditBytes?: bigint;
  readonly wantsGapMarker: boolean;
  /** As sent, not checked. */
  readonly defaultAckLevel?: number;
  readonly understandsStreaming: boolean;
  readonly defaultTier?: Tier;
  readonly understandsDeliverBatch: boolean;
  readonly understandsStreams: boolean;
  /** Bits of ConnectFlag2; unknown bits are kept. */
  readonly flags2: number;
  readonly auth?: Credential;
}

export const AuthMechanism = { Bearer: 1, Password: 2, MutualTls: 3 } as const;
export type AuthMechanism = (typeof AuthMechanism)[keyof typeof AuthMechanism];

export interface Credential {
  readonly mechanism: AuthMechanism;
  /** Bearer: the token; password: see decodePasswordMaterial(); mutual TLS: empty. */
  readonly material: Uint8Array;
}

const AUTH_MARKER = 0xa7;

/**
 * A whole Connect body: block and auth section. Throws WireError for either; a server that must answer the two
 * differently, or ignores credentials, calls decodeConnectBlock() and then decodeAuthSection() where it has an auth table.
 */
export function decodeConnect(reader: Reader): Connect {
  const connect = decodeConnectBlock(reader);
  const auth = decodeAuthSection(reader);
  return auth === undefined ? connect : { ...connect, auth };
}

// V{ flags: u8, requested_credit: u32, requested_credit_bytes: u64, [default_ack_level: u8], [default_tier: u8],
//    [flags2: u8] } then the auth section. An empty body is the oldest client.

/** The block alone; the reader is left at the auth section. */
export function decodeConnectBlock(reader: Reader): Connect {
  if (reader.remaining === 0) return connectOf(0, 0, 0n, 0, 0, 0);
  const bodyEnd = reader.enterBlock();
  const flags = reader.u8OrZero();
  const credit = reader.u32OrZero();
  const creditBytes = reader.u64OrZero();
  const ackLevel = flags & ConnectFlag.DefaultAckLevel ? reader.u8OrZero() : 0;
  const tier = flags & ConnectFlag.DefaultTier ? reader.u8OrZero() : 0;
  const flags2 = reader.u8OrZero();
  reader.leaveBlock(bodyEnd);
  return connectOf(flags, credit, creditBytes, ackLevel, tier, flags2);
}

function connectOf(
  flags: number,
  credit: number,
  creditBytes: bigint,
  ackLevel: number,
  tier: number,
  flags2: number,
): Connect {
  return {
    requestedCredit: flags & ConnectFlag.Credit ? credit : undefined,
    requestedCreditBytes: flags & ConnectFlag.CreditBytes ? creditBytes : undefined,
    wantsGapMarker: (flags & ConnectFlag.GapMarker) !== 0,
    defaultAckLevel: flags & ConnectFlag.DefaultAckLevel ? ackLevel : undefined,
    understandsStreaming: (flags & ConnectFlag.Streaming) !== 0,
    defaultTier: flags & ConnectFlag.DefaultTier ? tierOf(tier) : undefined,
    understandsDeliverBatch: (flags & ConnectFlag.DeliverBatch) !== 0,
    understandsStreams: (flags & ConnectFlag.Streams) !== 0,
    flags2,
  };
}

export function encodeConnect(writer: Writer, connect: Connect): void {
  const block = writer.beginBlock();
  writer.u8(
    (connect.requestedCredit !== undefined ? ConnectFlag.Credit : 0) |
      (connect.requestedCreditBytes !== undefined ? ConnectFlag.CreditBytes : 0) |
      (connect.wantsGapMarker ? ConnectFlag.GapMarker : 0) |
      (connect.defaultAckLevel !== undefined ? ConnectFlag.DefaultAckLevel : 0) |
      (connect.understandsStreaming ? ConnectFlag.Streaming : 0) |
      (connect.defaultTier !== undefined ? ConnectFlag.DefaultTier : 0) |
      (connect.understandsDeliverBatch ? ConnectFlag.DeliverBatch : 0) |
      (connect.understandsStreams ? ConnectFlag.Streams : 0),
  );
  writer.u32(connect.requestedCredit ?? 0);
  writer.u64(connect.requestedCreditBytes ?? 0n);
  if (connect.defaultAckLevel !== undefined) writer.u8(connect.defaultAckLevel);
  if (connect.defaultTier !== undefined) writer.u8(connect.defaultTier);
  if (connect.flags2 !== 0) writer.u8(connect.flags2);
  writer.endBlock(block);
  if (connect.auth !== undefined) encodeAuthSection(writer, connect.auth);
}

// [ 0xA7 ][ mechanism: u8 ][ material: var ]

/** The credential behind the block; undefined when there is none. Throws WireError on a short section or new mechanism. */
export function decodeAuthSection(reader: Reader): Credential | undefined {
  if (reader.remaining === 0 || reader.u8() !== AUTH_MARKER) {
    reader.skipRest();
    return undefined;
  }
  const mechanism = reader.u8();
  if (mechanism < AuthMechanism.Bearer || mechanism > AuthMechanism.MutualTls) {
    throw new WireError("unknown-auth-mechanism", `unknown auth mechanism ${mechanism}`);
  }
  const material = reader.var();
  reader.skipRest();
  return { mechanism: mechanism as AuthMechanism, material };
}

function encodeAuthSection(writer: Writer, credential: Credential): void {
  writer.u8(AUTH_MARKER);
  writer.u8(credential.mechanism);
  writer.var(credential.material);
}

export interface PasswordMaterial {
  readonly username: Uint8Array;
  readonly password: Uint8Array;
}

// username: var, password: var, nothing after

export function decodePasswordMaterial(material: Uint8Array): PasswordMaterial {
  const reader = new Reader(material);
  const username = reader.var();
  const password = reader.var();
  if (reader.remaining > 0) throw trailingBytes();
  return { username, password };
}

export function encodePasswordMaterial(writer: Writer, material: PasswordMaterial): void {
  writer.var(material.username);
  writer.var(material.password);
}

export interface Info {
  /** Absent: not advertised. */
  readonly credit?: { readonly negotiated: number; readonly cap: number };
  /** 0 is unlimited. */
  readonly creditBytes?: { readonly negotiated: bigint; readonly cap: bigint };
  readonly gapMarker: boolean;
  readonly defaultAckLevel?: number;
  readonly streaming: boolean;
  readonly defaultTier?: Tier;
  readonly deliverBatch: boolean;
  readonly streams: boolean;
  /** Bits of InfoFlag2; unknown bits are kept. */
  readonly flags2: number;
}

// V{ flags: u8, credit_negotiated: u32, credit_cap: u32, bytes_negotiated: u64, bytes_cap: u64,
//    [default_ack_level: u8], [default_tier: u8], [flags2: u8] }. An empty body is an old server.

export function decodeInfo(reader: Reader): Info {
  if (reader.remaining === 0) {
    return { gapMarker: false, streaming: false, deliverBatch: false, streams: false, flags2: 0 };
  }
  const bodyEnd = reader.enterBlock();
  const flags = reader.u8OrZero();
  const credit = { negotiated: reader.u32OrZero(), cap: reader.u32OrZero() };
  const creditBytes = { negotiated: reader.u64OrZero(), cap: reader.u64OrZero() };
  const ackLevel = flags & ConnectFlag.DefaultAckLevel ? reader.u8OrZero() : undefined;
  const tier = flags & ConnectFlag.DefaultTier ? tierOf(reader.u8OrZero()) : undefined;
  const flags2 = reader.u8OrZero();
  reader.leaveBlock(bodyEnd);
  return {
    credit: flags & ConnectFlag.Credit ? credit : undefined,
    creditBytes: flags & ConnectFlag.CreditBytes ? creditBytes : undefined,
    gapMarker: (flags & ConnectFlag.GapMarker) !== 0,
    defaultAckLevel: ackLevel,
    streaming: (flags & ConnectFlag.Streaming) !== 0,
    defaultTier: tier,
    deliverBatch: (flags & ConnectFlag.DeliverBatch) !== 0,
    streams: (flags & ConnectFlag.Streams) !== 0,
    flags2,
  };
}

export function encodeInfo(writer: Writer, info: Info): void {
  const block = writer.beginBlock();
  writer.u8(
    (info.credit !== undefined ? ConnectFlag.Credit : 0) |
      (info.creditBytes !== undefined ? ConnectFlag.CreditBytes : 0) |
      (info.gapMarker ? ConnectFlag.GapMarker : 0) |
      (info.defaultAckLevel !== undefined ? ConnectFlag.DefaultAckLevel : 0) |
      (info.streaming ? ConnectFlag.Streaming : 0) |
      (info.defaultTier !== undefined ? ConnectFlag.DefaultTier : 0) |
      (info.deliverBatch ? ConnectFlag.DeliverBatch : 0) |
      (info.streams ? ConnectFlag.Streams : 0),
  );
  writer.u32(info.credit?.negotiated ?? 0);
  writer.u32(info.credit?.cap ?? 0);
  writer.u64(info.creditBytes?.negotiated ?? 0n);
  writer.u64(info.creditBytes?.cap ?? 0n);
  if (info.defaultAckLevel !== undefined) writer.u8(info.defaultAckLevel);
  if (info.defaultTier !== undefined) writer.u8(info.defaultTier);
  if (info.flags2 !== 0) writer.u8(info.flags2);
  writer.endBlock(block);
}

function tierOf(byte: number): Tier {
  return byte === 1 ? 1 : 0;
}
