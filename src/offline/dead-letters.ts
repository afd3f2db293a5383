import type { LossEvent } from "../log/loss-report.ts";
import { type OfflineLog, type OfflineRecord, readLog } from "../log/offline-reader.ts";
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

/** The dead letters of the sink at `root`, in order, records that are none skipped; empty when there is no sink. */
export class DeadLetterSink implements Iterable<DeadLetter> {
  readonly #log: OfflineLog | undefined;

  /** Throws as readLog() does, but for a sink that is not there. */
  constructor(files: FileSystem, codec: Codec, root: string) {
    this.#log = files.stat(root) === undefined ? undefined : readLog(files, codec, root);
  }

  /** A letter is valid until the iteration goes on. Throws FileSystemError. */
  *[Symbol.iterator](): Generator<DeadLetter, void> {
    for (const record of this.#log ?? []) {
      const header = decodeDeadLetter(record.headers);
      if (header !== undefined) yield { ...header, record };
    }
  }

  /** What is damaged, as far as it was read. */
  losses(): readonly LossEvent[] {
    return this.#log?.losses() ?? [];
  }
}

/** How many dead letters the sink at `root` holds; 0 when there is none. */
export function countDeadLetters(files: FileSystem, codec: Codec, root: string): number {
  let count = 0;
  for (const _ of new DeadLetterSink(files, codec, root)) count++;
  return count;
}
