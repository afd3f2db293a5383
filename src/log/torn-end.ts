import type { Codec } from "../runtime/codec.ts";
import { ByteWindow, type ReadableFile } from "./byte-window.ts";
import { claimAt } from "./frame-claim.ts";
import type { LossEvent } from "./loss-report.ts";
import { readExactly } from "./read-exactly.ts";

/** What every disk writes whole or not at all; some do so with more. */
const SECTOR_BYTES = 512;
const READ_BYTES = 512 * SECTOR_BYTES;

/**
 * Whether a power cut over writes without a barrier can have left the bad frames of `span`, in a segment file of `size`
 * bytes (docs/decisions/0023). A sector that a write did not reach is zeros from there to its end, as it was preallocated: so
 * one of the span ends in a zero, or the frame that begins the span claims more than was found. False is certain, true is not.
 * Throws FileSystemError.
 */
export function mayBeTorn(
  codec: Codec,
  file: ReadableFile,
  { start, end }: Pick<LossEvent, "start" | "end">,
  size: number,
): boolean {
  const buffer = new Uint8Array(Math.min(READ_BYTES, end - start));
  for (let at = start; at < end; ) {
    const length = Math.min(READ_BYTES - (at % READ_BYTES), buffer.length, end - at);
    readExactly(file, buffer, 0, length, at);
    for (let last = SECTOR_BYTES - 1 - (at % SECTOR_BYTES); last < length; last += SECTOR_BYTES) {
      if (buffer[last] === 0) return true;
    }
    at += length;
  }
  const claim = claimAt(new ByteWindow(file), start, size, codec);
  return claim !== undefined && !claim.corrected && start + claim.lengthBytes > end;
}
