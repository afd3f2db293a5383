import type { Codec } from "../runtime/codec.ts";
import { type File, type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import { ByteWindow } from "./byte-window.ts";
import { claimAt } from "./frame-claim.ts";
import { PatchyFile } from "./patchy-file.ts";
import {
  decodeSegmentFooter,
  decodeSegmentHeader,
  SEGMENT_FOOTER_LENGTH,
  SEGMENT_HEADER_LENGTH,
  SegmentError,
  type SegmentFooter,
  type SegmentHeader,
  segmentHeaderCrcHolds,
} from "./segment.ts";
import { type ListedFile, refuseUnsupported } from "./segment-chain.ts";
import { StorageError } from "./storage-error.ts";

/** A file named as a segment, and what it says of its place in the log. */
export interface FoundSegment {
  /** As the header says, or the name when there is no header. */
  readonly id: number;
  readonly nameId: number;
  readonly path: string;
  readonly size: number;
  /** Undefined when it does not hold. */
  readonly header: SegmentHeader | undefined;
  /** Of the first record: from the header, else from what else of the file holds. */
  readonly baseSequence: number | undefined;
  /** Not even its beginning can be read: nothing of it counts. */
  readonly unreadable: boolean;
}

/**
 * Looks at a segment's header, and without one at the first frame and the footer, whose places are known as well.
 * Throws StorageError for an intact header of a version or with a feature that this build does not have, and
 * FileSystemError when the file cannot be opened.
 */
export function findSegment(files: FileSystem, codec: Codec, listed: ListedFile): FoundSegment {
  const { id: nameId, path, size } = listed;
  const common = { id: nameId, nameId, path, size, header: undefined, baseSequence: undefined };
  let file: File;
  try {
    file = files.open(path, "read");
  } catch (error) {
    if (!isReadError(error)) throw error;
    return { ...common, unreadable: true };
  }
  try {
    const bytes = new Uint8Array(Math.min(size, SEGMENT_HEADER_LENGTH));
    const patchy = new PatchyFile(file);
    patchy.read(bytes, 0, bytes.length, 0);
    if (patchy.failures > 0) return { ...common, unreadable: true };
    const header = headerOf(bytes, codec, nameId);
    if (header !== undefined) {
      return { ...common, id: header.segmentId, header, baseSequence: header.baseSequence, unreadable: false };
    }
    const claim = claimAt(new ByteWindow(patchy), SEGMENT_HEADER_LENGTH, size, codec);
    if (claim !== undefined && !claim.corrected && claim.sequence >= 0) {
      return { ...common, baseSequence: claim.sequence, unreadable: false };
    }
    const footer = footerOf(patchy, size, codec);
    const baseSequence =
      footer?.segmentId === nameId && footer.lastSequence + 1 >= footer.recordCount
        ? footer.lastSequence + 1 - footer.recordCount
        : undefined;
    return { ...common, baseSequence, unreadable: false };
  } finally {
    file.close();
  }
}

/** True for the errors that say that the medium is damaged, not that the directory is set up wrongly. */
export function isReadError(error: unknown): boolean {
  return error instanceof FileSystemError && error.code === "EIO";
}

function headerOf(bytes: Uint8Array, codec: Codec, nameId: number): SegmentHeader | undefined {
  if (!segmentHeaderCrcHolds(bytes, codec)) return undefined;
  let header: SegmentHeader;
  try {
    header = decodeSegmentHeader(bytes, codec);
  } catch (error) {
    if (!(error instanceof SegmentError)) throw error;
    // All zeros but for the CRC of zeros is no header of a later version.
    if (error.kind === "BadMagic") return undefined;
    const message = `segment decode error: ${error.message} (segment ${nameId})`;
    throw new StorageError("SegmentDecode", message, { cause: error });
  }
  refuseUnsupported(header);
  return header;
}

function footerOf(file: PatchyFile, size: number, codec: Codec): SegmentFooter | undefined {
  const position = size - SEGMENT_FOOTER_LENGTH;
  if (position < SEGMENT_HEADER_LENGTH) return undefined;
  const bytes = new Uint8Array(SEGMENT_FOOTER_LENGTH);
  file.read(bytes, 0, bytes.length, position);
  try {
    return decodeSegmentFooter(bytes, codec);
  } catch (error) {
    if (error instanceof SegmentError) return undefined;
    throw error;
  }
}
