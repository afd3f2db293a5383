/** Transactions: wire.md 14. */
import { MAX_LISTENER_GROUP_BYTES, MAX_NAME_BYTES, MAX_TXN_ID_BYTES } from "./limits.ts";
import { decodePub, encodePub, type Pub } from "./pub.ts";
import type { Reader } from "./reader.ts";
import type { Writer } from "./writer.ts";

export interface TxnPrepareAddress {
  readonly txnId: Uint8Array;
  /** Empty: the default stream. */
  readonly streamId: Uint8Array;
}

export interface TxnPrepare extends TxnPrepareAddress {
  readonly pub: Pub;
}

// V{ txn_id: var, stream_id: var } + PubBody

/** The block alone; the reader is left at the PubBody. */
export function decodeTxnPrepareAddress(reader: Reader): TxnPrepareAddress {
  const bodyEnd = reader.enterBlock();
  const address = { txnId: reader.name(MAX_TXN_ID_BYTES), streamId: reader.name(MAX_NAME_BYTES) };
  reader.leaveBlock(bodyEnd);
  return address;
}

export function decodeTxnPrepare(reader: Reader): TxnPrepare {
  return { ...decodeTxnPrepareAddress(reader), pub: decodePub(reader) };
}

export function encodeTxnPrepare(writer: Writer, prepare: TxnPrepare): void {
  const block = writer.beginBlock();
  writer.name(prepare.txnId, MAX_TXN_ID_BYTES);
  writer.name(prepare.streamId, MAX_NAME_BYTES);
  writer.endBlock(block);
  encodePub(writer, prepare.pub);
}

/** Body of TxnCommit, TxnRollback and TxnCheck. */
export interface TxnResolve {
  readonly txnId: Uint8Array;
}

// V{ txn_id: var }

export function decodeTxnResolve(reader: Reader): TxnResolve {
  const bodyEnd = reader.enterBlock();
  const txnId = reader.name(MAX_TXN_ID_BYTES);
  reader.leaveBlock(bodyEnd);
  return { txnId };
}

export function encodeTxnResolve(writer: Writer, resolve: TxnResolve): void {
  const block = writer.beginBlock();
  writer.name(resolve.txnId, MAX_TXN_ID_BYTES);
  writer.endBlock(block);
}

/** Any other byte is "unknown". */
export const TxnDecision = { Commit: 0, Rollback: 1 } as const;

export interface TxnCheckResult {
  readonly txnId: Uint8Array;
  readonly decision: number;
}

// V{ txn_id: var, decision: u8 }, both required

export function decodeTxnCheckResult(reader: Reader): TxnCheckResult {
  const bodyEnd = reader.enterBlock();
  const result = { txnId: reader.name(MAX_TXN_ID_BYTES), decision: reader.u8() };
  reader.leaveBlock(bodyEnd);
  return result;
}

export function encodeTxnCheckResult(writer: Writer, result: TxnCheckResult): void {
  const block = writer.beginBlock();
  writer.name(result.txnId, MAX_TXN_ID_BYTES);
  writer.u8(result.decision);
  writer.endBlock(block);
}

export interface TxnListen {
  readonly group: Uint8Array;
}

// V{ group: var }

export function decodeTxnListen(reader: Reader): TxnListen {
  const bodyEnd = reader.enterBlock();
  const group = reader.name(MAX_LISTENER_GROUP_BYTES);
  reader.leaveBlock(bodyEnd);
  return { group };
}

export function encodeTxnListen(writer: Writer, listen: TxnListen): void {
  const block = writer.beginBlock();
  writer.name(listen.group, MAX_LISTENER_GROUP_BYTES);
  writer.endBlock(block);
}
