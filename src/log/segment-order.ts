import type { FoundSegment } from "./found-segment.ts";

export interface OrderedSegment extends FoundSegment {
  /** Undefined when nothing of the file says it: then its place is behind the one with the next lower id. */
  readonly baseOffset: number | undefined;
}

export interface SegmentOrder {
  readonly ordered: readonly OrderedSegment[];
  /** Files under another segment's name. */
  readonly misnamed: readonly FoundSegment[];
  /** Of two files that say they are the same segment, the ones that are left alone. */
  readonly doubles: readonly FoundSegment[];
}

/**
 * The order of the log: by offset. A file that says what it is, is that, whatever its name; of two that say the same it is
 * the one whose name agrees, else the one with the lower name. The same files give the same order.
 */
export function orderSegments(found: readonly FoundSegment[]): SegmentOrder {
  const known = new Map<number, FoundSegment>();
  const doubles: FoundSegment[] = [];
  for (const segment of found) {
    if (segment.header === undefined) continue;
    const same = known.get(segment.id);
    const wins = same === undefined || segment.nameId === segment.id;
    if (same !== undefined) doubles.push(wins ? same : segment);
    if (wins) known.set(segment.id, segment);
  }
  const remaining = found.filter((segment) => !doubles.includes(segment));
  const placed: OrderedSegment[] = [];
  const placeless: OrderedSegment[] = [];
  for (const segment of remaining) {
    const { header, baseSequence } = segment;
    if (header !== undefined) placed.push({ ...segment, baseOffset: header.baseOffset });
    else if (baseSequence === undefined) placeless.push({ ...segment, baseOffset: undefined });
    else placed.push({ ...segment, baseOffset: baseSequence + shiftNear(known, segment.id) });
  }
  placed.sort((a, b) => (a.baseOffset as number) - (b.baseOffset as number) || a.id - b.id);
  for (const segment of placeless) {
    const at = placed.findIndex(({ id }) => id > segment.id);
    placed.splice(at < 0 ? placed.length : at, 0, segment);
  }
  return { ordered: placed, misnamed: remaining.filter(({ id, nameId }) => id !== nameId), doubles };
}

/** By how much offsets are ahead of sequences in the nearest segment that says so; they are equal in most logs. */
function shiftNear(known: ReadonlyMap<number, FoundSegment>, id: number): number {
  let nearest: FoundSegment | undefined;
  for (const each of known.values()) {
    if (nearest === undefined || Math.abs(each.id - id) < Math.abs(nearest.id - id)) nearest = each;
  }
  const header = nearest?.header;
  return header === undefined ? 0 : header.baseOffset - header.baseSequence;
}
