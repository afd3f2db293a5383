import type { Codec } from "../runtime/codec.ts";
import { readUint64, viewOf, writeUint64 } from "./u64.ts";

/**
 * Segment header, footer and compaction block (storage.md 6 and 7). A segment file is
 * [ header 64 ][ record frames ][ footer 32, once sealed ][ compaction block 44, version 2 only ].
 */

export const SEGMENT_HEADER_LENGTH = 64;
export const SEGMENT_FOOTER_LENGTH = 32;
export const COMPACTION_META_LENGTH = 44;
/** Smallest accepted roll size: header, footer and two empty records. */
export const MIN_SEGMENT_BYTES = 184;
export const MAX_RECORDS_PER_SEGMENT = 0xffff_ffff;

export const SegmentFlag = { Compacted: 0x0001, Encrypted: 0x0002 } as const;

const HEADER_MAGIC = [0x49, 0x52, 0x4f, 0x4e, 0x42, 0x55, 0x53, 0x00];
const FOOTER_MAGIC = 0x4653;
const CHECKSUM_CRC32C = 1;

export type SegmentErrorKind =
  | "Truncated"
  | "BadMagic"
  | "UnsupportedVersion"
  | "UnsupportedChecksum"
  | "BadCrc"
  /** The version byte and the COMPACTED flag disagree. */
  | "BadVersion"
  | "OutOfRange";

/** A segment header, footer or compaction block that is not one. */
export class SegmentError extends Error {
  override readonly name = "SegmentError";
  readonly kind: SegmentErrorKind;

  constructor(kind: SegmentErrorKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

export interface SegmentHeader {
  /** u16; bits other than those of SegmentFlag are kept and not interpreted. */
  readonly flags: number;
  readonly segmentId: number;
  readonly baseSequence: number;
  readonly baseOffset: number;
  /** Wall clock of the broker, u64; data, never used for ordering. */
  readonly createdUnixMs: bigint;
  /** 0 none, 1 AES-256-GCM, 2 ChaCha20-Poly1305. */
  readonly aeadSuite: number;
  /** u64, 0 when not encrypted. */
  readonly keyId: bigint;
}

/** What a header is made from; what is left out is 0, as in an ordinary segment. */
export interface NewSegmentHeader {
  readonly flags?: number;
  readonly segmentId: number;
  readonly baseSequence: number;
  readonly baseOffset: number;
  readonly createdUnixMs: number | bigint;
  readonly aeadSuite?: number;
  readonly keyId?: bigint;
}

export interface SegmentFooter {
  /** 1, or 2 behind a compacted body; equals the header's. */
  readonly version: number;
  readonly segmentId: number;
  readonly lastSequence: number;
  readonly recordCount: number;
}

/** What a footer is made from; the version is 1 unless the segment is compacted. */
export interface NewSegmentFooter {
  readonly version?: number;
  readonly segmentId: number;
  readonly lastSequence: number;
  readonly recordCount: number;
}

export interface CompactionMeta {
  readonly coveredBaseOffset: number;
  /** Exclusive. */
  readonly coveredEndOffset: number;
  readonly coveredBaseSequence: number;
  /** Exclusive. */
  readonly coveredEndSequence: number;
  readonly highestCoveredSourceId: number;
}

/** Version byte that goes with a header's flags. */
export function segmentVersion(flags: number): number {
  return flags & SegmentFlag.Compacted ? 2 : 1;
}

/** The 64 header bytes. Throws RangeError for a value outside of its field. */
export function encodeSegmentHeader(header: NewSegmentHeader, codec: Codec): Uint8Array {
  const flags = header.flags ?? 0;
  const bytes = new Uint8Array(SEGMENT_HEADER_LENGTH);
  const view = viewOf(bytes);
  bytes.set(HEADER_MAGIC);
  bytes[8] = segmentVersion(flags);
  bytes[9] = CHECKSUM_CRC32C;
  view.setUint16(10, flags, true);
  writeUint64(view, 12, header.segmentId);
  writeUint64(view, 20, header.baseSequence);
  writeUint64(view, 28, header.baseOffset);
  view.setBigUint64(36, BigInt(header.createdUnixMs), true);
  bytes[44] = header.aeadSuite ?? 0;
  view.setBigUint64(45, header.keyId ?? 0n, true);
  view.setUint32(60, codec.crc32c(bytes, 0, 60), true);
  return bytes;
}

/** Decodes the first 64 bytes. Throws SegmentError. */
export function decodeSegmentHeader(bytes: Uint8Array, codec: Codec): SegmentHeader {
  if (bytes.length < SEGMENT_HEADER_LENGTH) throw new SegmentError("Truncated", "segment header is truncated");
  const view = viewOf(bytes);
  for (let i = 0; i < HEADER_MAGIC.length; i++) {
    if (bytes[i] !== HEADER_MAGIC[i]) throw new SegmentError("BadMagic", "segment header has a bad magic number");
  }
  checkVersionAndChecksum("header", bytes[8], bytes[9]);
  if (!segmentHeaderCrcHolds(bytes, codec)) throw new SegmentError("BadCrc", "segment header CRC mismatch");
  const flags = view.getUint16(10, true);
  if (bytes[8] !== segmentVersion(flags)) {
    throw new SegmentError("BadVersion", `segment header version ${bytes[8]} does not go with its flags ${flags}`);
  }
  const header: SegmentHeader = {
    flags,
    segmentId: readUint64(view, 12),
    baseSequence: readUint64(view, 20),
    baseOffset: readUint64(view, 28),
    createdUnixMs: view.getBigUint64(36, true),
    aeadSuite: bytes[44],
    keyId: view.getBigUint64(45, true),
  };
  checkRange("header", [header.segmentId, header.baseSequence, header.baseOffset]);
  return header;
}

/** True when the first 64 bytes end with the CRC of what is before it, whatever that says. */
export function segmentHeaderCrcHolds(bytes: Uint8Array, codec: Codec): boolean {
  return bytes.length >= SEGMENT_HEADER_LENGTH && viewOf(bytes).getUint32(60, true) === codec.crc32c(bytes, 0, 60);
}

/** The 32 footer bytes. Throws RangeError for a value outside of its field. */
export function encodeSegmentFooter(footer: NewSegmentFooter, codec: Codec): Uint8Array {
  if (footer.recordCount > MAX_RECORDS_PER_SEGMENT) throw new RangeError("more records than a segment can count");
  const bytes = new Uint8Array(SEGMENT_FOOTER_LENGTH);
  const view = viewOf(bytes);
  view.setUint16(0, FOOTER_MAGIC, true);
  bytes[2] = footer.version ?? 1;
  bytes[3] = CHECKSUM_CRC32C;
  writeUint64(view, 4, footer.segmentId);
  writeUint64(view, 12, footer.lastSequence);
  view.setUint32(20, footer.recordCount, true);
  view.setUint32(28, codec.crc32c(bytes, 0, 28), true);
  return bytes;
}

/**
 * Decodes the first 32 bytes. Throws SegmentError. A decoded footer is a candidate only: it is to be believed when the
 * body agrees with it (storage.md 6.2).
 */
export function decodeSegmentFooter(bytes: Uint8Array, codec: Codec): SegmentFooter {
  if (bytes.length < SEGMENT_FOOTER_LENGTH) throw new SegmentError("Truncated", "segment footer is truncated");
  const view = viewOf(bytes);
  if (view.getUint16(0, true) !== FOOTER_MAGIC) {
    throw new SegmentError("BadMagic", "segment footer has a bad magic number");
  }
  checkVersionAndChecksum("footer", bytes[2], bytes[3]);
  if (view.getUint32(28, true) !== codec.crc32c(bytes, 0, 28)) {
    throw new SegmentError("BadCrc", "segment footer CRC mismatch");
  }
  const footer: SegmentFooter = {
    version: bytes[2],
    segmentId: readUint64(view, 4),
    lastSequence: readUint64(view, 12),
    recordCount: view.getUint32(20, true),
  };
  checkRange("footer", [footer.segmentId, footer.lastSequence]);
  return footer;
}

/** The 44 bytes behind the footer of a compacted segment. Throws RangeError for a value outside of its field. */
export function encodeCompactionMeta(meta: CompactionMeta, codec: Codec): Uint8Array {
  const bytes = new Uint8Array(COMPACTION_META_LENGTH);
  const view = viewOf(bytes);
  writeUint64(view, 0, meta.coveredBaseOffset);
  writeUint64(view, 8, meta.coveredEndOffset);
  writeUint64(view, 16, meta.coveredBaseSequence);
  writeUint64(view, 24, meta.coveredEndSequence);
  writeUint64(view, 32, meta.highestCoveredSourceId);
  view.setUint32(40, codec.crc32c(bytes, 0, 40), true);
  return bytes;
}

/** Decodes the first 44 bytes. Throws SegmentError. */
export function decodeCompactionMeta(bytes: Uint8Array, codec: Codec): CompactionMeta {
  if (bytes.length < COMPACTION_META_LENGTH) throw new SegmentError("Truncated", "compaction block is truncated");
  const view = viewOf(bytes);
  if (view.getUint32(40, true) !== codec.crc32c(bytes, 0, 40)) {
    throw new SegmentError("BadCrc", "compaction block CRC mismatch");
  }
  const meta: CompactionMeta = {
    coveredBaseOffset: readUint64(view, 0),
    coveredEndOffset: readUint64(view, 8),
    coveredBaseSequence: readUint64(view, 16),
    coveredEndSequence: readUint64(view, 24),
    highestCoveredSourceId: readUint64(view, 32),
  };
  checkRange("compaction block", Object.values(meta));
  return meta;
}

function checkVersionAndChecksum(what: string, version: number, checksum: number): void {
  if (version !== 1 && version !== 2) {
    throw new SegmentError("UnsupportedVersion", `unsupported segment ${what} version ${version}`);
  }
  if (checksum !== CHECKSUM_CRC32C) {
    throw new SegmentError("UnsupportedChecksum", `unsupported segment ${what} checksum algorithm ${checksum}`);
  }
}

function checkRange(what: string, values: number[]): void {
  if (values.includes(-1)) throw new SegmentError("OutOfRange", `segment ${what} holds a number above 2^53 - 1`);
}
