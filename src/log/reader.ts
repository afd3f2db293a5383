import { type Codec, FIELDS, ScanStop } from "../runtime/codec.ts";
import type { File, FileSystem } from "../runtime/file-system.ts";
import type { SegmentEntry } from "./segment-entry.ts";
import type { TailCache } from "./tail-cache.ts";

const WINDOW_BYTES = 256 * 1024;
const WINDOW_RECORDS = 2048;
/** Groups that read at different places each keep their window; more places than this take turns. */
const WINDOWS = 4;
/** Sealed segments that are kept open for reading. */
const OPEN_SEGMENTS = 16;

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

/** Reads of a log's visible records, by offset, in checked windows. */
export class LogReader {
  readonly #segments: readonly SegmentEntry[];
  readonly #files: FileSystem;
  readonly #codec: Codec;
  readonly #tailCache: TailCache | undefined;
  readonly #windows: Window[] = [];
  readonly #openForReading: SegmentEntry[] = [];
  readonly #result = new Float64Array(4);

  /** `segments` is the writer's own list: what it appends is seen here. So is what `tailCache` has. */
  constructor(segments: readonly SegmentEntry[], files: FileSystem, codec: Codec, tailCache?: TailCache) {
    this.#segments = segments;
    this.#files = files;
    this.#codec = codec;
    this.#tailCache = tailCache;
  }

  /**
   * A window that holds the record `offset`, which must lie in [first retained offset, `visibleHead`). Its row is
   * `offset - window.firstOffset`. The window is valid until the next call. Throws LogReadError when the record is
   * damaged, FileSystemError when it cannot be read.
   */
  window(offset: number, visibleHead: number): Window {
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
    return this.#load(offset, visibleHead);
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

  #load(offset: number, visibleHead: number): Window {
    const segment = this.#segmentOf(offset);
    const window = this.#takeWindow(offset);
    let [at, position] = segment.anchor(offset);
    if (window.segment === segment && window.firstOffset + window.count <= offset && window.endPosition > position) {
      at = window.firstOffset + window.count;
      position = window.endPosition;
    }
    window.segment = undefined;
    window.count = 0;
    const file = this.#fileOf(segment);
    for (;;) {
      const found = this.#fill(window, file, segment, at, position, visibleHead);
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

  /** Fills the window with records from (`at`, `position`) on, at least one; returns how many. */
  #fill(window: Window, file: File, segment: SegmentEntry, at: number, position: number, visibleHead: number): number {
    let length = Math.min(WINDOW_BYTES, segment.visibleEnd - position);
    if (window.buffer.length !== WINDOW_BYTES) window.buffer = new Uint8Array(WINDOW_BYTES);
    const maxRecords = Math.min(WINDOW_RECORDS, visibleHead - at);
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
      if (stop !== ScanStop.Truncated || needed <= length || position + needed > segment.visibleEnd) {
        throw new LogReadError(at, stop, segment.path);
      }
      length = needed;
      window.buffer = new Uint8Array(needed);
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
    let low = 0;
    let high = this.#segments.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#segments[middle].baseOffset <= offset) low = middle;
      else high = middle - 1;
    }
    return this.#segments[low];
  }

  #fileOf(segment: SegmentEntry): File {
    if (segment.file !== undefined && !segment.sealed) return segment.file;
    const known = this.#openForReading.indexOf(segment);
    if (known >= 0) this.#openForReading.splice(known, 1);
    this.#openForReading.push(segment);
    if (segment.file === undefined) segment.file = this.#files.open(segment.path, "read");
    if (this.#openForReading.length > OPEN_SEGMENTS) {
      const oldest = this.#openForReading.shift() as SegmentEntry;
      oldest.file?.close();
      oldest.file = undefined;
    }
    return segment.file;
  }
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
