import { decodeCounters, encodeCounters } from "./checkpoint-payloads.ts";

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
  /** Publishes that wanted no acknowledgement. */
  producedWithoutAck = 0;
  connectionsAccepted = 0;
  connectionsClosed = 0;
  /** Connections that were closed before they were served: over the cap, or draining. */
  connectionsRefused = 0;

  /** A group was told that `skipped` records before `earliest` are gone. */
  truncated(earliest: number, skipped: number): void {
    this.truncations += 1;
    this.truncatedRecords += skipped;
    this.lastSkipOffset = Math.max(this.lastSkipOffset, earliest);
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
