import {
  CompressionError,
  type DictionarySource,
  decompressPayload,
  readCompressionDescriptor,
} from "../log/compressed-payload.ts";
import { Dictionaries } from "../log/dictionaries.ts";
import type { RecoveryMode } from "../log/inspection.ts";
import { LOSS_REASONS, type LossEvent, lossTotals, skippedBytes } from "../log/loss-report.ts";
import { type OfflineRecord, readLog } from "../log/offline-reader.ts";
import { RecordFlag } from "../log/record.ts";
import { requireLogRoot } from "../offline/stopped-directory.ts";
import type { Codec } from "../runtime/codec.ts";
import { createRuntime } from "../runtime/runtime.ts";
import { CodecId } from "../wire/compressed.ts";
import { jsonString } from "./envelope.ts";
import { CliError } from "./errors.ts";
import { storageFailure } from "./storage-failure.ts";
import type { Context } from "./verb.ts";

/** Which records `peek` and `dump` show, and how. */
export interface RecordSelection {
  readonly fromOffset: bigint;
  /** Undefined: all. */
  readonly limit: bigint | undefined;
  readonly json: boolean;
  /** Stored lengths, nothing decompressed. */
  readonly raw: boolean;
  /** A record whose dictionary is not there ends the run with exit code 3. */
  readonly requireDictionary: boolean;
  readonly recovery: RecoveryMode;
}

interface Shown {
  readonly bytes: number;
  readonly codec: string;
  /** Absent for a payload that is stored as it is, and in raw form. */
  readonly decoded?: boolean;
  readonly reason?: string;
}

function codecName(stored: Uint8Array): string {
  const id = readCompressionDescriptor(stored)?.codecId;
  switch (id) {
    case undefined:
      return "?";
    case CodecId.None:
      return "none";
    case CodecId.Lz4:
      return "lz4";
    case CodecId.Zstd:
      return "zstd";
    default:
      return String(id);
  }
}

/** Throws CliError handled_corruption for a payload that cannot be had without a dictionary which is not there. */
function requireDictionaryOf(record: OfflineRecord, dictionaries: DictionarySource): void {
  if ((record.flags & RecordFlag.Compressed) === 0) {
    return;
  }
  const id = readCompressionDescriptor(record.payload)?.dictionaryId ?? 0;
  if (id !== 0 && dictionaries.get(id) === undefined) {
    throw new CliError("handled_corruption", `record ${record.offset} needs dictionary ${id}, which is not there`);
  }
}

function show(record: OfflineRecord, codec: Codec, dictionaries: DictionarySource, raw: boolean): Shown {
  if ((record.flags & RecordFlag.Compressed) === 0) {
    return { bytes: record.storedPayloadLength, codec: "none" };
  }
  const name = codecName(record.payload);
  if (raw) {
    return { bytes: record.storedPayloadLength, codec: name };
  }
  try {
    return { bytes: decompressPayload(record.payload, codec, dictionaries).length, codec: name, decoded: true };
  } catch (error) {
    const reason = error instanceof CompressionError ? error.message : "decode-error";
    return { bytes: record.storedPayloadLength, codec: name, decoded: false, reason };
  }
}

/** The frozen line of one record (cli.md 5.2). Key and payload bytes are never part of it. */
function recordLine(record: OfflineRecord, shown: Shown, json: boolean): string {
  const { offset, timestampMs, keyLength } = record;
  if (json) {
    const decoded = shown.decoded === undefined ? "" : `,"decoded":${shown.decoded}`;
    const reason = shown.reason === undefined ? "" : `,"reason":${jsonString(shown.reason)}`;
    return `{"offset":${offset},"ts_ms":${timestampMs},"bytes":${shown.bytes},"key_bytes":${keyLength},"crc":"ok","codec":${jsonString(shown.codec)}${decoded}${reason}}`;
  }
  const decoded = shown.decoded === undefined ? "" : ` decoded=${shown.decoded}`;
  const reason = shown.reason === undefined ? "" : ` reason=${shown.reason}`;
  return `offset=${offset} ts_ms=${timestampMs} bytes=${shown.bytes} key_bytes=${keyLength} crc=ok codec=${shown.codec}${decoded}${reason}`;
}

/** What could not be shown; nothing when all was. */
function lossLines(losses: readonly LossEvent[], json: boolean): string[] {
  const { bytes } = lossTotals(losses);
  if (losses.length === 0) {
    return [];
  }
  if (json) {
    const events = losses.map(
      ({ segmentId, start, end, reason }) =>
        `{"segment":${segmentId},"start":${start},"end":${end},"reason":"${LOSS_REASONS[reason].label}"}`,
    );
    return [`{"loss":{"bytes":${bytes},"events":[${events.join(",")}]}}`];
  }
  return [
    `note: ${bytes} byte(s) past the durable head are torn or corrupt and were not shown (${losses.length} event(s))`,
    ...losses.map(
      (event) =>
        `  segment ${event.segmentId} bytes [${event.start}, ${event.start + skippedBytes(event)}) reason=${LOSS_REASONS[event.reason].label}`,
    ),
  ];
}

/**
 * Prints the intact records of a stopped data directory and then what is torn, bad or missing, changing nothing and taking
 * no lock (cli.md 5.1, 5.2). Throws CliError: 2 without a data directory, 3 for a dictionary that is missed, 4 for what
 * cannot be opened (in mode `strict` also for damage inside the log), 70 for I/O.
 */
export async function printRecords(
  directory: string,
  { fromOffset, limit, json, raw, requireDictionary, recovery }: RecordSelection,
  { output }: Context,
): Promise<number> {
  const { runtime } = createRuntime();
  try {
    requireLogRoot(runtime.files, directory);
    const log = readLog(runtime.files, runtime.codec, directory, recovery);
    const dictionaries = new Dictionaries(runtime.files, directory);
    let left = limit;
    if (left !== 0n) {
      const from = fromOffset > BigInt(Number.MAX_SAFE_INTEGER) ? Number.POSITIVE_INFINITY : Number(fromOffset);
      for (const record of log.records(from)) {
        if (requireDictionary) {
          requireDictionaryOf(record, dictionaries);
        }
        output.line(recordLine(record, show(record, runtime.codec, dictionaries, raw), json));
        if (output.full) {
          await output.flush();
        }
        if (left !== undefined && --left === 0n) {
          break;
        }
      }
    }
    for (const line of lossLines(log.losses(), json)) {
      output.line(line);
    }
    await output.flush();
    return 0;
  } catch (error) {
    throw storageFailure(error, "reading", directory);
  }
}
