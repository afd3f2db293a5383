import { DEAD_LETTER_SINK, type DeadLetter, DeadLetterSink } from "../offline/dead-letters.ts";
import { requireLogRoot } from "../offline/stopped-directory.ts";
import { createRuntime } from "../runtime/runtime.ts";
import { jsonString } from "./envelope.ts";
import { storageFailure } from "./storage-failure.ts";
import type { Context } from "./verb.ts";

/** Names that mean something else in a data directory (storage.md 2), so that no dead-letter exchange is called so. */
const RESERVED_NAMES = new Set([
  "quarantine",
  "orphans",
  "dicts",
  "txn",
  "streams",
  "pstreams",
  "prstreams",
  "shared-wal",
  "metaraft",
]);

/** Whether a dead-letter exchange may be called so: its directory's name comes from it (cli.md 4.3). */
export function isExchangeName(name: string): boolean {
  return /^[A-Za-z0-9._-]+$/.test(name) && name !== "." && name !== ".." && !RESERVED_NAMES.has(name);
}

export interface DeadLetterSelection {
  /** Undefined: the default sink. */
  readonly exchange: string | undefined;
  /** Undefined: all. */
  readonly limit: bigint | undefined;
  readonly json: boolean;
}

/** The frozen line of one dead letter (cli.md 5.2). Key and payload bytes are never part of it. */
function letterLine({ record, sourceOffset, group, attempt, reason }: DeadLetter, json: boolean): string {
  const { offset, timestampMs, storedPayloadLength, keyLength } = record;
  return json
    ? `{"dlq_offset":${offset},"source_offset":${sourceOffset},"group":${jsonString(group)},"attempt":${attempt},"ts_ms":${timestampMs},"bytes":${storedPayloadLength},"key_bytes":${keyLength},"reason":"${reason}"}`
    : `dlq_offset=${offset} source_offset=${sourceOffset} group=${jsonString(group)} attempt=${attempt} ts_ms=${timestampMs} bytes=${storedPayloadLength} key_bytes=${keyLength} reason=${reason}`;
}

/**
 * Prints the dead letters of one sink of a data directory, changing nothing and taking no lock; nothing when there is no
 * sink. Throws CliError as printRecords() does.
 */
export async function printDeadLetters(
  directory: string,
  { exchange, limit, json }: DeadLetterSelection,
  { output }: Context,
): Promise<number> {
  const { runtime } = createRuntime();
  const sink = `${directory}/${exchange ?? DEAD_LETTER_SINK}`;
  try {
    requireLogRoot(runtime.files, directory);
    const letters = new DeadLetterSink(runtime.files, runtime.codec, sink);
    let left = limit;
    if (left !== 0n) {
      for (const letter of letters) {
        output.line(letterLine(letter, json));
        if (output.full) {
          await output.flush();
        }
        if (left !== undefined && --left === 0n) {
          break;
        }
      }
    }
    await output.flush();
    const damaged = letters.losses().length;
    if (damaged > 0) {
      output.note(
        `note: the sink is damaged in ${damaged} place(s), \`verify\` shows where; what is there was not shown`,
      );
    }
    return 0;
  } catch (error) {
    throw storageFailure(error, "reading", directory);
  }
}
