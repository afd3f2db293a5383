import { type File, FileSystemError } from "../runtime/file-system.ts";

/**
 * Reads buffer[offset, offset + length) from `position`, where the file is known to be that long. Fewer bytes are an
 * error, never the end of the data: what follows may decide what is cut off. Throws FileSystemError.
 */
export function readExactly(
  file: Pick<File, "path" | "read">,
  buffer: Uint8Array,
  offset: number,
  length: number,
  position: number,
): void {
  const read = file.read(buffer, offset, length, position);
  if (read < length) {
    throw new FileSystemError("EIO", "read", file.path, `${read} of ${length} bytes at ${position}: file cut short`);
  }
}
