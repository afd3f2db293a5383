import type { BrokerOptions } from "../broker/options.ts";
import type { ValidSettings } from "./validate.ts";

/** Limits above 2^53-1 act as 2^53-1: no counter of the broker gets there. */
function toNumber(value: bigint): number {
  return value > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(value);
}

/** What the broker is started with, out of settings that passed every check. */
export function brokerOptions({ settings, bindHost, bindPort }: ValidSettings): BrokerOptions {
  return {
    // A name inside the memory: nothing of it appears anywhere else.
    dataDir: settings.storage === "memory" ? "/memory" : settings.data_dir,
    host: bindHost,
    port: bindPort,
    durability: {
      level: settings.durability_level as BrokerOptions["durability"]["level"],
      flushIntervalMs: toNumber(settings.flush_interval_ms),
      flushMaxBytes: toNumber(settings.flush_max_bytes),
    },
    maxConnections: toNumber(settings.max_connections),
    visibilityTimeoutMs: toNumber(settings.visibility_timeout_ms),
    maxSegmentBytes: toNumber(settings.max_segment_bytes),
    checkpointInterval: Math.max(1, toNumber(settings.checkpoint_interval)),
    consumerCredit: toNumber(settings.consumer_credit),
    consumerCreditBytes: toNumber(settings.consumer_credit_bytes),
    maxInFlight: toNumber(settings.max_in_flight),
    maxGroups: toNumber(settings.max_groups),
    backoffMs: settings.backoff_ms.map(toNumber),
    maxPendingBytes: toNumber(settings.max_pending_bytes),
    drainTimeoutMs: toNumber(settings.drain_timeout_ms),
    storage: settings.storage as BrokerOptions["storage"],
    ioMode: settings.io_mode as BrokerOptions["ioMode"],
    compression: settings.compression as BrokerOptions["compression"],
    zstdLevel: toNumber(settings.zstd_level),
    zstdDictionaryId: toNumber(settings.compression_dictionary),
    recovery: settings.recovery as BrokerOptions["recovery"],
    fullScan: settings.full_scan,
    maxTotalBytes: toNumber(settings.max_total_bytes),
    diskFullPolicy: settings.disk_full_policy as BrokerOptions["diskFullPolicy"],
    minFreeBytes: toNumber(settings.min_free_bytes),
    dailyWriteBudgetBytes: toNumber(settings.daily_write_budget_bytes),
    retention: {
      maxRetainedBytes: toNumber(settings.max_retained_bytes),
      maxAgeMs: toNumber(settings.max_age_ms),
      maxMessages: toNumber(settings.max_messages),
    },
  };
}
