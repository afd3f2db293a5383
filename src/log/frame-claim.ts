import type { Codec } from "../runtime/codec.ts";
import type { ByteWindow } from "./byte-window.ts";
import {
  hasContradictoryFlags,
  MAX_FRAME_LENGTH,
  MIN_FRAME_LENGTH,
  RECORD_HEADER_LENGTH,
  RecordFlag,
} from "./record.ts";
import { readUint64, viewOf } from "./u64.ts";

const MAGIC = 0x4942;
const VERSION = 1;
/** The header's bytes that its CRC covers. */
const COVERED_BYTES = 32;

/** What the header of a frame says of it; the body was not looked at. */
export interface FrameClaim {
  /** -1 above 2^53 - 1. */
  readonly sequence: number;
  /** Of the whole frame, at most 1 GiB. */
  readonly lengthBytes: number;
  /** One wrong bit was put right to read it: the frame is not intact, but its length is known. */
  readonly corrected: boolean;
}

/**
 * The claim of the frame at `position`, undefined when its header (or the length of its subject or stream tag, which the
 * header's CRC does not cover) does not hold. A header with a single wrong bit is read as what it was: no other header is
 * as close to it as CRC-32C's distance allows, so the bit is known. Throws FileSystemError.
 */
export function claimAt(window: ByteWindow, position: number, limit: number, codec: Codec): FrameClaim | undefined {
  if (limit - position < MIN_FRAME_LENGTH) return undefined;
  const header = window.copy(position, RECORD_HEADER_LENGTH);
  const view = viewOf(header);
  let corrected = false;
  const difference = (codec.crc32c(header, 0, COVERED_BYTES) ^ view.getUint32(COVERED_BYTES, true)) >>> 0;
  if (difference !== 0) {
    if (!correct(header, difference, codec)) return undefined;
    corrected = true;
  }
  if (view.getUint16(0, true) !== MAGIC || header[2] !== VERSION) return undefined;
  const flags = header[3];
  if (hasContradictoryFlags(flags)) return undefined;
  let lengthBytes = MIN_FRAME_LENGTH;
  for (const field of [20, 24, 28]) lengthBytes += view.getUint32(field, true);
  if ((flags & RecordFlag.Encrypted) !== 0) lengthBytes += 16;
  if ((flags & RecordFlag.HasXxh3) !== 0) lengthBytes += 8;
  if ((flags & (RecordFlag.HasSubject | RecordFlag.HasStreamTag)) !== 0) {
    const label = labelBytes(window, position + RECORD_HEADER_LENGTH, limit, codec);
    if (label === undefined) return undefined;
    lengthBytes += label;
  }
  if (lengthBytes > MAX_FRAME_LENGTH) return undefined;
  return { sequence: readUint64(view, 4), lengthBytes, corrected };
}

/** Length of the subject or stream tag field at `position`, undefined when its CRC does not hold. */
function labelBytes(window: ByteWindow, position: number, limit: number, codec: Codec): number | undefined {
  if (position + 2 > limit) return undefined;
  const length = viewOf(window.copy(position, 2)).getUint16(0, true);
  if (position + length + 6 > limit) return undefined;
  const field = window.copy(position, length + 6);
  return viewOf(field).getUint32(length + 2, true) === codec.crc32c(field, 0, length + 2) ? length + 6 : undefined;
}

/** What a flip of each covered bit does to the CRC: the code is linear, so this holds for every header. */
let flipDifferences: Map<number, number> | undefined;

function correct(header: Uint8Array, difference: number, codec: Codec): boolean {
  // A power of two: the wrong bit is one of the CRC field, and the rest is as it was.
  if ((difference & (difference - 1)) === 0) return true;
  flipDifferences ??= differencesOfFlips(codec);
  const bit = flipDifferences.get(difference);
  if (bit === undefined) return false;
  header[bit >> 3] ^= 1 << (bit & 7);
  return true;
}

function differencesOfFlips(codec: Codec): Map<number, number> {
  const differences = new Map<number, number>();
  const bytes = new Uint8Array(COVERED_BYTES);
  const none = codec.crc32c(bytes, 0, COVERED_BYTES);
  for (let bit = 0; bit < COVERED_BYTES * 8; bit++) {
    bytes[bit >> 3] = 1 << (bit & 7);
    differences.set((codec.crc32c(bytes, 0, COVERED_BYTES) ^ none) >>> 0, bit);
    bytes[bit >> 3] = 0;
  }
  return differences;
}
