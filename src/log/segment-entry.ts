import type { File } from "../runtime/file-system.ts";
import { SEGMENT_HEADER_LENGTH } from "./segment.ts";
import type { Hole } from "./segment-chain.ts";

/** Anchors are at least this far apart, which is a quarter of what one read brings. */
const ANCHOR_SPACING_BYTES = 64 * 1024;
/** Above this every second one goes and the distance doubles: a segment of any size costs 16 KiB at most. */
const MAX_ANCHORS = 1024;
/**
 * Sealed segments whose anchors are kept: the newest, and as many that are being read. So the whole index of a log of any
 * size costs some 0.5 MiB at most; a segment that is read again after a while gets its anchors anew.
 */
export const INDEXED_SEGMENTS = 16;

/** One segment of a log as the running broker knows it: its place in the log, and a sparse index into its file. */
export class SegmentEntry {
  readonly id: number;
  readonly path: string;
  readonly baseOffset: number;
  readonly baseSequence: number;
  /** Wall clock at its creation; 0 when it is not known. Data for retention, never an order (storage.md I6). */
  createdUnixMs: number;
  /** Records appended to it (sealed into a batch at least). */
  count: number;
  /** File position after the last appended record. */
  end: number;
  /** File position up to which readers may go: behind `end` by what is not written, or not synced, yet. */
  visibleEnd: number;
  sealed: boolean;
  /** The first bytes of its file, from when the segment is planned until the file is made. */
  header: Uint8Array | undefined;
  /** Open while in use: always for the active segment, on demand for sealed ones. */
  file: File | undefined;
  /** Its name is gone: what is left of it is `file`, until the log forgets it. */
  unlinked: boolean;
  /** Where its records are lost, in order; replaced when more damage is found. */
  holes: readonly Hole[];
  readonly #anchorOffsets: number[];
  readonly #anchorPositions: number[];
  #anchorSpacing = ANCHOR_SPACING_BYTES;

  constructor(id: number, path: string, baseOffset: number, baseSequence: number, firstPosition: number) {
    this.id = id;
    this.path = path;
    this.baseOffset = baseOffset;
    this.baseSequence = baseSequence;
    this.createdUnixMs = 0;
    this.count = 0;
    this.end = firstPosition;
    this.visibleEnd = firstPosition;
    this.sealed = false;
    this.header = undefined;
    this.file = undefined;
    this.unlinked = false;
    this.holes = [];
    this.#anchorOffsets = [baseOffset];
    this.#anchorPositions = [firstPosition];
  }

  /** First offset after this segment's records. */
  get endOffset(): number {
    return this.baseOffset + this.count;
  }

  /** Notes that the record `offset` starts at `position`, unless an anchor is near. Calls may come in any order. */
  addAnchor(offset: number, position: number): void {
    const last = this.#anchorOffsets.length - 1;
    if (offset > this.#anchorOffsets[last]) {
      // Where the writer comes, and most readers.
      if (position - this.#anchorPositions[last] < this.#anchorSpacing) return;
      this.#anchorOffsets.push(offset);
      this.#anchorPositions.push(position);
    } else {
      const at = this.#anchorBefore(offset) + 1;
      if (position - this.#anchorPositions[at - 1] < this.#anchorSpacing) return;
      if (at < this.#anchorPositions.length && this.#anchorPositions[at] - position < this.#anchorSpacing) return;
      this.#anchorOffsets.splice(at, 0, offset);
      this.#anchorPositions.splice(at, 0, position);
    }
    if (this.#anchorOffsets.length > MAX_ANCHORS) this.#thinAnchors();
  }

  /** Places in the file that are known. */
  get anchorCount(): number {
    return this.#anchorOffsets.length;
  }

  /** Forgets all places but that of the first record. */
  forgetAnchors(): void {
    this.#anchorOffsets.length = 1;
    this.#anchorPositions.length = 1;
    this.#anchorSpacing = ANCHOR_SPACING_BYTES;
  }

  /** Forgets the records behind the first `count`, which end at `end`: they were never written. */
  rewind(count: number, end: number): void {
    this.count = count;
    this.end = end;
    let anchors = this.#anchorPositions.length;
    while (anchors > 1 && this.#anchorPositions[anchors - 1] >= end) anchors -= 1;
    this.#anchorOffsets.length = anchors;
    this.#anchorPositions.length = anchors;
  }

  /** The closest known record at or before `offset` (which must lie in the segment): [its offset, its position]. */
  anchor(offset: number): readonly [offset: number, position: number] {
    const at = this.#anchorBefore(offset);
    return [this.#anchorOffsets[at], this.#anchorPositions[at]];
  }

  #thinAnchors(): void {
    this.#anchorSpacing *= 2;
    let kept = 0;
    for (let at = 0; at < this.#anchorOffsets.length; at += 2) {
      this.#anchorOffsets[kept] = this.#anchorOffsets[at];
      this.#anchorPositions[kept] = this.#anchorPositions[at];
      kept += 1;
    }
    this.#anchorOffsets.length = kept;
    this.#anchorPositions.length = kept;
  }

  #anchorBefore(offset: number): number {
    let low = 0;
    let high = this.#anchorOffsets.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#anchorOffsets[middle] <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** Record region (config.md 13): what lies between header and footer. */
export function recordBytesOf(segments: readonly SegmentEntry[]): number {
  return segments.reduce((sum, segment) => sum + segment.end - SEGMENT_HEADER_LENGTH, 0);
}
