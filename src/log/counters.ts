import type { Batch } from "./batch.ts";
import { decodeCounters, encodeCounters } from "./checkpoint-payloads.ts";
import { BARRIER_BUCKETS, DURATION_BUCKETS, Histogram } from "./histogram.ts";
import { LOSS_REASONS, type LossEvent, lossTotals, skippedBytes } from "./loss-report.ts";
import { SEGMENT_FOOTER_LENGTH } from "./segment.ts";

/** What one opening of a log met. */
export interface Opening {
  readonly losses: readonly LossEvent[];
  /** Those of them whose bytes were copied to quarantine. */
  readonly quarantined: readonly LossEvent[];
  /** How many of these no earlier opening has reported. */
  readonly repairs: number;
  /** An offset that no loss of this opening reaches beyond. */
  readonly lossEnd: number;
  /** The loss report on disk: of this opening, or of the last one that lost something. */
  readonly report: { readonly bytes: number; readonly records: number };
}

export type RecoveryOutcome = "clean" | "torn_tail_truncated" | "quarantined" | "data_loss";

/** Header and trailer of a record (storage.md 3.4). */
const FRAME_BYTES = 36 + 8;

/** The order of observability.md 2.6. */
const SAVED = [
  "produced",
  "producedBytes",
  "produceRejected",
  "delivered",
  "redelivered",
  "deadLettered",
  "truncations",
  "truncatedRecords",
  "acks",
  "segmentsReaped",
  "segmentsForceReaped",
  "recordsSkipped",
  "bytesSkipped",
  "lastSkipOffset",
  "checkpointRepairs",
  "dedupHits",
  "dedupOutOfWindow",
  "runsClean",
  "runsTornTailTruncated",
  "runsQuarantined",
  "runsDataLoss",
  "tornTailRepairs",
  "segmentRepairs",
  "cursorRepairs",
  "deadLetterRepairs",
  "expired",
  "producerOutOfOrder",
  "filtered",
] as const;

/**
 * What a broker counts, in plain fields that are added to where a thing happens and read when they are asked for. All but
 * the last group survive a restart as a lower bound (`counters.ckpt`, observability.md 2.6).
 */
export class Counters {
  /** Appended records, and their key, header and payload bytes as they were published. */
  produced = 0;
  producedBytes = 0;
  /** Publishes that were refused before anything was written: byte cap, free space, daily budget. */
  produceRejected = 0;
  /** Deliveries, redeliveries included. */
  delivered = 0;
  redelivered = 0;
  deadLettered = 0;
  /** Notices to a group that records below its position were removed, and how many those were. */
  truncations = 0;
  truncatedRecords = 0;
  /** Records settled by an ack or a term. */
  acks = 0;
  /** Segments removed by retention, and by `drop-oldest` whatever the consumers had. */
  segmentsReaped = 0;
  segmentsForceReaped = 0;
  /** What recoveries lost, and the highest offset that any loss or removal reached. */
  recordsSkipped = 0;
  bytesSkipped = 0;
  lastSkipOffset = 0;
  /** Openings whose loss report said more than the saved counters. */
  checkpointRepairs = 0;
  dedupHits = 0;
  dedupOutOfWindow = 0;
  /** Openings by the worst that they met. */
  runsClean = 0;
  runsTornTailTruncated = 0;
  runsQuarantined = 0;
  runsDataLoss = 0;
  tornTailRepairs = 0;
  /** Damage that was copied to quarantine and given up, or begun anew, by what it was in. */
  segmentRepairs = 0;
  cursorRepairs = 0;
  deadLetterRepairs = 0;
  expired = 0;
  producerOutOfOrder = 0;
  filtered = 0;

  /** Publishes refused by the daily write budget; they are in `produceRejected` too. Not saved, like all that follow. */
  dailyBudgetSheds = 0;
  /** Publishes that wanted no acknowledgement and were refused or given up; they are not in `produceRejected`. */
  shedWithoutAck = 0;
  /** Publishes that wanted no acknowledgement. */
  producedWithoutAck = 0;
  connectionsAccepted = 0;
  connectionsClosed = 0;
  /** Connections that were closed before they were served: over the cap, or draining. */
  connectionsRefused = 0;
  /** Key, header and payload bytes as they are stored, without frames. */
  logicalBytesWritten = 0;
  /** What writes with a barrier took, hand-over to completion. */
  readonly barriers = new Histogram(BARRIER_BUCKETS);
  readonly barrierDurations = new Histogram(DURATION_BUCKETS);

  /** Lost by the opening and met since. */
  #met: { readonly records: number; readonly bytes: number } = { records: 0, bytes: 0 };

  /** A batch is written; `barrierMs` is what its barrier took, with the write before it, if it had one. */
  wrote(batch: Batch, barrierMs: number | undefined): void {
    this.produced += batch.count;
    this.producedBytes += batch.bodyBytes;
    const footer = batch.seals ? SEGMENT_FOOTER_LENGTH : 0;
    // A body of 64 KiB or more has a checksum of 8 bytes, which is counted as its own.
    this.logicalBytesWritten += batch.end - batch.start - footer - batch.count * FRAME_BYTES;
    if (barrierMs === undefined) return;
    this.barriers.observe(barrierMs);
    this.barrierDurations.observe(barrierMs);
  }

  /** A group was told that `skipped` records before `earliest` are gone. */
  truncated(earliest: number, skipped: number): void {
    this.truncations += 1;
    this.truncatedRecords += skipped;
    this.lastSkipOffset = Math.max(this.lastSkipOffset, earliest);
  }

  /**
   * Counts an opening, after restore(): its outcome, its repairs, and the losses that the loss report knows and the saved
   * counters do not (observability.md 2.6).
   */
  opened(opening: Opening): void {
    switch (recoveryOutcome(opening)) {
      case "clean":
        this.runsClean += 1;
        break;
      case "torn_tail_truncated":
        this.runsTornTailTruncated += 1;
        break;
      case "quarantined":
        this.runsQuarantined += 1;
        break;
      case "data_loss":
        this.runsDataLoss += 1;
        break;
    }
    this.tornTailRepairs += opening.losses.filter(({ reason }) => reason === "TornTail").length;
    this.segmentRepairs += opening.repairs;
    const { report, losses, lossEnd } = opening;
    this.#met = lossTotals(losses);
    // Read-only, an opening leaves no report behind.
    const records = Math.max(report.records, this.#met.records);
    const bytes = Math.max(report.bytes, this.#met.bytes);
    const behind = records > this.recordsSkipped || bytes > this.bytesSkipped;
    const reached = behind || this.#met.bytes > 0 || this.#met.records > 0 ? lossEnd : 0;
    if (!behind && reached <= this.lastSkipOffset) return;
    this.recordsSkipped = Math.max(this.recordsSkipped, records);
    this.bytesSkipped = Math.max(this.bytesSkipped, bytes);
    this.lastSkipOffset = Math.max(this.lastSkipOffset, reached);
    this.checkpointRepairs += 1;
  }

  /**
   * Damage was met while running: `end` is the offset behind what is lost. It stays where it is and is met again after the
   * next start, so what one process met is a sum, and over processes the largest counts.
   */
  lost(losses: readonly LossEvent[], end: number): void {
    const { records, bytes } = lossTotals(losses);
    this.#met = { records: this.#met.records + records, bytes: this.#met.bytes + bytes };
    this.recordsSkipped = Math.max(this.recordsSkipped, this.#met.records);
    this.bytesSkipped = Math.max(this.bytesSkipped, this.#met.bytes);
    this.lastSkipOffset = Math.max(this.lastSkipOffset, end);
  }

  /** Takes over what was saved; fields that the payload does not have stay 0. */
  restore(payload: Uint8Array): void {
    const values = decodeCounters(payload, SAVED.length);
    for (let index = 0; index < SAVED.length; index++) this[SAVED[index]] = values[index];
  }

  /** The payload of `counters.ckpt`. */
  encode(): Uint8Array {
    return encodeCounters(SAVED.map((name) => this[name]));
  }
}

/** Openings by outcome, in the contract's order. */
export function recoveryOutcomes(counters: Counters): readonly (readonly [RecoveryOutcome, number])[] {
  return [
    ["clean", counters.runsClean],
    ["torn_tail_truncated", counters.runsTornTailTruncated],
    ["quarantined", counters.runsQuarantined],
    ["data_loss", counters.runsDataLoss],
  ];
}

/** The worst that an opening met. What lost neither bytes nor records is no loss: a segment whose creation was cut. */
export function recoveryOutcome({ losses, quarantined }: Pick<Opening, "losses" | "quarantined">): RecoveryOutcome {
  if (losses.length === 0) return "clean";
  const serious = losses.filter(
    (event) => LOSS_REASONS[event.reason].dataLoss && (skippedBytes(event) > 0 || event.recordsLostEstimate > 0),
  );
  if (serious.length === 0) return "torn_tail_truncated";
  return serious.every((event) => quarantined.includes(event)) ? "quarantined" : "data_loss";
}
