/** Bounds of one connection (wire.md 6.1). Times are milliseconds, sizes bytes. */
export interface ConnectionLimits {
  /** Without a received byte for this long the connection is closed, unless publishes of it are unsettled. */
  readonly idleTimeoutMs: number;
  /** Output that makes no progress for this long closes the connection. */
  readonly writeTimeoutMs: number;
  /** How long a connection that is being closed may take to send its FIN. */
  readonly lingerMs: number;
}

export const DEFAULT_CONNECTION_LIMITS: ConnectionLimits = {
  idleTimeoutMs: 30_000,
  writeTimeoutMs: 30_000,
  lingerMs: 2_000,
};

/**
 * Publishes of one connection that may be unsettled. Upstream stops at 1,024 because it keeps a reply slot for each; here
 * they are runs of offsets, so the bound can be as wide as a client's window (docs/decisions).
 */
export const MAX_UNSETTLED_PUBLISHES = 65_536;
/** Rows of the shared publish table, and so of one append. */
export const PUBLISH_TABLE_ROWS = 4096;
/** The shared output buffer: what one connection writes in one go. */
export const OUTPUT_BUFFER_BYTES = 256 * 1024;
