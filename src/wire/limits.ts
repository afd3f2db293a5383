/** Bounds of the wire protocol (wire.md 1, 3, 6, 16). Sizes are bytes. */

/** Cap on a frame's length prefix, which counts the tag byte and the body: 16 MiB + 64 KiB. */
export const MAX_FRAME_LENGTH = 16_842_752;
/** The length prefix itself. */
export const FRAME_PREFIX_BYTES = 4;
/** Length prefix and tag. */
export const FRAME_HEADER_BYTES = 5;
/** Longest variable field (`len: u16`). */
export const MAX_VAR_BYTES = 65_535;
/** The only version of a block body. */
export const BLOCK_VERSION = 1;

/** Stream ids, subjects and subject patterns. */
export const MAX_NAME_BYTES = 1024;
export const MAX_TXN_ID_BYTES = 256;
export const MAX_LISTENER_GROUP_BYTES = 256;
/** Dedup ids; checked by the server after decoding (wire.md 8.2). */
export const MAX_PRODUCER_ID_BYTES = 256;
export const MAX_MSG_ID_BYTES = 256;

/** Bytes before the stream of a compressed payload. */
export const COMPRESSED_DESCRIPTOR_BYTES = 9;
/** Cap on the uncompressed length that a compressed payload may claim: 8 MiB. */
export const MAX_UNCOMPRESSED_BYTES = 8_388_608;

/** Stored record frames in one replication, mirror or leaf message (cluster.md 3): 8 MiB. */
export const MAX_PEER_FRAMES_BYTES = 8_388_608;
/** Stream names in mirror and leaf messages (cluster.md 18.1). */
export const MAX_GEO_NAME_BYTES = 255;

/** Largest offset that a JS number holds exactly. Offsets above it exist on the wire only with a lane in their top byte. */
export const MAX_OFFSET = Number.MAX_SAFE_INTEGER;
export const U64_MAX = 0xffff_ffff_ffff_ffffn;
export const U32_MAX = 0xffff_ffff;
