/** A half-open interval of offsets `[start, end)`. */
export interface OffsetRun {
  readonly start: number;
  readonly end: number;
}

/** What a cursor checkpoint holds: every offset below `committed` is settled, and so is every offset inside a run. */
export interface CursorSnapshot {
  readonly committed: number;
  /** Ascending, disjoint, not adjacent, each with `start > committed`. */
  readonly runs: readonly OffsetRun[];
}

/** Deliveries counted so far for an offset that is not settled (semantics.md 9). */
export interface AttemptCount {
  readonly offset: number;
  readonly deliveries: number;
}

/** What fits into a cursor slot and into an attempts slot (semantics.md 9). */
export const MAX_PERSISTED_RUNS = 3;
export const MAX_PERSISTED_ATTEMPTS = 2729;

/**
 * How far above the committed offset a resumed group remembers delivery counts. A checkpoint comes from disk, and its
 * numbers must not decide how much memory is taken; what lies beyond begins to count anew.
 */
export const RESUME_HORIZON = 2 ** 20;

/**
 * Makes a stored snapshot safe to resume from (semantics.md 9): `committed` is clamped to `head`, and only runs that lie
 * above it and end at or below `head` are kept.
 *
 * @param head offset of the next record; nothing at or above it can have been settled
 */
export function clampSnapshot(snapshot: CursorSnapshot, head: number): CursorSnapshot {
  const committed = Math.min(snapshot.committed, head);
  const runs = snapshot.runs.filter(({ start, end }) => start > committed && end > start && end <= head);
  return { committed, runs };
}
