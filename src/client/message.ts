const decoder = new TextDecoder();

/**
 * One leased record. `payload`, `key` and `headers` are views of what one socket read brought: they stay valid, but a
 * kept view keeps all of that read in memory (up to 512 KiB). Copy what is to be kept for long.
 */
export class Message {
  readonly offset: number;
  readonly timestampMs: number;
  /** Empty when the record has none. */
  readonly key: Uint8Array;
  /** Empty when the record has none. */
  readonly headers: Uint8Array;
  readonly payload: Uint8Array;
  /** The two halves of the lease token: a bigint for each message would cost more than the message. */
  readonly generationLow: number;
  readonly generationHigh: number;

  constructor(
    offset: number,
    generationLow: number,
    generationHigh: number,
    timestampMs: number,
    key: Uint8Array,
    headers: Uint8Array,
    payload: Uint8Array,
  ) {
    this.offset = offset;
    this.generationLow = generationLow;
    this.generationHigh = generationHigh;
    this.timestampMs = timestampMs;
    this.key = key;
    this.headers = headers;
    this.payload = payload;
  }

  /** The lease token: it changes with each delivery, and only the latest one settles the record. */
  get generation(): bigint {
    return (BigInt(this.generationHigh) << 32n) | BigInt(this.generationLow);
  }

  /** The payload as UTF-8 text; invalid bytes become U+FFFD. */
  text(): string {
    return decoder.decode(this.payload);
  }
}

/** What the broker reports between deliveries (wire.md 9.3). Nothing is lost silently: whatever was passed over is named. */
export type Advisory =
  /** The record was delivered too often without being settled; it was moved to the dead letters. */
  | { readonly kind: "dead-letter"; readonly offset: number; readonly reason: number }
  /** The group's cursor fell `skipped` records behind the earliest retained one and was moved there. */
  | { readonly kind: "truncated"; readonly earliestRetained: number; readonly skipped: number }
  /** Offsets [from, to) cannot be delivered. Reason 1 retention, 2 compaction, 3 subject filter, 200 lost to damage; keep unknown ones. */
  | {
      readonly kind: "gap";
      readonly from: number;
      readonly to: number;
      readonly bytesSkipped: number;
      readonly reason: number;
    };

/** One answer to a fetch: messages in log order, and what was reported among them. */
export interface Batch {
  readonly messages: Message[];
  readonly advisories: Advisory[];
}

/**
 * What became of settling one message: `done`; `fenced` when it is not leased to this connection under that token
 * any more; `capped` when an extension has reached the hard limit and the lease will run out on schedule.
 */
export type Settlement = "done" | "fenced" | "capped";

/** What became of settling many: counts, and which ones (positions in the input) were not done. */
export interface Settlements {
  readonly done: number;
  readonly fenced: readonly number[];
  readonly capped: readonly number[];
}
