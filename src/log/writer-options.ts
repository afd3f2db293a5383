import type { Compression } from "../runtime/codec.ts";
import type { AdmissionLimits } from "./admission.ts";
import type { Counters } from "./counters.ts";
import type { Durability } from "./durability.ts";
import type { Refusal } from "./refusal.ts";
import type { SegmentEntry } from "./segment-entry.ts";

export interface WriterOptions extends AdmissionLimits {
  readonly root: string;
  readonly maxSegmentBytes: number;
  readonly maxPendingBytes: number;
  readonly durability: Durability;
  /** Where what is written is counted. Default: counters of the log's own. */
  readonly counters?: Counters;
  /** Segments are written around the page cache (storage.md 16). Default false. */
  readonly directWrites?: boolean;
  /** How payloads are stored. Default: as they are. */
  readonly compression?: Compression;
}

/** Where the writer goes on after recovery. */
export interface WriterStart {
  /** All segments, ascending; an unsealed last one is resumed, otherwise a new one is created. */
  readonly segments: SegmentEntry[];
  readonly nextSegmentId: number;
  readonly nextOffset: number;
  readonly nextSequence: number;
  /** Why nothing on the disk may be changed, if so: the writer is frozen from the beginning. */
  readonly readOnly?: Error;
}

export interface WriterEvents {
  /** A head moved, or room was made. */
  advanced(): void;
  /**
   * Records from this offset on were given up: none of them was or will be visible, and their offsets will be used again.
   * `refusal` is there when the disk was full.
   */
  rejected(fromOffset: number, refusal?: Refusal): void;
  /** A write or barrier failed. Nothing will be appended any more. */
  froze(error: Error): void;
}
