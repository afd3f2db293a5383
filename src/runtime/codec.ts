/**
 * What JavaScript does slowly: checksums, and turning a chunk of publishes into stored records (and back) in one call.
 * Two implementations, the native addon and its TypeScript twin, give the same bytes and the same errors.
 *
 * Tables are Int32Array with FIELDS entries a record; positions are byte offsets into the buffer the table goes with.
 */

/** Entries per record in a table. */
export const FIELDS = 8;
/** Stored flag byte. For seal(): only COMPRESSED (0x01) is taken; HAS_KEY and HAS_XXH3 are derived. */
export const FIELD_FLAGS = 0;
/** Position of the 8 timestamp bytes. */
export const FIELD_TIMESTAMP = 1;
export const FIELD_KEY = 2;
export const FIELD_KEY_LENGTH = 3;
export const FIELD_HEADERS = 4;
export const FIELD_HEADERS_LENGTH = 5;
export const FIELD_PAYLOAD = 6;
export const FIELD_PAYLOAD_LENGTH = 7;

/** How seal() stores payloads. */
export const Compression = { None: 0, Lz4: 1 } as const;
export type Compression = (typeof Compression)[keyof typeof Compression];
/** Shorter payloads are stored as they are (storage.md 4). */
export const MIN_COMPRESSIBLE_BYTES = 64;
/** No payload is expanded to more, so none that is longer is stored compressed (storage.md 4). */
export const MAX_EXPANDED_BYTES = 8 * 1024 * 1024;

/** Why scan() stopped (storage.md 3.5; the order of the checks is the contract's). */
export const ScanStop = {
  /** `end` was reached exactly after the last record, or `maxRecords` was. */
  End: 0,
  /**
   * Fewer bytes than the next frame needs; result[2] = the frame's total length, or 36 when not even its header is
   * there (38 when the length of its subject or stream tag is missing).
   */
  Truncated: 1,
  BadMagic: 2,
  UnsupportedVersion: 3,
  BadHeaderCrc: 4,
  BadLength: 5,
  Encrypted: 6,
  TooLarge: 7,
  BadStreamTagCrc: 8,
  BadSubjectCrc: 9,
  BadBodyCrc: 10,
  BadXxh3: 11,
  /** An intact frame with another sequence than expected; result[3] = the sequence found (2^53 and above: -1). */
  SequenceMismatch: 12,
} as const;
export type ScanStop = (typeof ScanStop)[keyof typeof ScanStop];

export interface Codec {
  readonly kind: "addon" | "typescript";
  /** CRC-32C of buffer[start, end), an unsigned number. */
  crc32c(buffer: Uint8Array, start: number, end: number): number;
  /** XXH3-64, seed 0, of buffer[start, end). */
  xxh3(buffer: Uint8Array, start: number, end: number): bigint;
  /**
   * Writes the stored frames (storage.md 3) of records [first, count) of `table` into `out` from `outStart`, with
   * sequences `sequence`, `sequence + 1`, ...; stops early before a record that would end beyond `outLimit` if it were
   * not compressed, or that would start at or beyond `stopAt`. Returns how many records were written; result[0] = end
   * position in `out`. Key and headers are at most 65,535 bytes, the payload below 2^30.
   *
   * With Compression.Lz4 a payload is stored as one LZ4 block behind its descriptor, with the flag COMPRESSED, unless the
   * row has the flag already, the payload is shorter than MIN_COMPRESSIBLE_BYTES or longer than MAX_EXPANDED_BYTES, or it
   * would not become shorter (storage.md 4). Bytes of `out` from result[0] to `outLimit` are undefined afterwards.
   */
  seal(
    chunk: Uint8Array,
    table: Int32Array,
    first: number,
    count: number,
    out: Uint8Array,
    outStart: number,
    outLimit: number,
    stopAt: number,
    sequence: number,
    result: Float64Array,
    compression: Compression,
  ): number;
  /**
   * Decodes the payloads of rows [first, count) that have the flag COMPRESSED into `out`, one behind the other, and sets
   * spots[2 i], spots[2 i + 1] to position and length of row first + i's payload there. The position is -1 when there is
   * none: the row is not compressed, its codec is neither none nor LZ4, it names a dictionary, claims more than
   * MAX_EXPANDED_BYTES, or does not decode to exactly the length that it claims. Returns the first row that had no room in
   * `out`, else `count`. `out` is at most 2 GiB.
   */
  expand(
    buffer: Uint8Array,
    table: Int32Array,
    first: number,
    count: number,
    out: Uint8Array,
    spots: Int32Array,
  ): number;
  /**
   * Walks stored frames in buffer[start, end), checking each completely (header, lengths, body CRC, xxh3), filling one
   * table row a frame. Stops after `maxRecords`, or at the first frame that is not intact. `sequence` is the expected
   * sequence of the first frame, each next one higher; -1 accepts any in every frame. Returns how many intact frames
   * were found; result[0] = position after the last of them, result[1] = ScanStop, result[2] and result[3] as ScanStop
   * says.
   */
  scan(
    buffer: Uint8Array,
    start: number,
    end: number,
    table: Int32Array,
    maxRecords: number,
    sequence: number,
    result: Float64Array,
  ): number;
  /**
   * Decodes one raw LZ4 block (wire.md 16) from source[start, end) into target[at, at + length). Returns true only if
   * it decodes to exactly `length` bytes; never reads or writes outside the given ranges.
   */
  lz4Decompress(
    source: Uint8Array,
    start: number,
    end: number,
    target: Uint8Array,
    at: number,
    length: number,
  ): boolean;
}
