import type { Codec } from "../runtime/codec.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { decodeLayoutMarker, encodeLayoutMarker, LAYOUT_CAPACITY, LAYOUT_VERSION } from "./checkpoint-payloads.ts";
import { type CheckpointContent, encodeSlot, readCheckpoint, slotLength } from "./checkpoint-slots.ts";
import { LAYOUT_FILE } from "./names.ts";
import { StorageError } from "./storage-error.ts";

/** A layout that no build ever supports: the mark of a directory that a restore is still filling. */
export const RESTORING_LAYOUT_VERSION = 0xffff_ffff;

/**
 * Reads `layout.meta` of a log root (storage.md 8.3) and returns whether it has to be written: it is absent, torn or
 * foreign. Throws StorageError IncompatibleLayoutVersion for a valid marker of a newer layout; FileSystemError when it
 * cannot be read. Writes nothing.
 */
export function layoutNeedsMarker(files: FileSystem, root: string, codec: Codec): boolean {
  return layoutVersionOf(files, root, codec) !== LAYOUT_VERSION;
}

/** The layout that a valid `layout.meta` names, undefined when there is none. Throws as layoutNeedsMarker() does. */
export function layoutVersionOf(files: FileSystem, root: string, codec: Codec): number | undefined {
  const version = markerVersion(readMarker(files, root, codec));
  if (version === RESTORING_LAYOUT_VERSION) {
    throw new StorageError(
      "IncompatibleLayoutVersion",
      `a restore into ${root} did not finish (run \`restore\` into it again, with --force)`,
    );
  }
  if (version !== undefined && version > LAYOUT_VERSION) {
    throw new StorageError(
      "IncompatibleLayoutVersion",
      `${root} has directory layout ${version}, newer than this build supports (${LAYOUT_VERSION})`,
    );
  }
  return version;
}

/**
 * Writes the marker of this layout, or of another `version`. Throws FileSystemError; opening a log does not fail for it.
 */
export function writeLayoutMarker(files: FileSystem, root: string, codec: Codec, version = LAYOUT_VERSION): void {
  const writeNumber = (readMarker(files, root, codec)?.writeNumber ?? 0) + 1;
  const slot = new Uint8Array(slotLength(LAYOUT_CAPACITY));
  encodeSlot(slot, writeNumber, encodeLayoutMarker(version), codec);
  const file = files.open(`${root}/${LAYOUT_FILE}`, "create");
  try {
    file.write(slot, 0, slot.length, (writeNumber % 2) * slot.length);
    file.sync("full");
  } finally {
    file.close();
  }
}

function readMarker(files: FileSystem, root: string, codec: Codec): CheckpointContent | undefined {
  return readCheckpoint(files, `${root}/${LAYOUT_FILE}`, LAYOUT_CAPACITY, codec);
}

function markerVersion(content: CheckpointContent | undefined): number | undefined {
  return content?.payload === undefined ? undefined : decodeLayoutMarker(content.payload);
}
