import { type KeyName, PROFILE_SCHEMA_VERSION, type Settings } from "./keys.ts";

type Field = KeyName | "profile_schema_version" | "power_loss_safe";

/** The fields of the line in their frozen order (config.md 9.2); new ones only at the end. */
export const MATERIALIZED_FIELDS: readonly Field[] = [
  "profile",
  "profile_schema_version",
  "addr",
  "data_dir",
  "max_connections",
  "max_segment_bytes",
  "max_total_bytes",
  "consumer_credit",
  "consumer_credit_bytes",
  "max_in_flight",
  "max_groups",
  "max_streams",
  "max_open_streams",
  "group_idle_evict_ms",
  "checkpoint_interval",
  "max_deliver",
  "allow_unlimited_deliver",
  "disk_full_policy",
  "visibility_timeout_ms",
  "max_retained_bytes",
  "max_age_ms",
  "max_messages",
  "health_liveness_window_ms",
  "actor_watchdog_bound_ms",
  "enable_admin",
  "ram_ceiling_bytes",
  "dedup_max_ids",
  "dedup_max_producers",
  "max_prepared",
  "max_prepared_bytes",
  "durability_level",
  "power_loss_safe",
  "compression",
  "io_mode",
  "flush_interval_ms",
  "flush_max_bytes",
  "async_loss_ack",
  "wal_fsync_headroom_bytes",
  "storage",
  "commit_gather_us",
  "sync_max_dirty_bytes",
  "storage_mode",
  "append_shards",
  "recovery",
  "full_scan",
  "min_free_bytes",
  "daily_write_budget_bytes",
  "ephemeral_loss_ack",
  "health_addr",
  "health_allow_public",
  "zstd_level",
  "compression_dictionary",
];

/** The line a start prints on stderr: every effective value, nothing quoted, never a secret. */
export function materializedLine(settings: Settings): string {
  const fields = MATERIALIZED_FIELDS.map((field) => {
    switch (field) {
      case "profile_schema_version":
        return `${field}=${PROFILE_SCHEMA_VERSION}`;
      case "power_loss_safe":
        return `${field}=${settings.durability_level === "sync"}`;
      case "data_dir":
        return `${field}=${settings.storage === "memory" ? "none" : settings.data_dir}`;
      case "health_addr":
        return `${field}=${settings.health_addr === "" ? "none" : settings.health_addr}`;
      default:
        return `${field}=${settings[field]}`;
    }
  });
  return `materialized-config ${fields.join(" ")}`;
}
