import type { Codec } from "../runtime/codec.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { findSegment, isReadError } from "./found-segment.ts";
import { FrameScanner } from "./frame-scanner.ts";
import { inspectLastSegment } from "./last-segment.ts";
import type { LossEvent } from "./loss-report.ts";
import { PatchyFile } from "./patchy-file.ts";
import { MIN_FRAME_LENGTH } from "./record.ts";
import { type LostSpan, Salvage } from "./salvage.ts";
import { SEGMENT_FOOTER_LENGTH, SEGMENT_HEADER_LENGTH, type SegmentHeader } from "./segment.ts";
import {
  type Hole,
  type ListedFile,
  listSegments,
  refuseOffloaded,
  type SegmentInfo,
  takeUnborn,
} from "./segment-chain.ts";
import { type OrderedSegment, orderSegments } from "./segment-order.ts";
import { lastNonZero, plausibleFooter } from "./segment-walk.ts";
import { highestCommitted, mayHaveSettled } from "./settled.ts";
import { StorageError } from "./storage-error.ts";
import { mayBeTorn } from "./torn-end.ts";

/** A loss, and the file that its span lies in. */
export interface Damage {
  readonly event: LossEvent;
  readonly path: string;
}

/** What there is of a log whose directory may be damaged in any way. */
export interface Survey {
  /** Ascending by offset, none overlapping another. */
  readonly segments: readonly SegmentInfo[];
  readonly damages: readonly Damage[];
  /** Events of the last segment that a power cut may have left where no barrier was completed. */
  readonly torn: ReadonlySet<LossEvent>;
  readonly nextSegmentId: number;
  readonly nextOffset: number;
  readonly nextSequence: number;
  readonly removals: readonly string[];
  /** Files that are named as segments and cannot be any. */
  readonly foreign: readonly string[];
  readonly cut: { readonly path: string; readonly length: number } | undefined;
  /** The last segment may be appended to, once it is cut. */
  readonly resumable: boolean;
}

const NOTHING_LOST = { start: 0, end: 0, recordsLostEstimate: 0 } as const;

/** Where a log stands between two segments. */
interface Head {
  readonly offset: number;
  readonly sequence: number;
}

interface PlacedSegment extends OrderedSegment {
  readonly baseOffset: number;
  readonly baseSequence: number;
}

/**
 * Finds the place of every segment and of every record that can be told from damage (README ruling 1; how, is in
 * docs/decisions/0020 and 0022). With `fullScan` every body is read, otherwise that of a sealed segment is believed to
 * be what its footer says. Changes nothing. Throws StorageError only for what this build has no means to read or to go on behind, and
 * FileSystemError when the directory or a file cannot be opened.
 */
export function surveyLog(files: FileSystem, codec: Codec, root: string, fullScan: boolean): Survey {
  refuseOffloaded(files, root);
  const names = files.list(root);
  const foreign: string[] = [];
  const listed = listSegments(files, root, names, (file) => {
    const isForeign = Number.isNaN(file.id) || findSegment(files, codec, file).header === undefined;
    if (isForeign) foreign.push(file.path);
    return isForeign;
  });
  const highestName = listed.at(-1)?.id ?? -1;
  const unborn = unbornOf(files, codec, listed, () => mayHaveSettled(files, codec, root));
  const found = listed.map((each) => findSegment(files, codec, each));
  const highestId = found.reduce((highest, { id, nameId }) => Math.max(highest, id, nameId), -1);
  if (highestId >= Number.MAX_SAFE_INTEGER) {
    throw new StorageError("OutOfRange", `${root} has a segment ${highestId}, behind which there are no more ids`);
  }
  const { ordered, misnamed, doubles } = orderSegments(found);

  const surveyor = new Surveyor(files, codec, fullScan, highestId);
  const reason = "CorruptSegmentHeader";
  if (unborn !== undefined) surveyor.report(unborn.path, { segmentId: unborn.id, ...NOTHING_LOST, reason });
  for (const { nameId, path } of [...misnamed, ...doubles]) {
    surveyor.report(path, { segmentId: nameId, ...NOTHING_LOST, reason });
  }
  if (ordered.length > 0 && ordered[0].baseOffset === undefined) surveyor.head = firstHead(files, codec, root, ordered);
  for (let index = 0; index < ordered.length; index++) surveyor.visit(ordered, index);
  const { segments, damages, torn, cut, resumable, head } = surveyor;
  return {
    segments,
    damages,
    torn,
    nextSegmentId: unborn !== undefined && unborn.id > highestId ? unborn.id : Math.max(highestName, highestId) + 1,
    nextOffset: head?.offset ?? 0,
    nextSequence: head?.sequence ?? 0,
    removals: unborn === undefined ? [] : [unborn.path],
    foreign,
    cut,
    resumable,
  };
}

/** See takeUnborn(); a file that cannot be read to its end is not known to be empty. */
function unbornOf(
  files: FileSystem,
  codec: Codec,
  listed: ListedFile[],
  mayHaveHadRecords: () => boolean,
): { id: number; path: string } | undefined {
  try {
    return takeUnborn(files, codec, listed, mayHaveHadRecords);
  } catch (error) {
    if (isReadError(error)) return undefined;
    throw error;
  }
}

/**
 * Where a log goes on of which no file says where it is: at the start, unless a later segment is known (then what is
 * before it is below the log's begin) or a group has settled more than that. An offset must not be used again.
 */
function firstHead(
  files: FileSystem,
  codec: Codec,
  root: string,
  ordered: readonly OrderedSegment[],
): Head | undefined {
  if (ordered.some(({ baseOffset }) => baseOffset !== undefined)) return undefined;
  const settled = highestCommitted(files, codec, root);
  return { offset: settled, sequence: settled };
}

/** Goes through the segments in order and keeps where the log stands. */
class Surveyor {
  readonly segments: SegmentInfo[] = [];
  readonly damages: Damage[] = [];
  readonly torn = new Set<LossEvent>();
  cut: Survey["cut"];
  resumable = false;
  /** Behind the segments so far; undefined before the first. */
  head: Head | undefined;
  readonly #files: FileSystem;
  readonly #codec: Codec;
  readonly #fullScan: boolean;
  readonly #highestId: number;
  /** One for all segments: its memory is touched once. */
  readonly #scanner: FrameScanner;

  constructor(files: FileSystem, codec: Codec, fullScan: boolean, highestId: number) {
    this.#files = files;
    this.#codec = codec;
    this.#fullScan = fullScan;
    this.#highestId = highestId;
    this.#scanner = new FrameScanner(codec);
  }

  report(path: string, event: LossEvent): void {
    this.damages.push({ path, event });
  }

  visit(ordered: readonly OrderedSegment[], index: number): void {
    const segment = ordered[index];
    const following = ordered.slice(index + 1).find(({ baseOffset }) => baseOffset !== undefined);
    const placed = this.#place(segment);
    if (placed === undefined) {
      const overlaps = !segment.unreadable && segment.baseOffset !== undefined;
      this.#giveUp(segment, following, overlaps);
      return;
    }
    const { id, path, baseOffset } = placed;
    const missing = this.head === undefined ? 0 : baseOffset - this.head.offset;
    if (missing > 0) {
      const previous = this.segments.at(-1)?.id ?? id;
      const segmentId = Math.min(previous + 1, id);
      this.report(path, { segmentId, start: 0, end: 0, recordsLostEstimate: missing, reason: "SequenceGap" });
      this.head = { offset: baseOffset, sequence: placed.baseSequence };
    }
    const file = this.#files.open(path, "read");
    try {
      if (index === ordered.length - 1) this.#last(placed, new PatchyFile(file));
      else this.#inner(placed, new PatchyFile(file), following);
    } finally {
      file.close();
    }
  }

  /** The segment with its place, if it has one that no earlier segment has taken. */
  #place(segment: OrderedSegment): PlacedSegment | undefined {
    if (segment.unreadable) return undefined;
    const { head } = this;
    const { baseOffset, baseSequence } = segment;
    if (baseOffset !== undefined && baseSequence !== undefined) {
      return head !== undefined && baseOffset < head.offset ? undefined : { ...segment, baseOffset, baseSequence };
    }
    const previous = this.segments.at(-1);
    if (head === undefined || (previous !== undefined && previous.id !== segment.id - 1)) return undefined;
    return { ...segment, baseOffset: head.offset, baseSequence: head.sequence };
  }

  /**
   * Nothing of the segment can be served. Its offsets are not used again: they end where the next segment begins, or are
   * as many as the file could hold. With `overlaps` an earlier segment has them.
   */
  #giveUp(segment: OrderedSegment, following: OrderedSegment | undefined, overlaps: boolean): void {
    const { id, path, size } = segment;
    const { head } = this;
    let recordsLostEstimate = 1;
    if (head !== undefined && !overlaps) {
      const most = Math.floor(Math.max(0, size - SEGMENT_HEADER_LENGTH) / MIN_FRAME_LENGTH);
      const offset = following?.baseOffset ?? head.offset + most;
      if (following?.id === id + 1) recordsLostEstimate = Math.max(0, offset - head.offset);
      this.head = {
        offset: Math.max(offset, head.offset),
        sequence: head.sequence + Math.max(0, offset - head.offset),
      };
    }
    this.report(path, { segmentId: id, start: 0, end: size, recordsLostEstimate, reason: "CorruptSegmentHeader" });
  }

  /** A segment that another one follows: its end is where its footer is, or where the next one begins. */
  #inner(segment: PlacedSegment, file: PatchyFile, following: OrderedSegment | undefined): void {
    const { id, size, baseOffset, baseSequence } = segment;
    const header = headerOf(segment);
    const from = { position: SEGMENT_HEADER_LENGTH, sequence: baseSequence };
    const footer = plausibleFooter(this.#codec, file, header, size);
    if (footer !== undefined) {
      const end = { position: size - SEGMENT_FOOTER_LENGTH, sequence: baseSequence + footer.recordCount };
      const lost = this.#fullScan ? new Salvage(this.#codec, file, this.#scanner).between(from, end) : [];
      this.#add(segment, lost, footer.recordCount, end.position, true);
      return;
    }
    const writtenEnd = lastNonZero(file, SEGMENT_HEADER_LENGTH, size);
    const endSequence =
      following?.id === id + 1 && following.baseOffset !== undefined && following.baseOffset >= baseOffset
        ? following.baseOffset - baseOffset + baseSequence
        : undefined;
    const { lost, end } = new Salvage(this.#codec, file, this.#scanner).towards(from, size, writtenEnd, endSequence);
    if (segment.header === undefined && end.position === SEGMENT_HEADER_LENGTH) {
      this.#giveUp(segment, following, false);
      return;
    }
    const restEnd = Math.max(writtenEnd, end.position);
    const rest = { segmentId: id, start: end.position, end: restEnd };
    if (endSequence !== undefined && end.sequence < endSequence) {
      const hole: LostSpan = {
        start: end,
        end: { position: restEnd, sequence: endSequence },
        reason: restEnd > end.position ? "CorruptRecordBody" : "SequenceGap",
      };
      this.#add(segment, [...lost, hole], endSequence - baseSequence, restEnd, false);
      return;
    }
    this.#add(segment, lost, end.sequence - baseSequence, end.position, false);
    if (restEnd > end.position) {
      // With the end known it is what is left of a footer.
      const recordsLostEstimate = endSequence === undefined ? 1 : 0;
      this.report(segment.path, { ...rest, recordsLostEstimate, reason: "CorruptRecordHeader" });
    }
  }

  #last(segment: PlacedSegment, file: PatchyFile): void {
    const { id, nameId, path, size } = segment;
    const last = inspectLastSegment(this.#codec, this.#scanner, file, headerOf(segment), size);
    const { lost, tail, sealed, endPosition, keepLength } = last;
    const intactFile = segment.header !== undefined && nameId === id && id === this.#highestId && file.failures === 0;
    const earlier = this.damages.length;
    this.#add(segment, lost, last.recordCount, endPosition, sealed);
    if (tail !== undefined) this.report(path, tail);
    if (intactFile) {
      for (const { event } of this.damages.slice(earlier)) {
        if (mayBeTorn(this.#codec, file, event, size)) this.torn.add(event);
      }
    }
    if (file.failures > 0) {
      // What could not be read now may be read another time: its offsets stay its own.
      this.#goOnAt(segment, last.recordCount + Math.floor((size - endPosition) / MIN_FRAME_LENGTH));
    }
    if (!intactFile || lost.length > 0) return;
    this.resumable = !sealed;
    if (keepLength < size) this.cut = { path, length: keepLength };
  }

  #add(
    segment: PlacedSegment,
    lost: readonly LostSpan[],
    recordCount: number,
    endPosition: number,
    sealed: boolean,
  ): void {
    const { id, path, baseOffset, baseSequence } = segment;
    if (segment.header === undefined) {
      const span = { start: 0, end: SEGMENT_HEADER_LENGTH, recordsLostEstimate: 0 };
      this.report(path, { segmentId: id, ...span, reason: "CorruptSegmentHeader" });
    }
    this.#goOnAt(segment, recordCount);
    const shift = baseOffset - baseSequence;
    const holes = lost.map((span) => holeOf(span, shift));
    for (const span of lost) this.report(path, lossOf(span, id));
    const createdUnixMs = segment.header === undefined ? undefined : Number(segment.header.createdUnixMs);
    this.segments.push({ id, path, baseOffset, baseSequence, createdUnixMs, recordCount, endPosition, sealed, holes });
  }

  #goOnAt({ baseOffset, baseSequence }: PlacedSegment, recordCount: number): void {
    this.head = { offset: baseOffset + recordCount, sequence: baseSequence + recordCount };
  }
}

/** The hole of a span, `shift` being by how much offsets are ahead of sequences. */
export function holeOf({ start, end }: LostSpan, shift: number): Hole {
  return {
    start: start.sequence + shift,
    end: end.sequence + shift,
    startPosition: start.position,
    endPosition: end.position,
  };
}

/** The event of a span. */
export function lossOf({ start, end, reason }: LostSpan, segmentId: number): LossEvent {
  const recordsLostEstimate = end.sequence - start.sequence;
  return { segmentId, start: start.position, end: end.position, recordsLostEstimate, reason };
}

function headerOf(segment: PlacedSegment): SegmentHeader {
  const { id, baseOffset, baseSequence } = segment;
  const made = { flags: 0, segmentId: id, baseOffset, baseSequence, createdUnixMs: 0n, aeadSuite: 0, keyId: 0n };
  return segment.header ?? made;
}
