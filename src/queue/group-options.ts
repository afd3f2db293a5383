/** Times are in the caller's unit, which must be the one of every `now` and `delay` given later. */
export interface GroupOptions {
  /** How many offsets above the committed one may be handed out; at least 1. A window of offsets, not a count of leases. */
  readonly maxInFlight: number;
  /** How long a claim lasts unless extended; above 0. */
  readonly visibility: number;
  /** How long one attempt can last with all its extensions. */
  readonly hardCap: number;
  /** Delays before the second, third, ... delivery after a nack; the last one repeats; empty means no delay. */
  readonly backoff: readonly number[];
  /** Bound of separate runs settled above the committed offset; 0 = none. */
  readonly maxAckedAheadRuns: number;
  /** Generation of the first claim; 0 unless given. */
  readonly firstGeneration?: number;
}

export type ExtendOutcome = "extended" | "cap" | "fenced";

/** Delay for `Group.nack`: take it from the backoff schedule. */
export const SERVER_BACKOFF = -1;

/** No lease can be told from an older one any more; the broker must stop (`ERR_GENERATION_EXHAUSTED`, semantics.md 20.2). */
export class GenerationExhaustedError extends Error {
  readonly code = "ERR_GENERATION_EXHAUSTED";

  constructor() {
    super("lease generation space is exhausted");
    this.name = "GenerationExhaustedError";
  }
}

/** Delay before the next delivery of a record that was delivered `attempt` times, by the schedule. */
export function backoffDelay({ backoff }: Pick<GroupOptions, "backoff">, attempt: number): number {
  if (backoff.length === 0) return 0;
  return backoff[Math.min(Math.max(attempt - 1, 0), backoff.length - 1)];
}
