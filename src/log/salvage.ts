import { type Codec, ScanStop } from "../runtime/codec.ts";
import { FramesBefore, walkBackward } from "./backward-walk.ts";
import { ByteWindow, type ReadableFile } from "./byte-window.ts";
import { claimAt } from "./frame-claim.ts";
import { FrameScanner } from "./frame-scanner.ts";
import type { LossReason } from "./loss-report.ts";
import { MIN_FRAME_LENGTH } from "./record.ts";
import { lossReason } from "./segment-walk.ts";
import { viewOf } from "./u64.ts";

/** Damaged spans of one segment that are told apart, from each end; what is beyond them is one span. */
const MAX_SPANS = 65_536;
/** A frame's last bytes are its length, of which up to three may be zero. */
const MAX_ZERO_BYTES_AT_END = 3;

/** A boundary between two frames: where it is, and the sequence of the frame that begins there. */
export interface Place {
  readonly position: number;
  readonly sequence: number;
}

/** Records [start.sequence, end.sequence) cannot be told from what lies at [start.position, end.position). */
export interface LostSpan {
  readonly start: Place;
  readonly end: Place;
  readonly reason: LossReason;
}

/** Frames in order up to the first place where the framing is lost. */
export interface ForwardWalk {
  /** Frames of which the length is known and nothing else is to be believed. */
  readonly lost: readonly LostSpan[];
  /** Where the walk ended: at the limit, at the end sequence, or at a frame of which not even the length is known. */
  readonly stop: Place;
  /** End of the last intact frame; the walk's start when there was none. */
  readonly intactEnd: number;
  /** Of the frame at `stop`. */
  readonly reason: LossReason;
}

/**
 * Finds the intact frames of a damaged segment (docs/decisions/0020). A frame's place is derived from that of a
 * neighbour only, from the segment's start forward and from its known end backward: bytes are never searched for
 * something that looks like a frame, since a payload may hold anything.
 */
export class Salvage {
  readonly #codec: Codec;
  readonly #file: ReadableFile;
  readonly #window: ByteWindow;
  readonly #scanner: FrameScanner;

  constructor(codec: Codec, file: ReadableFile, scanner = new FrameScanner(codec)) {
    this.#codec = codec;
    this.#file = file;
    this.#window = new ByteWindow(file);
    this.#scanner = scanner;
  }

  /**
   * The spans between two places that are known to be boundaries of frames, ascending; every other frame between them is
   * intact. Memory: one window, one record, and a bounded list. Throws FileSystemError.
   */
  between(from: Place, to: Place): readonly LostSpan[] {
    return this.#close(this.forward(from, to.position, to.sequence), to);
  }

  /**
   * The same up to an end of which the sequence may be known and the position is not: the last frame is looked for
   * at the few places where it can end. `size` is the file's length. Throws FileSystemError.
   */
  towards(
    from: Place,
    size: number,
    writtenEnd: number,
    endSequence: number | undefined,
  ): { readonly lost: readonly LostSpan[]; readonly end: Place } {
    const walk = this.forward(from, size, endSequence);
    if (walk.stop.sequence === endSequence || walk.stop.position >= writtenEnd) {
      return { lost: walk.lost, end: walk.stop };
    }
    const candidates = new Set<number>([size, size - 32]);
    for (let zeros = 0; zeros <= MAX_ZERO_BYTES_AT_END; zeros++) candidates.add(writtenEnd + zeros);
    for (const position of candidates) {
      const end = position <= size ? this.#endAt(walk.stop, position, endSequence) : undefined;
      if (end !== undefined) return { lost: this.#close(walk, end), end };
    }
    return { lost: walk.lost, end: walk.stop };
  }

  /** See ForwardWalk. `endSequence` undefined: as far as it goes. Throws FileSystemError. */
  forward(from: Place, limit: number, endSequence = Number.POSITIVE_INFINITY): ForwardWalk {
    const scanner = this.#scanner;
    const lost: LostSpan[] = [];
    let intactEnd = from.position;
    scanner.begin(this.#file, from.position, limit, from.sequence, endSequence);
    for (;;) {
      while (scanner.next() > 0) intactEnd = scanner.position;
      const stop = { position: scanner.position, sequence: scanner.sequence };
      const reason = reasonOf(scanner);
      if (stop.position >= limit || stop.sequence >= endSequence || lost.length >= MAX_SPANS) {
        return { lost, stop, intactEnd, reason };
      }
      const claim = claimAt(this.#window, stop.position, limit, this.#codec);
      if (claim === undefined || stop.position + claim.lengthBytes > limit) return { lost, stop, intactEnd, reason };
      // A frame that is intact and out of place has a length all the same.
      if (claim.sequence !== stop.sequence && scanner.stop !== ScanStop.SequenceMismatch) {
        return { lost, stop, intactEnd, reason };
      }
      scanner.skip(claim.lengthBytes);
      lost.push({ start: stop, end: { position: scanner.position, sequence: scanner.sequence }, reason });
    }
  }

  /** What a forward walk left open before `to`, gone through from there. */
  #close(walk: ForwardWalk, to: Place): readonly LostSpan[] {
    const { stop, reason } = walk;
    if (stop.position === to.position && stop.sequence === to.sequence) return walk.lost;
    const open = { start: stop, end: to, reason };
    if (stop.position >= to.position || stop.sequence >= to.sequence) return [...walk.lost, open];
    const back = walkBackward(this.#codec, this.#window, stop, to, MAX_SPANS);
    if (back === undefined) return [...walk.lost, open];
    const { begin, lost } = back;
    if (begin.position === stop.position) return [...walk.lost, ...lost];
    return [...walk.lost, { start: stop, end: begin, reason }, ...lost];
  }

  /** The boundary at `position`, if an intact frame that can be behind `after` ends there. */
  #endAt(after: Place, position: number, endSequence: number | undefined): Place | undefined {
    if (position - after.position < MIN_FRAME_LENGTH) return undefined;
    const start = position - viewOf(this.#window.copy(position - 4, 4)).getUint32(0, true);
    if (start < after.position) return undefined;
    const claim = claimAt(this.#window, start, position, this.#codec);
    if (claim === undefined) return undefined;
    const end = { position, sequence: claim.sequence + 1 };
    const most = after.sequence + Math.floor((start - after.position) / MIN_FRAME_LENGTH);
    if (claim.sequence < after.sequence || claim.sequence > most) return undefined;
    if (endSequence !== undefined && end.sequence !== endSequence) return undefined;
    const frames = new FramesBefore(this.#codec, this.#window, after);
    return frames.endingAt(end)?.state === "intact" ? end : undefined;
  }
}

function reasonOf(scanner: FrameScanner): LossReason {
  // Nothing is torn inside of a log: what is cut short here was whole once.
  if (scanner.stop === ScanStop.Truncated || scanner.stop === ScanStop.End) return "CorruptRecordBody";
  return lossReason(scanner.stop, scanner.stoppedBytes());
}
