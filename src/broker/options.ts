import type { Durability } from "../log/durability.ts";

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
