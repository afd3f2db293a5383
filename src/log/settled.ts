import type { Codec } from "../runtime/codec.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { CURSOR_CAPACITY, type CursorState, decodeCursor } from "./checkpoint-payloads.ts";
import { readCheckpoint } from "./checkpoint-slots.ts";
import { parseGroupCheckpointName } from "./names.ts";

/**
 * The cursors that the groups of a log root have on the disk, `undefined` for one that is damaged. Those that were never
 * written are left out. Throws FileSystemError.
 */
function* storedCursors(files: FileSystem, codec: Codec, root: string): Generator<CursorState | undefined> {
  for (const { name, kind } of files.list(root)) {
    if (kind !== "file" || parseGroupCheckpointName(name)?.kind !== "cursor") continue;
    const content = readCheckpoint(files, `${root}/${name}`, CURSOR_CAPACITY, codec);
    if (content === undefined || content.state === "empty") continue;
    yield content.payload === undefined ? undefined : decodeCursor(content.payload, codec);
  }
}

/** The offset below which some group has settled everything, the highest such of all groups. Throws FileSystemError. */
export function highestCommitted(files: FileSystem, codec: Codec, root: string): number {
  let highest = 0;
  for (const cursor of storedCursors(files, codec, root)) highest = Math.max(highest, cursor?.committed ?? 0);
  return highest;
}

/**
 * Whether the log of `root` is known to have held records, or may have for all that a damaged cursor says. Throws
 * FileSystemError.
 */
export function mayHaveSettled(files: FileSystem, codec: Codec, root: string): boolean {
  for (const cursor of storedCursors(files, codec, root)) {
    if (cursor === undefined || cursor.committed > 0 || cursor.runs.length > 0) return true;
  }
  return false;
}
