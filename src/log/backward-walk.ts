import { type Codec, FIELDS } from "../runtime/codec.ts";
import type { ByteWindow } from "./byte-window.ts";
import { claimAt } from "./frame-claim.ts";
import { MIN_FRAME_LENGTH } from "./record.ts";
import type { LostSpan, Place } from "./salvage.ts";
import { viewOf } from "./u64.ts";

/** How much of a span is searched for headers at a time. */
const SEARCH_BYTES = 64 * 1024;
/** How much of a run of intact frames is checked in one call. */
const RUN_BYTES = 64 * 1024;
const RUN_FRAMES = 1024;
const MAGIC_AND_VERSION = Buffer.from([0x42, 0x49, 1]);

export interface BackwardWalk {
  /** The first boundary it came to; never before `stop`. */
  readonly begin: Place;
  /** Damaged frames between `begin` and the end, ascending. */
  readonly lost: readonly LostSpan[];
}

/**
 * Goes from frame to frame backward: the last four bytes of a frame are its length, and `from` is known to be where one
 * ends. Undefined when what was found contradicts itself or what lies before it: then nothing of it is to be believed.
 * `stop` is where the forward walk lost the framing. Throws FileSystemError.
 */
export function walkBackward(
  codec: Codec,
  window: ByteWindow,
  stop: Place,
  from: Place,
  maxSpans: number,
): BackwardWalk | undefined {
  const frames = new FramesBefore(codec, window, stop);
  const lost: LostSpan[] = [];
  let begin = from;
  while (begin.position > stop.position && begin.sequence > stop.sequence && lost.length < maxSpans) {
    begin = frames.runBefore(begin);
    if (begin.position === stop.position || begin.sequence === stop.sequence) break;
    const frame = frames.endingAt(begin);
    if (frame === undefined) break;
    if (frame.state !== "intact") {
      if (frame.state === "headless" && !frames.mayStepOver(frame.start)) break;
      const reason = frame.state === "body" ? "CorruptRecordBody" : "CorruptRecordHeader";
      lost.push({ start: frame.start, end: begin, reason });
    }
    begin = frame.start;
  }
  lost.reverse();
  const records = begin.sequence - stop.sequence;
  const bytes = begin.position - stop.position;
  // Records without bytes, or bytes of whole frames without records: one of the two ends is not what it was taken for.
  if (records === 0 ? bytes !== 0 : bytes < records * MIN_FRAME_LENGTH) return undefined;
  if (bytes > 0 && contradicted(codec, window, stop, begin, from.position)) return undefined;
  return { begin, lost };
}

interface FrameBefore {
  readonly start: Place;
  /** `body`: the header holds. `header`: it has one wrong bit. `headless`: only the trailer says that there is one. */
  readonly state: "intact" | "body" | "header" | "headless";
}

/** The frames before a boundary, one by one. */
export class FramesBefore {
  readonly #codec: Codec;
  readonly #window: ByteWindow;
  readonly #stop: Place;
  readonly #rows = new Int32Array(RUN_FRAMES * FIELDS);
  readonly #result = new Float64Array(4);
  /** Doubles with each run that holds, so that one that does not costs no more than the frames before it. */
  #runFrames = 1;

  /** No frame before `stop` is looked at. */
  constructor(codec: Codec, window: ByteWindow, stop: Place) {
    this.#codec = codec;
    this.#window = window;
    this.#stop = stop;
  }

  /**
   * Begin of a run of intact frames that ends at `end`, as far as one window and one call reach; `end` itself when the frame
   * before it is not intact, or somewhere in the run.
   */
  runBefore(end: Place): Place {
    const available = Math.min(RUN_BYTES, end.position - this.#stop.position);
    const limit = this.#window.locate(end.position - available, available) + available;
    const { buffer } = this.#window;
    const view = viewOf(buffer);
    const first = limit - available;
    const mostFrames = Math.min(this.#runFrames, end.sequence - this.#stop.sequence);
    let at = limit;
    let frames = 0;
    while (frames < mostFrames && at - first >= MIN_FRAME_LENGTH) {
      const lengthBytes = view.getUint32(at - 4, true);
      if (lengthBytes < MIN_FRAME_LENGTH || lengthBytes > at - first) break;
      at -= lengthBytes;
      frames += 1;
    }
    if (frames === 0) return end;
    const sequence = end.sequence - frames;
    const found = this.#codec.scan(buffer, at, limit, this.#rows, frames, sequence, this.#result);
    if (found !== frames || this.#result[0] !== limit) {
      this.#runFrames = 1;
      return end;
    }
    this.#runFrames = Math.min(RUN_FRAMES, this.#runFrames * 2);
    return { position: end.position - (limit - at), sequence };
  }

  /** The frame that ends at `end`, undefined when its trailer does not lead to one. */
  endingAt(end: Place): FrameBefore | undefined {
    if (end.position - this.#stop.position < MIN_FRAME_LENGTH) return undefined;
    const at = this.#window.locate(end.position - 4, 4);
    const lengthBytes = viewOf(this.#window.buffer).getUint32(at, true);
    const start = { position: end.position - lengthBytes, sequence: end.sequence - 1 };
    if (lengthBytes < MIN_FRAME_LENGTH || start.position < this.#stop.position) return undefined;
    const claim = claimAt(this.#window, start.position, end.position, this.#codec);
    if (claim === undefined) return { start, state: "headless" };
    if (claim.sequence !== start.sequence || claim.lengthBytes !== lengthBytes) return { start, state: "headless" };
    if (claim.corrected) return { start, state: "header" };
    const frame = this.#window.locate(start.position, lengthBytes);
    const { buffer } = this.#window;
    const found = this.#codec.scan(buffer, frame, frame + lengthBytes, this.#rows, 1, start.sequence, this.#result);
    return { start, state: found === 1 ? "intact" : "body" };
  }

  /**
   * Whether a frame without a header, of which only the trailer says that it begins at `start`, does begin there: the
   * frame before it is intact, or it is the one at which the forward walk stopped.
   */
  mayStepOver(start: Place): boolean {
    if (start.position === this.#stop.position) return start.sequence === this.#stop.sequence;
    if (start.sequence <= this.#stop.sequence) return false;
    return this.endingAt(start)?.state === "intact";
  }
}

/**
 * Whether an intact header between `stop` and `begin`, of a record that may be there, says that its frame reaches beyond
 * `begin`. Then `begin` may lie inside of that frame, and the frames behind it may be somebody's payload.
 */
function contradicted(codec: Codec, window: ByteWindow, stop: Place, begin: Place, end: number): boolean {
  for (let at = stop.position; at < begin.position; at += SEARCH_BYTES) {
    // The first bytes of a header at the end of one piece are in it as a whole.
    const length = Math.min(SEARCH_BYTES + MAGIC_AND_VERSION.length - 1, begin.position - at);
    const piece = Buffer.from(window.copy(at, length).buffer);
    for (
      let found = piece.indexOf(MAGIC_AND_VERSION);
      found >= 0;
      found = piece.indexOf(MAGIC_AND_VERSION, found + 1)
    ) {
      const position = at + found;
      const claim = claimAt(window, position, end, codec);
      if (claim === undefined || claim.corrected || position + claim.lengthBytes <= begin.position) continue;
      const most = stop.sequence + Math.floor((position - stop.position) / MIN_FRAME_LENGTH);
      if (claim.sequence >= stop.sequence && claim.sequence <= most) return true;
    }
  }
  return false;
}
