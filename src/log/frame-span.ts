import { FIELD_FLAGS, FIELD_PAYLOAD, FIELD_PAYLOAD_LENGTH, FIELD_TIMESTAMP, FIELDS } from "../runtime/codec.ts";
import type { Window } from "./reader.ts";
import { RecordFlag } from "./record.ts";

const TIMESTAMP_POSITION = 12;
const TRAILER_BYTES = 8;
const XXH3_BYTES = 8;

/** Where the frame of the record `offset` of `window` lies in its segment's file: bytes [start, end). */
export function frameSpan(
  window: Window,
  offset: number,
): { readonly segmentId: number; readonly start: number; readonly end: number } {
  const { rows, firstOffset, count, endPosition } = window;
  const endOf = (row: number) => {
    const at = row * FIELDS;
    const xxh3Bytes = (rows[at + FIELD_FLAGS] & RecordFlag.HasXxh3) === 0 ? 0 : XXH3_BYTES;
    return rows[at + FIELD_PAYLOAD] + rows[at + FIELD_PAYLOAD_LENGTH] + xxh3Bytes + TRAILER_BYTES;
  };
  const row = offset - firstOffset;
  const bufferPosition = endPosition - endOf(count - 1);
  return {
    segmentId: window.segment?.id ?? 0,
    start: bufferPosition + rows[row * FIELDS + FIELD_TIMESTAMP] - TIMESTAMP_POSITION,
    end: bufferPosition + endOf(row),
  };
}
