export type Disposition = "peek" | "ack" | "nack" | "term";

/** What `sub` was asked to do. */
export interface Subscription {
  /** Empty for the default group. */
  readonly group: string;
  /** Undefined: no limit. */
  readonly max: number | undefined;
  readonly disposition: Disposition;
  /** For nack; undefined leaves the delay to the broker's back-off. */
  readonly delayMs: number | undefined;
  readonly follow: boolean;
  readonly idleTimeoutMs: number | undefined;
  readonly output: "text" | "raw";
}
