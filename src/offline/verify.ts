import { CURSOR_CAPACITY, decodeCursor } from "../log/checkpoint-payloads.ts";
import { readCheckpoint } from "../log/checkpoint-slots.ts";
import { parseGroupCheckpointName } from "../log/names.ts";
import { quarantineHeldBytes } from "../log/quarantine.ts";
import type { Codec } from "../runtime/codec.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { countDeadLetters, DEAD_LETTER_SINK } from "./dead-letters.ts";
import { pathOf, type ScrubbedLog, type ScrubOptions, scrub } from "./scrub.ts";

/** The committed offset of one group, checked against its log. */
export interface CheckedCursor {
  /** The log's, relative to the data directory. */
  readonly root: string;
  /** "" for the default group. */
  readonly group: string;
  readonly committed: number;
  /** Whether it lies between the first retained offset and the one after the last record. */
  readonly inRange: boolean;
}

export interface Verification {
  readonly logs: readonly ScrubbedLog[];
  readonly cursors: readonly CheckedCursor[];
  /** Records of the default sink that decode as dead letters. */
  readonly dlqRecords: number;
  /** Held in the quarantine directories of all logs. */
  readonly quarantineBytes: number;
  /** Undefined without a valid marker, which counts as version 1. */
  readonly layoutVersion: number | undefined;
}

/**
 * Scrubs a data directory and checks what goes with its logs: the layout marker, every cursor, the dead letters
 * (storage.md 21). A cursor file of which no slot is intact says nothing, which a broker takes as a group that never
 * committed. Changes nothing and takes no lock. Throws as scrub() does.
 */
export function verify(files: FileSystem, codec: Codec, options: ScrubOptions): Verification {
  const { dataDirectory } = options;
  const logs = scrub(files, codec, options);
  return {
    logs,
    cursors: logs.flatMap((log) => cursorsOf(files, codec, dataDirectory, log)),
    dlqRecords: countDeadLetters(files, codec, `${dataDirectory}/${DEAD_LETTER_SINK}`),
    quarantineBytes: logs.reduce((sum, { root }) => sum + quarantineHeldBytes(files, pathOf(dataDirectory, root)), 0),
    layoutVersion: logs[0].inspection.layoutVersion,
  };
}

function cursorsOf(
  files: FileSystem,
  codec: Codec,
  dataDirectory: string,
  { root, inspection }: ScrubbedLog,
): CheckedCursor[] {
  const directory = pathOf(dataDirectory, root);
  const cursors: CheckedCursor[] = [];
  for (const { name, kind } of files.list(directory)) {
    const checkpoint = kind === "file" ? parseGroupCheckpointName(name) : undefined;
    if (checkpoint?.kind !== "cursor") continue;
    const payload = readCheckpoint(files, `${directory}/${name}`, CURSOR_CAPACITY, codec)?.payload;
    const cursor = payload === undefined ? undefined : decodeCursor(payload, codec);
    if (cursor === undefined) continue;
    const { committed } = cursor;
    const inRange = committed >= inspection.earliestOffset && committed <= inspection.nextOffset;
    cursors.push({ root, group: checkpoint.group, committed, inRange });
  }
  return cursors;
}
