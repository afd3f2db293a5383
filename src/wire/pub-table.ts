/**
 * The publish path's parser: a Pub body becomes one row of positions in a table, nothing is copied or allocated.
 *
 * Layout of a Pub body (wire.md 8.1):
 *   flags u8, timestamp_ms u64, key var, headers var, [dedup: producer_id var, epoch u64, msg_id var, [seq u64]], payload
 */

/** Row layout shared with `runtime/codec.ts` (kept equal by a test): flags, timestamp, key, headers, payload. */
const FIELDS = 8;

const COMPRESSED = 0x01;
const LEVEL_MASK = 0x18;
const LEVEL_SHIFT = 3;
const HAS_SEQUENCE = 0x20;
const FIRE_AND_FORGET = 0x40;
const HAS_DEDUP = 0x80;
const DEDUP_ID_CAP = 256;

/** What became of one Pub body. 0..2 is the acknowledgement level of a body that is now a row; the others are refusals. */
export const PubOutcome = {
  FireAndForget: 0,
  Acknowledged: 1,
  Confirmed: 2,
  Malformed: 3,
  ProducerIdTooLong: 4,
  MessageIdTooLong: 5,
  SequenceWithoutProducer: 6,
  /** A well-formed dedup block. The row is filled; whether it may be appended is the caller's decision. */
  Deduplicated: 7,
  /** COMPRESSED with a payload that needs the descriptor check of wire.md 16; the row is filled. */
  Compressed: 8,
} as const;
export type PubOutcome = (typeof PubOutcome)[keyof typeof PubOutcome];

/** The acknowledgement level (0, 1 or 2) that a Pub's flag byte asks for (wire.md 8.1). */
export function publishLevel(flags: number): 0 | 1 | 2 {
  if ((flags & FIRE_AND_FORGET) !== 0) return 0;
  const field = (flags & LEVEL_MASK) >> LEVEL_SHIFT;
  return field === 1 ? 0 : field === 2 ? 2 : 1;
}

/**
 * Reads the Pub body chunk[start, end) into row `row` of `table`. Positions are offsets into `chunk`. A malformed body
 * leaves the row undefined.
 */
export function readPubRow(chunk: Uint8Array, start: number, end: number, table: Int32Array, row: number): PubOutcome {
  // The fixed part and both length prefixes of an empty key and empty headers.
  if (end - start < 13) return PubOutcome.Malformed;
  const flags = chunk[start];
  const keyLength = chunk[start + 9] | (chunk[start + 10] << 8);
  const key = start + 11;
  let at = key + keyLength;
  if (at + 2 > end) return PubOutcome.Malformed;
  const headersLength = chunk[at] | (chunk[at + 1] << 8);
  const headers = at + 2;
  at = headers + headersLength;
  if (at > end) return PubOutcome.Malformed;
  let outcome: PubOutcome = publishLevel(flags);
  if ((flags & HAS_DEDUP) !== 0) {
    if (at + 2 > end) return PubOutcome.Malformed;
    const producerLength = chunk[at] | (chunk[at + 1] << 8);
    at += 2 + producerLength + 8;
    if (at + 2 > end) return PubOutcome.Malformed;
    const messageLength = chunk[at] | (chunk[at + 1] << 8);
    at += 2 + messageLength;
    if ((flags & HAS_SEQUENCE) !== 0) at += 8;
    if (at > end) return PubOutcome.Malformed;
    if (producerLength > DEDUP_ID_CAP) outcome = PubOutcome.ProducerIdTooLong;
    else if (messageLength > DEDUP_ID_CAP) outcome = PubOutcome.MessageIdTooLong;
    else if ((flags & HAS_SEQUENCE) !== 0 && producerLength === 0) outcome = PubOutcome.SequenceWithoutProducer;
    else outcome = PubOutcome.Deduplicated;
  } else if ((flags & HAS_SEQUENCE) !== 0) {
    return PubOutcome.Malformed;
  } else if ((flags & COMPRESSED) !== 0) {
    outcome = PubOutcome.Compressed;
  }
  const base = row * FIELDS;
  table[base] = flags & COMPRESSED;
  table[base + 1] = start + 1;
  table[base + 2] = key;
  table[base + 3] = keyLength;
  table[base + 4] = headers;
  table[base + 5] = headersLength;
  table[base + 6] = at;
  table[base + 7] = end - at;
  return outcome;
}

/** Where the frame of a row begins: its body starts one byte before the timestamp, its envelope five before that. */
export function frameStartOfRow(table: Int32Array, row: number): number {
  return table[row * FIELDS + 1] - 6;
}
