import { type Codec, FIELDS, ScanStop } from "../runtime/codec.ts";
import { type File, type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import type { ReadableFile } from "./byte-window.ts";
import { isReadError } from "./found-segment.ts";
import { holeAt, holeBehind, segmentBefore } from "./gap-list.ts";
import { holeOf } from "./log-survey.ts";
import { PatchyFile } from "./patchy-file.ts";
import { type LostSpan, Salvage } from "./salvage.ts";
import { SEGMENT_HEADER_LENGTH } from "./segment.ts";
import { INDEXED_SEGMENTS, type SegmentEntry } from "./segment-entry.ts";
import type { TailCache } from "./tail-cache.ts";

const WINDOW_BYTES = 256 * 1024;
const WINDOW_RECORDS = 2048;
/** Groups that read at different places each keep their window; more places than this take turns. */
const WINDOWS = 4;

/** A record that cannot be handed out: its bytes are not what was written. */
export class LogReadError extends Error {
  override readonly name = "LogReadError";
  readonly offset: number;
  readonly stop: ScanStop;

  constructor(offset: number, stop: ScanStop, path: string) {
    super(`no intact record at offset ${offset} in ${path} (scan stop ${stop})`);
    this.offset = offset;
    this.stop = stop;
  }
}

/** A run of consecutive records in memory: stored frames, checked, and one table row each (`runtime/codec.ts`). */
export interface Window {
  buffer: Uint8Array;
  readonly rows: Int32Array;
  firstOffset: number;
  count: number;
  /** Segment and file position right behind the last record. */
  segment: SegmentEntry | undefined;
  endPosition: number;
}

/** What a reader needs to know of its log, and whom it tells of damage that it makes a hole out of. */
export interface DamageWatch {
  /** Exclusive bound of the records that the segments' `visibleEnd` stand for. */
  readonly visibleHead: number;
  /** Whether the segments' paths lead into the log's directory (README ruling 12). */
  isInPlace(): boolean;
  /** Whether the disk has failed the writer: what it does not give back now may be there after a restart. */
  readonly diskFailed: boolean;
  /** The segment has these holes too now; each span once. */
  found(segment: SegmentEntry, spans: readonly LostSpan[]): void;
}

/** Reads of a log's visible records, by offset, in checked windows. */
export class LogReader {
  readonly #segments: readonly SegmentEntry[];
  readonly #files: FileSystem;
  readonly #codec: Codec;
  readonly #tailCache: TailCache | undefined;
  readonly #watch: DamageWatch;
  readonly #windows: Window[] = [];
  /** Sealed segments that are kept open, the one unused for longest first. */
  readonly #openForReading: SegmentEntry[] = [];
  readonly #result = new Float64Array(4);

  /** `segments` is the writer's own list: what it appends is seen here. So is what `tailCache` has. */
  constructor(
    segments: readonly SegmentEntry[],
    files: FileSystem,
    codec: Codec,
    watch: DamageWatch,
    tailCache?: TailCache,
  ) {
    this.#segments = segments;
    this.#files = files;
    this.#codec = codec;
    this.#watch = watch;
    this.#tailCache = tailCache;
  }

  /**
   * A window that holds the record `offset`, which must lie in [first retained offset, `visibleHead`). Its row is
   * `offset - window.firstOffset`. The window is valid until the next call. Undefined when the record is lost: the log has
   * a gap there. A damaged record, or one that the medium does not give back, becomes a gap by being read. Throws
   * LogReadError or FileSystemError for what no damage to the segment explains, or for a disk that has failed altogether.
   */
  window(offset: number, visibleHead: number): Window | undefined {
    for (let index = 0; index < this.#windows.length; index++) {
      const window = this.#windows[index];
      if (offset >= window.firstOffset && offset < window.firstOffset + window.count) {
        if (index > 0) {
          this.#windows.splice(index, 1);
          this.#windows.unshift(window);
        }
        return window;
      }
    }
    const segment = this.#segmentOf(offset);
    if (isLost(segment, offset)) return undefined;
    try {
      return this.#load(segment, offset, visibleHead);
    } catch (error) {
      const mayBeDamage = error instanceof LogReadError || (isReadError(error) && !this.#watch.diskFailed);
      if (!mayBeDamage || !this.#salvage(segment)) throw error;
    }
    return isLost(segment, offset) ? undefined : this.#load(segment, offset, visibleHead);
  }

  /** Lets go of a segment that leaves the log. */
  forget(segment: SegmentEntry): void {
    const at = this.#openForReading.indexOf(segment);
    if (at >= 0) this.#openForReading.splice(at, 1);
    segment.file?.close();
    segment.file = undefined;
    for (const window of this.#windows) {
      if (window.segment !== segment) continue;
      window.segment = undefined;
      window.count = 0;
    }
  }

  /** Lets go of files and memory. */
  close(): void {
    for (const segment of this.#openForReading) {
      segment.file?.close();
      segment.file = undefined;
    }
    this.#openForReading.length = 0;
    this.#windows.length = 0;
  }

  #load(segment: SegmentEntry, offset: number, visibleHead: number): Window {
    const window = this.#takeWindow(offset);
    let [at, position] = segment.anchor(offset);
    if (window.segment === segment && window.firstOffset + window.count <= offset && window.endPosition > position) {
      at = window.firstOffset + window.count;
      position = window.endPosition;
    }
    window.segment = undefined;
    window.count = 0;
    let end = segment.visibleEnd;
    let head = visibleHead;
    if (segment.holes.length > 0) {
      const behind = holeBehind(segment.holes, offset);
      const before = segment.holes[behind - 1];
      if (before !== undefined && before.end > at) {
        at = before.end;
        position = before.endPosition;
      }
      end = segment.holes[behind]?.startPosition ?? end;
      head = Math.min(head, segment.holes[behind]?.start ?? head);
    }
    const file = this.#fileOf(segment);
    for (;;) {
      const found = this.#fill(window, file, segment, at, position, end, head);
      if (offset < at + found) {
        window.segment = segment;
        return window;
      }
      at += found;
      position = window.endPosition;
      segment.addAnchor(at, position);
      window.count = 0;
    }
  }

  /**
   * Fills the window with records from (`at`, `position`) on, at least one; returns how many. The records end at
   * `endPosition` at the latest, before the offset `endOffset`.
   */
  #fill(
    window: Window,
    file: File,
    segment: SegmentEntry,
    at: number,
    position: number,
    endPosition: number,
    endOffset: number,
  ): number {
    let length = Math.min(WINDOW_BYTES, endPosition - position);
    if (window.buffer.length !== WINDOW_BYTES) window.buffer = new Uint8Array(WINDOW_BYTES);
    const maxRecords = Math.min(WINDOW_RECORDS, endOffset - at);
    for (;;) {
      const inMemory = this.#tailCache?.read(segment, window.buffer, 0, length, position) ?? false;
      const read = inMemory ? length : file.read(window.buffer, 0, length, position);
      const sequence = segment.baseSequence + (at - segment.baseOffset);
      const found = this.#codec.scan(window.buffer, 0, read, window.rows, maxRecords, sequence, this.#result);
      if (found > 0) {
        window.firstOffset = at;
        window.count = found;
        window.endPosition = position + this.#result[0];
        return found;
      }
      const stop = this.#result[1] as ScanStop;
      const needed = this.#result[2];
      // A record larger than the window: its length is checked against what the segment holds before it is believed.
      if (stop !== ScanStop.Truncated || needed <= length || position + needed > endPosition) {
        throw new LogReadError(at, stop, segment.path);
      }
      length = needed;
      window.buffer = new Uint8Array(needed);
    }
  }

  /** Tells intact from damaged in the whole segment, as far as it is visible. False when nothing is new. */
  #salvage(segment: SegmentEntry): boolean {
    const { baseOffset, baseSequence, holes, visibleEnd } = segment;
    const shift = baseOffset - baseSequence;
    const head = Math.min(segment.endOffset, this.#watch.visibleHead);
    // A hole at the very end is no boundary of frames that a walk could begin at.
    const last = holes.at(-1);
    const openEnd = last?.end === head ? last : undefined;
    const from = { position: SEGMENT_HEADER_LENGTH, sequence: baseSequence };
    const to = {
      position: openEnd?.startPosition ?? visibleEnd,
      sequence: (openEnd?.start ?? head) - shift,
    };
    const spans = new Salvage(this.#codec, new PatchyFile(this.#readable(segment))).between(from, to);
    const fresh = spans.filter(({ start, end }) => {
      const hole = holeAt(holes, start.sequence + shift);
      return hole === undefined || hole.end < end.sequence + shift;
    });
    if (fresh.length === 0) return false;
    const found = spans.map((span) => holeOf(span, shift));
    segment.holes = openEnd === undefined ? found : [...found, openEnd];
    this.#watch.found(segment, fresh);
    return true;
  }

  /** The segment's file, or what reads like a file that the medium does not even open. */
  #readable(segment: SegmentEntry): ReadableFile {
    try {
      return this.#fileOf(segment);
    } catch (error) {
      if (!isReadError(error)) throw error;
      return {
        path: segment.path,
        read: () => {
          throw error;
        },
      };
    }
  }

  /** The window to be filled next: one that ends where reading goes on, a new one, or the one unused for longest. */
  #takeWindow(offset: number): Window {
    const following = this.#windows.findIndex((window) => window.firstOffset + window.count === offset);
    let window: Window;
    if (following >= 0) window = this.#windows.splice(following, 1)[0];
    else if (this.#windows.length < WINDOWS) window = newWindow();
    else window = this.#windows.pop() as Window;
    this.#windows.unshift(window);
    return window;
  }

  #segmentOf(offset: number): SegmentEntry {
    return this.#segments[Math.max(0, segmentBefore(this.#segments, offset))];
  }

  #fileOf(segment: SegmentEntry): File {
    if (segment.file !== undefined && !segment.sealed) return segment.file;
    const known = this.#openForReading.indexOf(segment);
    if (known >= 0) this.#openForReading.splice(known, 1);
    this.#openForReading.push(segment);
    if (segment.file === undefined) segment.file = this.#open(segment.path);
    if (this.#openForReading.length > INDEXED_SEGMENTS) {
      const oldest = this.#openForReading.shift() as SegmentEntry;
      if (!oldest.unlinked) {
        oldest.file?.close();
        oldest.file = undefined;
      }
      oldest.forgetAnchors();
    }
    return segment.file;
  }

  /** In another directory there may be a segment of that name, with the right offsets and other records. */
  #open(path: string): File {
    const file = this.#files.open(path, "read");
    if (this.#watch.isInPlace()) return file;
    file.close();
    throw new FileSystemError("ESTALE", "open", path, "the directory under this path is not the log's any more");
  }
}

function isLost(segment: SegmentEntry, offset: number): boolean {
  return offset >= segment.endOffset || (segment.holes.length > 0 && holeAt(segment.holes, offset) !== undefined);
}

function newWindow(): Window {
  return {
    buffer: new Uint8Array(WINDOW_BYTES),
    rows: new Int32Array(WINDOW_RECORDS * FIELDS),
    firstOffset: 0,
    count: 0,
    segment: undefined,
    endPosition: 0,
  };
}
