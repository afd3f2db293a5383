import { layoutVersionOf } from "../log/layout-marker.ts";
import { parseSegmentName } from "../log/names.ts";
import { SEGMENT_HEADER_LENGTH } from "../log/segment.ts";
import { StorageError } from "../log/storage-error.ts";
import type { Codec } from "../runtime/codec.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { requireLogRoot } from "./stopped-directory.ts";

/** Position of the version byte in a segment header (storage.md 6.1). */
const VERSION_POSITION = 8;

/**
 * The format version that the first segment of a data directory is stamped with, read raw: the rest of its header may be
 * anything. Undefined without segments. Throws OfflineError, DataDirectoryError, StorageError SegmentDecode for a segment
 * that is too short for a header and IncompatibleLayoutVersion for a directory that no start of this build opens, and
 * FileSystemError.
 */
export function formatVersion(files: FileSystem, codec: Codec, dataDirectory: string): number | undefined {
  requireLogRoot(files, dataDirectory);
  layoutVersionOf(files, dataDirectory, codec);
  const first = files
    .list(dataDirectory)
    .find(({ name, kind }) => kind === "file" && parseSegmentName(name) !== undefined);
  if (first === undefined) return undefined;
  const header = new Uint8Array(SEGMENT_HEADER_LENGTH);
  const file = files.open(`${dataDirectory}/${first.name}`, "read");
  try {
    if (file.read(header, 0, header.length, 0) < header.length) {
      throw new StorageError("SegmentDecode", `segment decode error: ${first.name} is too short for a segment header`);
    }
  } finally {
    file.close();
  }
  return header[VERSION_POSITION];
}
