import { requireDataDirectory } from "../log/data-directory.ts";
import { type OfflineRecord, readLog } from "../log/offline-reader.ts";
import type { Codec } from "../runtime/codec.ts";
import type { FileSystem } from "../runtime/file-system.ts";

/** Directory of the default dead-letter sink. */
export const DEAD_LETTER_SINK = "dlq";

const REASONS = ["max-deliver-exceeded", "ttl-expired", "rejected"] as const;
export type DeadLetterReason = (typeof REASONS)[number];

/** What the headers of a dead-letter record say (storage.md 9). */
export interface DeadLetterHeader {
  readonly reason: DeadLetterReason;
  /** u64 */
  readonly sourceOffset: bigint;
  readonly attempt: number;
  /** Empty for the default group. */
  readonly group: string;
}

export interface DeadLetter extends DeadLetterHeader {
  readonly record: OfflineRecord;
}

/**
 * Decodes the headers of a dead-letter record, or gives undefined for those of a foreign one:
 *
 * "DLQ1" |             source offset u64 | attempt u32 | group length u16 | headers length u16 | group | headers
 * "DLQ2" | reason u8 | source offset u64 | ...
 */
export function decodeDeadLetter(headers: Uint8Array): DeadLetterHeader | undefined {
  const bytes = Buffer.from(headers.buffer, headers.byteOffset, headers.byteLength);
  const magic = bytes.toString("latin1", 0, 4);
  if (magic !== "DLQ1" && magic !== "DLQ2") return undefined;
  const at = magic === "DLQ1" ? 4 : 5;
  const groupAt = at + 16;
  if (bytes.length < groupAt) return undefined;
  const reason = magic === "DLQ1" ? REASONS[0] : REASONS[bytes[4]];
  const groupLength = bytes.readUInt16LE(at + 12);
  const headersLength = bytes.readUInt16LE(at + 14);
  if (reason === undefined || bytes.length !== groupAt + groupLength + headersLength) return undefined;
  return {
    reason,
    sourceOffset: bytes.readBigUInt64LE(at),
    attempt: bytes.readUInt32LE(at + 8),
    group: bytes.toString("utf8", groupAt, groupAt + groupLength),
  };
}

/**
 * The dead letters of the sink at `root`, in order, records that are none skipped; nothing when there is no sink. Throws as
 * readLog() and its records() do. A letter is valid until the iteration goes on.
 */
export function* readDeadLetters(files: FileSystem, codec: Codec, root: string): Generator<DeadLetter, void> {
  if (files.stat(root) === undefined) return;
  requireDataDirectory(files, root);
  for (const record of readLog(files, codec, root)) {
    const header = decodeDeadLetter(record.headers);
    if (header !== undefined) yield { ...header, record };
  }
}

/** How many dead letters the sink at `root` holds; 0 when there is none. */
export function countDeadLetters(files: FileSystem, codec: Codec, root: string): number {
  let count = 0;
  for (const _ of readDeadLetters(files, codec, root)) count++;
  return count;
}
