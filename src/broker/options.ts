import type { Durability } from "../log/durability.ts";
import type { RetentionBounds } from "../log/retention.ts";

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
  /** `memory`: nothing survives the process; `dataDir` means nothing then. */
  readonly storage: "disk" | "memory";
  readonly ioMode: "buffered" | "direct" | "auto";
  /** How payloads of 64 bytes and more are stored. */
  readonly compression: "none" | "lz4" | "zstd";
  /** Of compression zstd, 1 to 19; default 3. */
  readonly zstdLevel?: number;
  /** An installed dictionary for compression zstd; default none, which is 0. */
  readonly zstdDictionaryId?: number;
  /** `strict`: damage anywhere but at the log's end refuses to open (storage.md 18); `salvage`: README ruling 1. */
  readonly recovery: "salvage" | "strict";
  /** Every record is read and checked at start, not only those of the last segment. */
  readonly fullScan: boolean;
  /** Cap of the record region of all segments, 0 = unlimited (config.md 13). */
  readonly maxTotalBytes: number;
  readonly diskFullPolicy: "drop-new" | "drop-oldest";
  /** 0 = no check (config.md 13). */
  readonly minFreeBytes: number;
  /** 0 = no budget (config.md 14.2). */
  readonly dailyWriteBudgetBytes: number;
  readonly retention: RetentionBounds;
}
