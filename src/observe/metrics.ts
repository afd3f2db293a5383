import type { ConsumerGroup } from "../broker/consumer-group.ts";
import type { ObservedBroker } from "../broker/observed.ts";
import { recoveryOutcomes } from "../log/counters.ts";
import type { Histogram } from "../log/histogram.ts";
import { LOSS_REASONS, type LossReason, lossTotals, skippedBytes } from "../log/loss-report.ts";
import { Exposition, ratio } from "./exposition.ts";
import { headroom } from "./resources.ts";

/** Series by group: what lies above is summed where a sum means something, else left out (observability.md 2.4). */
const MOST_GROUPS = 1024;
const LEVELS = ["sync", "interval", "async", "none"] as const;

export interface MetricsSource {
  readonly broker: ObservedBroker;
  readonly version: string;
  /** 0 = none. */
  readonly ramCeilingBytes: number;
  readonly residentBytes: number;
  /** Health connections that were closed unheard. */
  readonly healthShed: number;
}

/**
 * The text of /metrics: the frozen families of observability.md 2.2 that this broker has something to say about, in their
 * order; docs/limits.md lists the others. Reads plain fields only.
 */
export function renderMetrics(source: MetricsSource): string {
  const text = new Exposition();
  const groups = [...source.broker.stream.groups];
  core(text, source, groups);
  operations(text, source.broker);
  recovery(text, source.broker);
  latencies(text, source.broker);
  storage(text, source);
  durability(text, source.broker);
  backpressure(text, source.broker);
  connections(text, source);
  perGroup(text, source.broker, groups);
  self(text, source);
  return text.text();
}

function core(text: Exposition, { broker }: MetricsSource, groups: readonly ConsumerGroup[]): void {
  const { log } = broker.stream;
  const committed = groups.find(({ name }) => name === "")?.group.committed ?? 0;
  const inFlight = groups.find(({ name }) => name === "")?.group.inFlight ?? 0;
  const flushed = log.visibleHead;
  text.value("ironbus_committed_offset", "gauge", "Committed offset of the default group.", committed);
  text.value("ironbus_flushed_offset", "gauge", "Offset of the next record to become visible.", flushed);
  text.value("ironbus_consumer_lag", "gauge", "Records the default group has not committed.", lag(flushed, committed));
  text.value("ironbus_in_flight", "gauge", "Delivered and unsettled records of the default group.", inFlight);
  text.value(
    "ironbus_writer_healthy",
    "gauge",
    "1 while publishing works, 0 once the writer is frozen.",
    healthy(broker),
  );
  const truncated = lossTotals(broker.opening.losses).bytes;
  const help = "Bytes that the recovery of this start gave up, torn ends included.";
  text.value("ironbus_recovery_truncated_bytes", "gauge", help, truncated);
  text.value("ironbus_quarantine_bytes", "gauge", "Bytes in quarantine at this start.", broker.quarantineBytes);
}

function operations(text: Exposition, { stream }: ObservedBroker): void {
  const c = stream.counters;
  const counter = (name: string, help: string, value: number) => text.value(`ironbus_${name}`, "counter", help, value);
  counter("produced_total", "Records appended.", c.produced);
  counter("produced_bytes_total", "Key, header and payload bytes appended, as published.", c.producedBytes);
  counter("produce_rejected_total", "Publishes refused before anything was written.", c.produceRejected);
  counter("delivered_total", "Deliveries, redeliveries included.", c.delivered);
  counter("redelivered_total", "Deliveries of records that had been delivered before.", c.redelivered);
  counter("acks_total", "Records settled by ack or term.", c.acks);
  counter("segments_reaped_total", "Consumed segments removed by retention.", c.segmentsReaped);
  counter("segments_force_reaped_total", "Segments removed by drop-oldest.", c.segmentsForceReaped);
  counter("truncations_total", "Groups told that records below their position were removed.", c.truncations);
  counter("truncated_records_total", "Records in those gaps.", c.truncatedRecords);
  counter(
    "counter_checkpoint_repair_total",
    "Starts whose loss report knew more than the counters.",
    c.checkpointRepairs,
  );
}

function recovery(text: Exposition, { stream, opening }: ObservedBroker): void {
  const c = stream.counters;
  text.value("ironbus_records_skipped", "gauge", "Records lost to damage, at least.", c.recordsSkipped);
  text.value("ironbus_bytes_skipped", "gauge", "Bytes lost to damage.", c.bytesSkipped);
  text.value("ironbus_last_skip_offset", "gauge", "Highest offset that a loss or removal reached.", c.lastSkipOffset);
  const reasons = Object.keys(LOSS_REASONS) as LossReason[];
  const byReason = (name: string, help: string, amount: (event: (typeof opening.losses)[number]) => number) => {
    text.family(name, "gauge", help);
    for (const reason of reasons) {
      const events = opening.losses.filter((event) => event.reason === reason);
      text.sample(
        events.reduce((sum, event) => sum + amount(event), 0),
        "reason",
        LOSS_REASONS[reason].label,
      );
    }
  };
  byReason("ironbus_recovery_loss_bytes", "Bytes that the recovery of this start gave up, by reason.", skippedBytes);
  byReason(
    "ironbus_recovery_loss_records",
    "Records that the recovery of this start gave up, at least, by reason.",
    ({ recordsLostEstimate }) => recordsLostEstimate,
  );
  const dataLoss = lossTotals(opening.losses).dataLossBytes;
  text.value("ironbus_recovery_data_loss_bytes", "gauge", "The same bytes without torn ends.", dataLoss);
  text.family("ironbus_recovery_runs_total", "counter", "Starts by the worst that recovery met.");
  for (const [outcome, count] of recoveryOutcomes(c)) text.sample(count, "outcome", outcome);
  text.value("ironbus_torn_tail_repairs_total", "counter", "Torn ends cut off.", c.tornTailRepairs);
  text
    .family("ironbus_corruption_repairs_total", "counter", "Damage worked around, by what it was in.")
    .sample(c.segmentRepairs, "artifact", "segment")
    .sample(c.cursorRepairs, "artifact", "cursor")
    .sample(c.deadLetterRepairs, "artifact", "dlq");
}

function latencies(text: Exposition, { stream }: ObservedBroker): void {
  const { barriers, barrierDurations } = stream.counters;
  const help = "Write and barrier of a batch of publishes, in seconds.";
  histogram(text, "ironbus_fsync_seconds", help, barriers);
  histogram(text, "ironbus_fsync_duration_seconds", help, barrierDurations);
}

function histogram(text: Exposition, name: string, help: string, { bounds, counts, sum }: Histogram): void {
  text.family(name, "histogram", help);
  let count = 0;
  for (let bucket = 0; bucket < counts.length; bucket++) {
    count += counts[bucket];
    text.sample(count, "le", bucket < bounds.length ? String(bounds[bucket]) : "+Inf", "_bucket");
  }
  text.sample(sum, undefined, undefined, "_sum").sample(count, undefined, undefined, "_count");
}

function storage(text: Exposition, { broker, ramCeilingBytes, residentBytes }: MetricsSource): void {
  const { counters, log } = broker.stream;
  const { recordBytes, physicalBytes, physicalBytesToday } = log.written;
  const gauge = (name: string, help: string, value: number | string) =>
    text.value(`ironbus_${name}`, "gauge", help, value);
  const logical = counters.logicalBytesWritten;
  const writtenHelp = "Key, header and payload bytes written since the start, as stored.";
  text.value("ironbus_logical_bytes_written", "counter", writtenHelp, logical);
  const physicalHelp = "Bytes of frames, segment headers and footers written since the start.";
  text.value("ironbus_physical_bytes_written", "counter", physicalHelp, physicalBytes);
  gauge("write_amp_ratio", "Physical by logical bytes written.", ratio(physicalBytes, logical));
  const ram = headroom(ramCeilingBytes, residentBytes);
  gauge("ram_headroom_bytes", "Memory ceiling less resident memory, -1 without a ceiling.", ram.headroomBytes);
  gauge("ram_headroom_ratio", "The same as a share of the ceiling, -1 without one.", ram.headroomRatio);
  gauge("rss_over_cap_ratio", "Resident memory by the ceiling, at most 1, -1 without one.", ram.overCapRatio);
  gauge("disk_free_bytes", "Free space for the log, -1 when unknown.", broker.freeBytes() ?? -1);
  gauge("durable_record_bytes", "Bytes of stored records.", recordBytes);
  gauge("segment_count", "Segments, the one being written included.", log.segments.length);
  const saturated = counters.produceRejected + counters.shedWithoutAck + counters.dailyBudgetSheds > 0;
  gauge("produce_saturated", "1 once a publish was refused for want of room.", flag(saturated));
  const budget = broker.options.dailyWriteBudgetBytes;
  gauge("daily_physical_write_budget_bytes", "Budget of bytes written in a UTC day, 0 = none.", budget);
  gauge("physical_bytes_written_today", "Bytes written in this UTC day since the start.", physicalBytesToday);
  const over = budget > 0 && physicalBytesToday >= budget;
  gauge("daily_write_budget_over", "1 while the daily budget is used up.", flag(over));
  const shedHelp = "Publishes refused by the daily budget.";
  text.value("ironbus_daily_write_budget_sheds_total", "counter", shedHelp, counters.dailyBudgetSheds);
}

function durability(text: Exposition, { options, stream }: ObservedBroker): void {
  const { level } = options.durability;
  text.family("ironbus_durability_level_info", "gauge", "The durability level.");
  for (const known of LEVELS) if (known === level) text.sample(1, "level", known);
  const unsafeHelp = "1 when a power cut may take acknowledged records by design.";
  text.value("ironbus_durability_power_loss_unsafe", "gauge", unsafeHelp, flag(level !== "sync"));
  // At level sync nothing is acknowledged before its barrier, whatever is on its way to the disk.
  const unsynced = level === "sync" ? 0 : stream.log.unsyncedBytes;
  text.value("ironbus_durability_unsynced_bytes", "gauge", "Acknowledged record bytes without a barrier.", unsynced);
}

function backpressure(text: Exposition, { stream }: ObservedBroker): void {
  const help = "Refused publishes that wanted no acknowledgement.";
  text.value("ironbus_fire_and_forget_shed_total", "counter", help, stream.counters.shedWithoutAck);
}

function connections(text: Exposition, { broker, healthShed }: MetricsSource): void {
  const { connectionsAccepted, connectionsClosed, connectionsRefused } = broker.stream.counters;
  text
    .family("ironbus_connections_total", "counter", "Client connections by what became of them.")
    .sample(connectionsAccepted, "state", "accepted")
    .sample(connectionsClosed, "state", "closed")
    .sample(connectionsRefused, "state", "refused")
    .sample(0, "state", "authenticated");
  const open = connectionsAccepted - connectionsClosed;
  text.value("ironbus_connections_open", "gauge", "Client connections that are open.", open);
  text
    .family("ironbus_health_shed_total", "counter", "Health connections closed unheard.")
    .sample(healthShed, "reason", "at_cap")
    .sample(0, "reason", "spawn_refused");
}

function perGroup(text: Exposition, { stream }: ObservedBroker, groups: readonly ConsumerGroup[]): void {
  const shown = groups.slice(0, MOST_GROUPS);
  const flushed = stream.log.visibleHead;
  const gauge = (name: string, help: string, value: (group: ConsumerGroup) => number) => {
    text.family(`ironbus_${name}`, "gauge", help);
    for (const group of shown) text.sample(value(group), "group", group.name);
  };
  gauge("group_committed_offset", "Committed offset of the group.", ({ group }) => group.committed);
  gauge("group_consumer_lag", "Records the group has not committed.", ({ group }) => lag(flushed, group.committed));
  gauge("group_in_flight", "Delivered and unsettled records of the group.", ({ group }) => group.inFlight);
  const { produced, producedWithoutAck } = stream.counters;
  text.family("ironbus_stream_produced_total", "counter", "Records appended by stream.").sample(produced, "stream", "");
  text.family("ironbus_group_consumed_total", "counter", "Records settled by ack or term since the start, by group.");
  for (const { name, consumed } of shown) text.sample(consumed, "group", name);
  const rest = groups.slice(MOST_GROUPS);
  if (rest.length > 0) {
    const others = rest.reduce((sum, { consumed }) => sum + consumed, 0);
    text.sample(others, "group", "__overflow__");
  }
  const droppedHelp = "Groups that are in the overflow of ironbus_group_consumed_total.";
  text.value("ironbus_throughput_labels_dropped_total", "counter", droppedHelp, rest.length);
  text
    .family("ironbus_produce_ack_level_total", "counter", "Records appended by the acknowledgement they asked for.")
    .sample(producedWithoutAck, "level", "c0")
    .sample(Math.max(0, produced - producedWithoutAck), "level", "c1")
    .sample(0, "level", "c2");
}

function self(text: Exposition, { broker, version }: MetricsSource): void {
  text.family("ironbus_build_info", "gauge", "The version that runs.").sample(1, "version", version);
  const startedSeconds = Math.floor(broker.startedWallMs / 1000);
  text.value("ironbus_start_time_seconds", "gauge", "Unix time of the start.", startedSeconds);
  const uptimeSeconds = Math.floor((broker.clock.monotonicMs() - broker.startedMs) / 1000);
  text.value("ironbus_uptime_seconds", "gauge", "Seconds since the start.", uptimeSeconds);
}

function healthy({ health }: ObservedBroker): number {
  return flag(health.frozen === undefined);
}

function lag(flushed: number, committed: number): number {
  return Math.max(0, flushed - committed);
}

function flag(value: boolean): 0 | 1 {
  return value ? 1 : 0;
}
