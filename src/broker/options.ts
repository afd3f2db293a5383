/** What a broker is started with; made by `config` from flags, environment and profile. Sizes are bytes, times milliseconds. */
export interface BrokerOptions {
  readonly dataDir: string;
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly durability: Durability;
  readonly maxConnections: number;
  readonly visibilityTimeoutMs: number;
  readonly maxSegmentBytes: number;
  /** Committed records between two cursor checkpoints. */
  readonly checkpointInterval: number;
  readonly consumerCredit: number;
  /** 0 = unlimited. */
  readonly consumerCreditBytes: number;
  readonly maxInFlight: number;
  readonly maxGroups: number;
  readonly backoffMs: readonly number[];
  /** Bound of appended and not yet written record bytes, all connections together. */
  readonly maxPendingBytes: number;
  readonly drainTimeoutMs: number;
}

/** When a publish is acknowledged and when a barrier is issued (storage.md 15). */
export interface Durability {
  readonly level: "sync" | "interval" | "async" | "none";
  /** Level `interval`: barrier after this time; 0 disables the trigger. */
  readonly flushIntervalMs: number;
  /** Level `interval`: barrier after this many unsynced bytes; 0 disables the trigger. */
  readonly flushMaxBytes: number;
}
