import type { Gap } from "./gap.ts";
import type { Hole } from "./segment-chain.ts";

/** A segment as far as its offsets go. */
export interface OffsetRange {
  readonly baseOffset: number;
  /** Exclusive. */
  readonly endOffset: number;
  readonly holes: readonly Hole[];
}

/**
 * The gaps between the first segment's begin and `nextOffset`: holes, what lies between two segments, and what lies
 * behind the last. Sorted, disjoint, not touching; at most `most` of them, the first ones.
 */
export function gapsOf(segments: Iterable<OffsetRange>, nextOffset: number, most = Number.POSITIVE_INFINITY): Gap[] {
  const gaps: { start: number; end: number }[] = [];
  const add = (start: number, end: number): void => {
    const last = gaps.at(-1);
    if (end <= start) return;
    if (last !== undefined && last.end === start) last.end = end;
    else if (gaps.length < most) gaps.push({ start, end });
  };
  let head: number | undefined;
  for (const segment of segments) {
    if (head !== undefined) add(head, segment.baseOffset);
    for (const hole of segment.holes) add(hole.start, hole.end);
    head = segment.endOffset;
  }
  if (head !== undefined) add(head, nextOffset);
  return gaps;
}

/**
 * The whole gap around `offset`, undefined when its record is not lost. `segments` in order; `nextOffset` is where the
 * log goes on behind them.
 */
export function gapAround(segments: readonly OffsetRange[], offset: number, nextOffset: number): Gap | undefined {
  const loss = lossAt(segments, offset, nextOffset);
  if (loss === undefined) return undefined;
  let gap = { start: loss.start, end: loss.end };
  for (;;) {
    const before = lossAt(segments, gap.start - 1, nextOffset);
    const behind = lossAt(segments, gap.end, nextOffset);
    if (before === undefined && behind === undefined) return gap;
    gap = { start: before?.start ?? gap.start, end: behind?.end ?? gap.end };
  }
}

/** The hole, or the space between two segments, that `offset` lies in. */
function lossAt(segments: readonly OffsetRange[], offset: number, nextOffset: number): Gap | undefined {
  const at = segmentBefore(segments, offset);
  if (at < 0 || offset >= nextOffset) return undefined;
  const { endOffset, holes } = segments[at];
  if (offset < endOffset) return holeAt(holes, offset);
  return { start: endOffset, end: segments[at + 1]?.baseOffset ?? nextOffset };
}

/** Index of the last segment that begins at or before `offset`, -1 when none does. */
export function segmentBefore(segments: readonly { readonly baseOffset: number }[], offset: number): number {
  let low = -1;
  let high = segments.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (segments[middle].baseOffset <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The hole that `offset` lies in, of a list in order. */
export function holeAt(holes: readonly Hole[], offset: number): Hole | undefined {
  const hole = holes[holeBehind(holes, offset)];
  return hole !== undefined && hole.start <= offset ? hole : undefined;
}

/** Index of the first hole that ends behind `offset`; the list's length when there is none. */
export function holeBehind(holes: readonly Hole[], offset: number): number {
  let low = 0;
  let high = holes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holes[middle].end > offset) high = middle;
    else low = middle + 1;
  }
  return low;
}
