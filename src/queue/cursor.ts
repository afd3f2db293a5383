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
 * How far above the committed offset a resumed group remembers acked-ahead runs and delivery counts. A checkpoint comes
 * from disk, and its numbers must not decide how much memory is taken; what lies beyond is delivered once more.
 */
export const RESUME_HORIZON = 2 ** 20;

/**
 * Makes a stored snapshot safe to resume from (semantics.md 9): `committed` is clamped to `head`, and only runs that lie
 * above it, end at or below `head` and within {@link RESUME_HORIZON} (cut there) are kept.
 *
 * @param head offset of the next record; nothing at or above it can have been settled
 */
export function clampSnapshot(snapshot: CursorSnapshot, head: number): CursorSnapshot {
  const committed = Math.min(snapshot.committed, head);
  const horizon = committed + RESUME_HORIZON;
  const runs: OffsetRun[] = [];
  for (const run of snapshot.runs) {
    if (run.start > committed && run.end > run.start && run.end <= head && run.start < horizon) {
      runs.push({ start: run.start, end: Math.min(run.end, horizon) });
    }
  }
  return { committed, runs };
}
