/** Where an unpinned window starts and what it never falls below. */
export const CREDIT_FLOOR = 64;
/** What a window gains when its consumer keeps up. */
export const CREDIT_STEP = 64;

/**
 * How many leases one connection may hold, between a floor and its negotiated credit (semantics.md 10.2): it grows when the
 * consumer keeps up and is halved when it gives work back. A ceiling of 64 or less pins it.
 */
export class CreditWindow {
  readonly #ceiling: number;
  readonly #floor: number;
  #size: number;

  /** @param ceiling the negotiated message credit, at least 1 */
  constructor(ceiling: number) {
    if (!(ceiling >= 1)) throw new RangeError("message credit must be at least 1");
    this.#ceiling = ceiling;
    this.#floor = Math.min(CREDIT_FLOOR, ceiling);
    this.#size = this.#floor;
  }

  get size(): number {
    return this.#size;
  }

  /** How many more leases a connection holding `held` may take. */
  remaining(held: number): number {
    return Math.max(0, this.#size - held);
  }

  /**
   * To be called after each batch. The consumer keeps up when it asked for at least what remained, something did remain, and
   * every granted credit became a delivery.
   *
   * @param requested what the consumer asked for
   * @param remaining what {@link remaining} said before the batch
   * @param granted the credits the batch could use, at most `min(requested, remaining)`
   * @param delivered the records it delivered
   */
  afterBatch(requested: number, remaining: number, granted: number, delivered: number): void {
    if (remaining > 0 && requested >= remaining && delivered === granted) {
      this.#size = Math.min(this.#ceiling, this.#size + CREDIT_STEP);
    }
  }

  /** To be called after each nack that requeued a record. */
  backOff(): void {
    this.#size = Math.max(this.#floor, Math.floor(this.#size / 2));
  }
}

/**
 * Message credit of a connection (wire.md 4.3): a request can only lower the server's cap.
 *
 * @param requested what Connect asked for; undefined or 0 = the cap
 * @param cap `--consumer-credit`; 0 counts as 1
 */
export function negotiateCredit(requested: number | undefined, cap: number): number {
  const limit = Math.max(1, cap);
  return requested ? Math.min(requested, limit) : limit;
}

/**
 * Byte budget of a connection (wire.md 4.3); 0 means unlimited everywhere.
 *
 * @param requested what Connect asked for; undefined or 0 = the cap
 * @param cap `--consumer-credit-bytes`
 */
export function negotiateByteBudget(requested: number | undefined, cap: number): number {
  if (!requested) return cap;
  return cap === 0 ? requested : Math.min(requested, cap);
}
