/** The numbers of a record frame (storage.md 3), for the TypeScript codec. */

/** First two bytes of a frame, little-endian. */
export const MAGIC = 0x4942;
export const VERSION = 1;
export const HEADER_BYTES = 36;
export const TRAILER_BYTES = 8;
export const XXH3_BYTES = 8;
/** Bodies of this length and more carry an xxh3. */
export const XXH3_FROM_BYTES = 65_536;
/** Format ceiling of a frame. */
export const MAX_FRAME_BYTES = 0x4000_0000;

export const COMPRESSED = 0x01;
export const HAS_KEY = 0x02;
export const HAS_XXH3 = 0x04;
export const HAS_SUBJECT = 0x08;
export const HAS_STREAM_TAG = 0x10;
export const ENCRYPTED = 0x20;
