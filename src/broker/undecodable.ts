import type { CompressionError } from "../log/compressed-payload.ts";
import { frameSpan } from "../log/frame-span.ts";
import type { LossEvent } from "../log/loss-report.ts";
import type { Window } from "../log/reader.ts";

/** Reported offsets that are remembered; after as many, one may be reported again. */
const MAX_REMEMBERED = 4096;

/**
 * Intact records that cannot be given to consumers of plain payloads (storage.md 4): each is reported once, whatever the
 * number of groups that meet it.
 */
export class UndecodableRecords {
  readonly #report: (loss: LossEvent, offset: number, error: CompressionError) => void;
  readonly #reported = new Set<number>();

  constructor(report: (loss: LossEvent, offset: number, error: CompressionError) => void) {
    this.#report = report;
  }

  /** `error` is why the record `offset` of `window` cannot be decompressed. */
  met(window: Window, offset: number, error: CompressionError): void {
    if (this.#reported.has(offset)) return;
    if (this.#reported.size >= MAX_REMEMBERED) this.#reported.clear();
    this.#reported.add(offset);
    const loss = { ...frameSpan(window, offset), recordsLostEstimate: 1, reason: error.reason };
    this.#report(loss, offset, error);
  }
}
