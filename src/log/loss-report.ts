import type { FileSystem } from "../runtime/file-system.ts";
import { RECOVERY_REPORT_FILE } from "./names.ts";
import { readExactly } from "./read-exactly.ts";
import { writeWhole } from "./whole-file.ts";

/** What recovery gave up, in the schema `ironbus.loss-report.v1` (storage.md 19). */

/** Reason names are an append-only vocabulary; a reader meets names that it does not know. */
export const LOSS_REASONS = {
  TornTail: { code: 1, label: "torn_tail", dataLoss: false },
  CorruptRecordHeader: { code: 2, label: "corrupt_record_header", dataLoss: true },
  CorruptRecordBody: { code: 3, label: "corrupt_record_body", dataLoss: true },
  CorruptSegmentHeader: { code: 4, label: "corrupt_segment_header", dataLoss: true },
  SequenceGap: { code: 5, label: "sequence_gap", dataLoss: true },
  ScrubberSuspect: { code: 6, label: "scrubber_suspect", dataLoss: true },
  UnresolvedDictId: { code: 7, label: "unresolved_dict_id", dataLoss: true },
  UnknownKeyId: { code: 8, label: "unknown_key_id", dataLoss: true },
  AeadTagMismatch: { code: 9, label: "aead_tag_mismatch", dataLoss: true },
} as const;

export type LossReason = keyof typeof LOSS_REASONS;

export interface LossEvent<Reason extends string = LossReason> {
  readonly segmentId: number;
  /** Byte span [start, end) within the segment file. */
  readonly start: number;
  readonly end: number;
  /** A lower bound. */
  readonly recordsLostEstimate: number;
  readonly reason: Reason;
}

export interface LossTotals {
  readonly bytes: number;
  /** Bytes of the events that lost data, torn tails left out. */
  readonly dataLossBytes: number;
  readonly records: number;
}

const SCHEMA_VERSION = 1;
/** A loss report above this is not one of ours. */
const MAX_REPORT_BYTES = 16 * 1024 * 1024;

export class LossReportError extends Error {
  override readonly name = "LossReportError";
}

/** Bytes that an event skipped. */
export function skippedBytes(event: { readonly start: number; readonly end: number }): number {
  return Math.max(0, event.end - event.start);
}

/** One event as a line for the log of a start (storage.md 19). */
export function describeLoss(event: LossEvent): string {
  return (
    `segment ${event.segmentId} bytes [${event.start}, ${event.end}): ${skippedBytes(event)} byte(s) lost, ` +
    `at least ${event.recordsLostEstimate} record(s), reason=${LOSS_REASONS[event.reason].label}`
  );
}

/** Sums over a report. */
export function lossTotals(events: readonly LossEvent[]): LossTotals {
  let bytes = 0;
  let dataLossBytes = 0;
  let records = 0;
  for (const event of events) {
    bytes += skippedBytes(event);
    if (LOSS_REASONS[event.reason].dataLoss) dataLossBytes += skippedBytes(event);
    records += event.recordsLostEstimate;
  }
  return { bytes, dataLossBytes, records };
}

/** The report as JSON on one line; the order of the fields is part of the schema. */
export function formatLossReport(events: readonly LossEvent<string>[]): string {
  return JSON.stringify({
    schema_version: SCHEMA_VERSION,
    events: events.map((event) => ({
      segment_id: event.segmentId,
      byte_offset_start: event.start,
      byte_offset_end: event.end,
      bytes_skipped: skippedBytes(event),
      records_lost_estimate: event.recordsLostEstimate,
      reason_code: event.reason,
    })),
  });
}

/** Reads a report; unknown reasons and fields are fine. Throws LossReportError for anything that is not a v1 report. */
export function parseLossReport(text: string): LossEvent<string>[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new LossReportError("loss report is not JSON");
  }
  const report = parsed as { schema_version?: unknown; events?: unknown } | null;
  if (report?.schema_version !== SCHEMA_VERSION) throw new LossReportError("loss report is not of schema version 1");
  if (!Array.isArray(report.events)) throw new LossReportError("loss report has no list of events");
  return report.events.map(parseEvent);
}

/**
 * What `recovery-report.json` in the log root names: of the last opening that lost something; or another report of that form.
 * Undefined when there is none, or one that is none of ours, as is any above `maxBytes`. Throws FileSystemError.
 */
export function readLossReport(
  files: FileSystem,
  root: string,
  name = RECOVERY_REPORT_FILE,
  maxBytes = MAX_REPORT_BYTES,
): LossEvent<string>[] | undefined {
  const path = `${root}/${name}`;
  if (files.stat(path)?.kind !== "file") return undefined;
  const file = files.open(path, "read");
  try {
    const { size } = file.status();
    if (size > maxBytes) return undefined;
    const bytes = new Uint8Array(size);
    readExactly(file, bytes, 0, size, 0);
    return parseLossReport(new TextDecoder().decode(bytes));
  } catch (error) {
    if (error instanceof LossReportError) return undefined;
    throw error;
  } finally {
    file.close();
  }
}

/** The events of `events` that `report` does not name: damage that stays where it is, is met by every start. */
export function newLosses(events: readonly LossEvent[], report: readonly LossEvent<string>[]): LossEvent[] {
  const keyOf = ({ segmentId, start, end, reason }: LossEvent<string>) => `${segmentId} ${start} ${end} ${reason}`;
  const known = new Set(report.map(keyOf));
  return events.filter((event) => !known.has(keyOf(event)));
}

/**
 * Writes `recovery-report.json`, or a report of another `name`, into the log root: to a temporary name, synced, renamed,
 * directory synced. Throws FileSystemError; recovery does not fail for it.
 */
export function writeLossReport(
  files: FileSystem,
  root: string,
  events: readonly LossEvent[],
  name = RECOVERY_REPORT_FILE,
): void {
  const path = `${root}/${name}`;
  const temporary = `${path}.tmp`;
  const bytes = new TextEncoder().encode(`${formatLossReport(events)}\n`);
  writeWhole(files, temporary, bytes);
  files.rename(temporary, path);
  files.syncDirectory(root);
}

function parseEvent(value: unknown): LossEvent<string> {
  const event = (value ?? {}) as Record<string, unknown>;
  const reason = event.reason_code;
  if (typeof reason !== "string") throw new LossReportError("loss event has no reason code");
  return {
    segmentId: wholeNumber(event, "segment_id"),
    start: wholeNumber(event, "byte_offset_start"),
    end: wholeNumber(event, "byte_offset_end"),
    recordsLostEstimate: wholeNumber(event, "records_lost_estimate"),
    reason,
  };
}

function wholeNumber(event: Record<string, unknown>, field: string): number {
  const value = event[field];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
    throw new LossReportError(`loss event has no whole number ${field}`);
  }
  return value;
}
