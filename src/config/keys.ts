import type { FlagKind } from "./flags.ts";

export const PROFILES = ["edge-tiny", "balanced", "throughput"] as const;
export type Profile = (typeof PROFILES)[number];

/** Raised whenever a preset value changes (config.md 7). */
export const PROFILE_SCHEMA_VERSION = 1;

export const DISK_FULL_POLICIES = ["drop-new", "drop-oldest"] as const;
export const IO_MODES = ["buffered", "direct", "auto"] as const;
export const COMPRESSIONS = ["none", "lz4", "zstd"] as const;
export const STORAGE_BACKENDS = ["disk", "memory"] as const;
export const RECOVERY_MODES = ["salvage", "strict"] as const;
export const DURABILITY_LEVELS = ["sync", "interval", "async", "none"] as const;

/** What a change of the key in a running broker means (config.md 5). */
export type Reload = "live" | "cold" | "restart";

interface KeyOf<Kind extends string, Value> {
  /** Name in the materialized-config line. */
  readonly name: string;
  readonly kind: Kind;
  /**
   * Without a flag a key has no operator surface in this version: its value is the profile's or the default, and is
   * shown and checked as such.
   */
  readonly flag?: `--${string}`;
  readonly default: Value;
  /** Presets that differ from the default. */
  readonly profiles?: Partial<Record<Profile, Value>>;
  readonly reload: Reload;
  readonly section: Section;
  readonly placeholder?: string;
  readonly help?: string;
}

/** A number of the given width. */
type NumberKey = KeyOf<"u32" | "u64", bigint> & { readonly minimum?: bigint };
type ListKey = KeyOf<"u64-list", readonly bigint[]>;
type SwitchKey = KeyOf<"switch", boolean>;
type TextKey = KeyOf<"text", string>;
type EnumKey = KeyOf<"enum", string> & { readonly tokens: readonly string[] };
export type Key = NumberKey | ListKey | SwitchKey | TextKey | EnumKey;

/** Headings of help and documentation. */
export type Section = "Storage" | "Durability" | "Delivery" | "Flow control" | "Network";

const storage = { section: "Storage" } as const;
const durability = { section: "Durability" } as const;
const delivery = { section: "Delivery" } as const;
const flow = { section: "Flow control" } as const;
const network = { section: "Network" } as const;

/**
 * The one table of configuration keys: flags, variables, defaults, presets, checks and help come from here. A number is
 * in its base unit (bytes, milliseconds, count). Enums resolve first, in table order, then everything else.
 */
export const KEYS = [
  {
    ...storage,
    name: "profile",
    kind: "enum",
    flag: "--profile",
    tokens: PROFILES,
    default: "balanced",
    reload: "restart",
    help: "preset of limits, edge-tiny for boards with little memory",
  },
  {
    ...storage,
    name: "disk_full_policy",
    kind: "enum",
    flag: "--disk-full-policy",
    tokens: DISK_FULL_POLICIES,
    default: "drop-new",
    profiles: { throughput: "drop-oldest" },
    reload: "live",
    help: "at --max-total-bytes: drop-new refuses publishes, drop-oldest removes the oldest segments",
  },
  {
    ...durability,
    name: "durability_level",
    kind: "enum",
    flag: "--durability-level",
    tokens: DURABILITY_LEVELS,
    default: "sync",
    reload: "restart",
    help: "when a publish is acknowledged: sync = once it is on the disk; the others may lose acknowledged records in a power cut",
  },
  {
    ...storage,
    name: "io_mode",
    kind: "enum",
    flag: "--io-mode",
    tokens: IO_MODES,
    default: "buffered",
    reload: "cold",
    help: "how segments are written: through the page cache, around it, or chosen by the device",
  },
  {
    ...storage,
    name: "compression",
    kind: "enum",
    flag: "--compression",
    tokens: COMPRESSIONS,
    default: "lz4",
    reload: "restart",
    help: "how payloads of 64 bytes and more are stored",
  },
  {
    ...storage,
    name: "zstd_level",
    kind: "u32",
    flag: "--zstd-level",
    default: 3n,
    reload: "restart",
    placeholder: "<n>",
    help: "effort of --compression zstd, 1 to 19",
  },
  {
    ...storage,
    name: "compression_dictionary",
    kind: "u32",
    flag: "--compression-dictionary",
    default: 0n,
    reload: "restart",
    placeholder: "<id>",
    help: "installed dictionary that --compression zstd uses, 0 = none",
  },
  {
    ...storage,
    name: "storage",
    kind: "enum",
    flag: "--storage",
    tokens: STORAGE_BACKENDS,
    default: "disk",
    reload: "restart",
    help: "memory keeps everything in memory and loses it when the broker ends",
  },
  {
    ...storage,
    name: "recovery",
    kind: "enum",
    flag: "--recovery",
    tokens: RECOVERY_MODES,
    default: "salvage",
    reload: "restart",
    help: "damage inside the log: salvage skips and reports it, strict refuses to start",
  },
  {
    ...storage,
    name: "full_scan",
    kind: "switch",
    flag: "--full-scan",
    default: false,
    reload: "restart",
    help: "read and check every record at start; without it sealed segments are checked when they are read",
  },
  {
    ...storage,
    name: "data_dir",
    kind: "text",
    flag: "--data-dir",
    default: "",
    reload: "cold",
    placeholder: "<dir>",
    help: "directory of the log, made if absent (required)",
  },
  {
    ...storage,
    name: "max_segment_bytes",
    kind: "u64",
    flag: "--max-segment-bytes",
    minimum: 4096n,
    default: 67_108_864n,
    profiles: { "edge-tiny": 8_388_608n, throughput: 268_435_456n },
    reload: "cold",
    placeholder: "<bytes>",
    help: "size at which a segment file is sealed and the next begins",
  },
  {
    ...storage,
    name: "ephemeral_loss_ack",
    kind: "switch",
    flag: "--ephemeral-loss-ack",
    default: false,
    reload: "restart",
    help: "consent to losing everything at exit, needed for --storage memory",
  },
  {
    ...storage,
    name: "max_total_bytes",
    kind: "u64",
    flag: "--max-total-bytes",
    default: 0n,
    reload: "restart",
    placeholder: "<bytes>",
    help: "cap of all stored records, 0 = unlimited",
  },
  {
    ...storage,
    name: "min_free_bytes",
    kind: "u64",
    flag: "--min-free-bytes",
    default: 0n,
    profiles: { "edge-tiny": 25_165_824n },
    reload: "live",
    placeholder: "<bytes>",
    help: "publishes are refused while the disk has less free space than this, 0 = no check",
  },
  {
    ...storage,
    name: "daily_write_budget_bytes",
    kind: "u64",
    flag: "--daily-write-budget-bytes",
    default: 0n,
    reload: "live",
    placeholder: "<bytes>",
    help: "most bytes written to segments in one UTC day, 0 = no budget",
  },
  {
    ...storage,
    name: "max_retained_bytes",
    kind: "u64",
    flag: "--max-retained-bytes",
    default: 0n,
    reload: "live",
    placeholder: "<bytes>",
    help: "retention: consumed segments beyond this many record bytes are removed, 0 = off",
  },
  {
    ...storage,
    name: "max_age_ms",
    kind: "u64",
    flag: "--max-age-ms",
    default: 0n,
    reload: "live",
    placeholder: "<ms>",
    help: "retention: consumed segments whose last record arrived this long ago are removed, 0 = off",
  },
  {
    ...storage,
    name: "max_messages",
    kind: "u64",
    flag: "--max-messages",
    default: 0n,
    reload: "live",
    placeholder: "<n>",
    help: "retention: consumed segments beyond this many records are removed, 0 = off",
  },
  {
    ...durability,
    name: "async_loss_ack",
    kind: "switch",
    flag: "--async-loss-ack",
    default: false,
    reload: "restart",
    help: "consent to losing acknowledged records, needed for async and none",
  },
  {
    ...durability,
    name: "flush_interval_ms",
    kind: "u64",
    flag: "--flush-interval-ms",
    default: 1000n,
    reload: "restart",
    placeholder: "<ms>",
    help: "level interval: longest time between barriers, 0 = no time trigger",
  },
  {
    ...durability,
    name: "flush_max_bytes",
    kind: "u64",
    flag: "--flush-max-bytes",
    default: 1_048_576n,
    reload: "restart",
    placeholder: "<bytes>",
    help: "level interval: most unsynced bytes, 0 = no byte trigger",
  },
  {
    ...delivery,
    name: "visibility_timeout_ms",
    kind: "u64",
    flag: "--visibility-timeout-ms",
    minimum: 1n,
    default: 30_000n,
    reload: "restart",
    placeholder: "<ms>",
    help: "how long a delivered record stays with its consumer before it is delivered again",
  },
  {
    ...delivery,
    name: "backoff_ms",
    kind: "u64-list",
    flag: "--backoff-ms",
    default: [100n, 500n, 2000n, 10_000n, 30_000n],
    reload: "restart",
    placeholder: "<ms,ms,...>",
    help: "delay before each redelivery of a nacked record, the last entry repeats; a single 0 = none",
  },
  {
    ...delivery,
    name: "checkpoint_interval",
    kind: "u64",
    flag: "--checkpoint-interval",
    default: 1024n,
    profiles: { throughput: 4096n },
    reload: "restart",
    placeholder: "<n>",
    help: "settled records between two checkpoints of a group's position",
  },
  { ...delivery, name: "max_deliver", kind: "u32", default: 5n, reload: "restart" },
  { ...delivery, name: "allow_unlimited_deliver", kind: "switch", default: false, reload: "restart" },
  {
    ...flow,
    name: "max_connections",
    kind: "u64",
    flag: "--max-connections",
    minimum: 1n,
    default: 256n,
    profiles: { "edge-tiny": 32n, throughput: 1024n },
    reload: "restart",
    placeholder: "<n>",
    help: "client connections at once",
  },
  {
    ...flow,
    name: "max_in_flight",
    kind: "u32",
    flag: "--max-in-flight",
    minimum: 1n,
    default: 1024n,
    profiles: { "edge-tiny": 256n, throughput: 8192n },
    reload: "restart",
    placeholder: "<n>",
    help: "delivered and unsettled records of one group",
  },
  {
    ...flow,
    name: "consumer_credit",
    kind: "u32",
    flag: "--consumer-credit",
    minimum: 1n,
    default: 2048n,
    profiles: { "edge-tiny": 8n, throughput: 512n },
    reload: "restart",
    placeholder: "<n>",
    help: "most unsettled records of one connection",
  },
  {
    ...flow,
    name: "consumer_credit_bytes",
    kind: "u64",
    flag: "--consumer-credit-bytes",
    default: 8_388_608n,
    profiles: { "edge-tiny": 262_144n, throughput: 67_108_864n },
    reload: "restart",
    placeholder: "<bytes>",
    help: "most unsettled bytes of one connection, 0 = unlimited",
  },
  {
    ...flow,
    name: "max_groups",
    kind: "u64",
    flag: "--max-groups",
    default: 1024n,
    profiles: { "edge-tiny": 64n, throughput: 4096n },
    reload: "restart",
    placeholder: "<n>",
    help: "groups in memory, the default one included; 0 = unlimited",
  },
  {
    ...flow,
    name: "max_streams",
    kind: "u64",
    default: 1024n,
    profiles: { "edge-tiny": 64n, throughput: 4096n },
    reload: "restart",
  },
  {
    ...flow,
    name: "max_open_streams",
    kind: "u64",
    default: 1024n,
    profiles: { "edge-tiny": 64n, throughput: 4096n },
    reload: "restart",
  },
  { ...flow, name: "group_idle_evict_ms", kind: "u64", default: 0n, reload: "restart" },
  {
    ...flow,
    name: "ram_ceiling_bytes",
    kind: "u64",
    flag: "--ram-ceiling-bytes",
    default: 0n,
    profiles: { "edge-tiny": 67_108_864n },
    reload: "restart",
    placeholder: "<bytes>",
    help: "refuses to start when the bounded buffers could need more memory than this, 0 = no check",
  },
  {
    ...flow,
    name: "max_pending_bytes",
    kind: "u64",
    default: 8_388_608n,
    profiles: { "edge-tiny": 1_048_576n, throughput: 16_777_216n },
    reload: "restart",
  },
  {
    ...delivery,
    name: "dedup_max_ids",
    kind: "u64",
    default: 100_000n,
    profiles: { "edge-tiny": 256n },
    reload: "restart",
  },
  {
    ...delivery,
    name: "dedup_max_producers",
    kind: "u64",
    default: 4096n,
    profiles: { "edge-tiny": 64n },
    reload: "restart",
  },
  {
    ...delivery,
    name: "max_prepared",
    kind: "u64",
    default: 65_536n,
    profiles: { "edge-tiny": 2n },
    reload: "restart",
  },
  { ...delivery, name: "max_prepared_bytes", kind: "u64", default: 0n, reload: "restart" },
  {
    ...network,
    name: "addr",
    kind: "text",
    flag: "--addr",
    default: "127.0.0.1:7777",
    reload: "restart",
    placeholder: "<host:port>",
    help: "address to listen on, loopback only; port 0 picks a free one",
  },
  {
    ...network,
    name: "health_addr",
    kind: "text",
    flag: "--health-addr",
    default: "",
    reload: "restart",
    placeholder: "<host:port>",
    help: "serves /healthz, /readyz and /metrics by HTTP, without authentication; off unless given",
  },
  {
    ...network,
    name: "health_allow_public",
    kind: "switch",
    flag: "--health-allow-public",
    default: false,
    reload: "restart",
    help: "lets --health-addr be other than a loopback address",
  },
  {
    ...network,
    name: "health_liveness_window_ms",
    kind: "u64",
    flag: "--health-liveness-window-ms",
    default: 10_000n,
    reload: "restart",
    placeholder: "<ms>",
    help: "/healthz fails after so long without a turn of the event loop, 0 = never",
  },
  {
    ...network,
    name: "actor_watchdog_bound_ms",
    kind: "u64",
    flag: "--actor-watchdog-bound-ms",
    default: 30_000n,
    reload: "restart",
    placeholder: "<ms>",
    help: "/healthz and /readyz fail while one write to the disk takes longer, 0 = never",
  },
  { ...network, name: "enable_admin", kind: "switch", default: false, reload: "restart" },
  {
    ...network,
    name: "drain_timeout_ms",
    kind: "u64",
    flag: "--drain-timeout-ms",
    default: 30_000n,
    reload: "restart",
    placeholder: "<ms>",
    help: "longest graceful stop after SIGINT or SIGTERM, 0 = wait for ever",
  },
  { ...durability, name: "wal_fsync_headroom_bytes", kind: "u64", default: 0n, reload: "restart" },
  { ...durability, name: "commit_gather_us", kind: "u64", default: 200n, reload: "restart" },
  { ...durability, name: "sync_max_dirty_bytes", kind: "u64", default: 16_777_216n, reload: "restart" },
  { ...storage, name: "storage_mode", kind: "text", default: "per-stream", reload: "restart" },
  { ...storage, name: "append_shards", kind: "text", default: "1", reload: "restart" },
] as const satisfies readonly Key[];

interface ValueOf {
  readonly u32: bigint;
  readonly u64: bigint;
  readonly "u64-list": readonly bigint[];
  readonly switch: boolean;
  readonly text: string;
  readonly enum: string;
}

/** The value of every key after all layers were applied. Numbers are exact u64. */
export type Settings = { readonly [K in (typeof KEYS)[number] as K["name"]]: ValueOf[K["kind"]] };
export type KeyName = keyof Settings;

/** `--max-groups` -> `IRONBUS_MAX_GROUPS` (config.md 1.2). */
export function environmentName(flag: string): string {
  return `IRONBUS_${flag.replace(/^-+/, "").toUpperCase().replaceAll("-", "_")}`;
}

/** How the command-line parser reads the key's flag; an enum's tokens are checked later, in their order. */
export function flagKind(key: Key): FlagKind {
  return key.kind === "enum" ? "text" : key.kind;
}

/** The key's value when no layer above the profile sets it. */
export function presetOf(key: Key, profile: Profile): Key["default"] {
  return key.profiles?.[profile] ?? key.default;
}
