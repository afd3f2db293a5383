import type { OffsetRun } from "./cursor.ts";

/** What {@link OffsetRuns.after} answers when there is none: no offset reaches it. */
export const NO_RUN: OffsetRun = { start: Number.POSITIVE_INFINITY, end: Number.POSITIVE_INFINITY };

/**
 * A few intervals of offsets, ascending, disjoint and not adjacent, of any length each. Finding one costs a comparison
 * while there is none.
 */
export class OffsetRuns {
  #runs: OffsetRun[] = [];

  get all(): readonly OffsetRun[] {
    return this.#runs;
  }

  get isEmpty(): boolean {
    return this.#runs.length === 0;
  }

  /** Adds [start, end), `start < end`, and joins what it touches. */
  add(start: number, end: number): void {
    const runs = this.#runs;
    let first = runs.length;
    while (first > 0 && runs[first - 1].end >= start) first--;
    let last = first;
    let joined: OffsetRun = { start, end };
    for (; last < runs.length && runs[last].start <= end; last++) {
      joined = { start: Math.min(joined.start, runs[last].start), end: Math.max(joined.end, runs[last].end) };
    }
    runs.splice(first, last - first, joined);
  }

  /** The lowest run that ends above `offset`, or {@link NO_RUN}. */
  after(offset: number): OffsetRun {
    if (this.#runs.length === 0) return NO_RUN;
    for (const run of this.#runs) if (run.end > offset) return run;
    return NO_RUN;
  }

  /** Forgets the runs that end at or below `offset`. */
  dropBelow(offset: number): void {
    if (this.#runs.length > 0 && this.#runs[0].end <= offset) this.#runs = this.#runs.filter(({ end }) => end > offset);
  }
}

/** The lowest `limit` runs of the union of two ascending lists, each disjoint in itself. */
export function lowestRunsOf(a: readonly OffsetRun[], b: readonly OffsetRun[], limit: number): OffsetRun[] {
  const union: OffsetRun[] = [];
  for (const run of [...a, ...b].sort((left, right) => left.start - right.start)) {
    const last = union.length - 1;
    if (last >= 0 && run.start <= union[last].end) {
      union[last] = { start: union[last].start, end: Math.max(union[last].end, run.end) };
    } else {
      union.push({ start: run.start, end: run.end });
    }
  }
  return union.slice(0, limit);
}

/**
 * The part of [start, end) from the first to the last offset that is neither in `settled` nor acked; undefined when there is
 * none.
 */
export function unsettledPart(
  start: number,
  end: number,
  settled: OffsetRuns,
  isAcked: (offset: number) => boolean,
): OffsetRun | undefined {
  let from = start;
  for (let known = settled.after(from); from < end; known = settled.after(from)) {
    if (from >= known.start) from = known.end;
    else if (isAcked(from)) from++;
    else break;
  }
  if (from >= end) return undefined;
  let to = end;
  for (let known = settled.after(to - 1); ; known = settled.after(to - 1)) {
    if (to > known.start) to = known.start;
    else if (isAcked(to - 1)) to--;
    else return { start: from, end: to };
  }
}
