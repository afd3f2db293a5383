import { type Codec, FIELD_PAYLOAD, FIELD_PAYLOAD_LENGTH, FIELDS } from "../runtime/codec.ts";
import { type DictionarySource, decompressPayload } from "./compressed-payload.ts";
import type { Window } from "./reader.ts";

/** What one call of the codec expands at most. */
const RUN_BYTES = 256 * 1024;
/** Groups that read at different places each keep their run; more places than this take turns. */
const RUNS = 4;
/** Ticks without a request after which the memory is given back. */
const IDLE_TICKS = 20;

/** The payloads of the records [firstOffset, endOffset), as far as the codec could expand them. */
interface Run {
  readonly buffer: Uint8Array;
  /** Position and length in `buffer` for each record; position -1: not here. */
  spots: Int32Array;
  firstOffset: number;
  endOffset: number;
}

/**
 * Compressed payloads in plain form, for consumers that take no others. They are expanded for a run of records in one call
 * of the codec; what it cannot expand (zstd), and what is larger than a run, is decompressed alone when it is asked for.
 * What was stored under an offset never changes, so a run stays good whatever becomes of the window it was read from.
 */
export class PlainPayloads {
  /** The answer of {@link find}: source[start, start + lengthBytes), good until the next call. */
  source: Uint8Array = new Uint8Array(0);
  start = 0;
  lengthBytes = 0;

  readonly #codec: Codec;
  readonly #dictionaries: DictionarySource | undefined;
  /** The one used last is the first. */
  readonly #runs: Run[] = [];
  #idleTicks = 0;

  constructor(codec: Codec, dictionaries?: DictionarySource) {
    this.#codec = codec;
    this.#dictionaries = dictionaries;
  }

  /**
   * Finds the payload of the record `offset` of `window`, which has the flag COMPRESSED. Throws CompressionError when it
   * cannot be decompressed (storage.md 4): the record is lost to who needs it plain, and those behind it are not.
   */
  find(window: Window, offset: number): void {
    this.#idleTicks = 0;
    const run = this.#runWith(offset) ?? this.#expand(window, offset);
    const spot = (offset - run.firstOffset) * 2;
    if (offset < run.endOffset && run.spots[spot] >= 0) {
      this.source = run.buffer;
      this.start = run.spots[spot];
      this.lengthBytes = run.spots[spot + 1];
      return;
    }
    const row = (offset - window.firstOffset) * FIELDS;
    const at = window.rows[row + FIELD_PAYLOAD];
    const stored = window.buffer.subarray(at, at + window.rows[row + FIELD_PAYLOAD_LENGTH]);
    this.source = decompressPayload(stored, this.#codec, this.#dictionaries);
    this.start = 0;
    this.lengthBytes = this.source.length;
  }

  /** A few times a second. */
  tick(): void {
    if (this.#idleTicks < IDLE_TICKS) {
      this.#idleTicks += 1;
    } else {
      this.#runs.length = 0;
      this.source = new Uint8Array(0);
    }
  }

  #runWith(offset: number): Run | undefined {
    for (let index = 0; index < this.#runs.length; index++) {
      const run = this.#runs[index];
      if (offset >= run.firstOffset && offset < run.endOffset) {
        if (index > 0) {
          this.#runs.splice(index, 1);
          this.#runs.unshift(run);
        }
        return run;
      }
    }
    return undefined;
  }

  /** A run that begins with `offset`; empty when its payload is larger than a run. */
  #expand(window: Window, offset: number): Run {
    const run = this.#takeRun(offset);
    const first = offset - window.firstOffset;
    if (run.spots.length < 2 * (window.count - first)) run.spots = new Int32Array(2 * (window.count - first));
    run.firstOffset = offset;
    // Nothing is in it while the codec may throw.
    run.endOffset = offset;
    const end = this.#codec.expand(window.buffer, window.rows, first, window.count, run.buffer, run.spots);
    run.endOffset = window.firstOffset + end;
    return run;
  }

  /** The run to be filled next: one that ends where reading goes on, a new one, or the one unused for longest. */
  #takeRun(offset: number): Run {
    const following = this.#runs.findIndex((run) => run.endOffset === offset);
    let run: Run;
    if (following >= 0) {
      run = this.#runs.splice(following, 1)[0];
    } else if (this.#runs.length < RUNS) {
      run = { buffer: new Uint8Array(RUN_BYTES), spots: new Int32Array(0), firstOffset: 0, endOffset: 0 };
    } else {
      run = this.#runs.pop() as Run;
    }
    this.#runs.unshift(run);
    return run;
  }
}
