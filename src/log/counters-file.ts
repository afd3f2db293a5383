import { type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import { CheckpointFile, type CheckpointOptions } from "./checkpoint-file.ts";
import { COUNTERS_CAPACITY } from "./checkpoint-payloads.ts";
import { readSlots } from "./checkpoint-slots.ts";
import type { Counters, Opening } from "./counters.ts";
import { readLossReport, skippedBytes } from "./loss-report.ts";
import { COUNTERS_FILE } from "./names.ts";

/** While something is counted, the file is this old at most: with the positions of the groups, and as cheap. */
const SAVE_AFTER_MS = 5_000;

export interface CountersFileOptions
  extends Omit<CheckpointOptions, "name" | "capacity" | "initialPayload" | "onError"> {
  /** Nothing is written: the directory was opened read-only. */
  readonly readOnly: boolean;
}

/**
 * `counters.ckpt` (storage.md 8.3, observability.md 2.6): what a broker counted, as a lower bound after a crash. It only
 * ever serves those who look on, so no failure of it stops anything.
 */
export class CountersFile {
  readonly #counters: Counters;
  readonly #file: CheckpointFile | undefined;
  #saved: Uint8Array;
  #behindSinceMs: number | undefined;

  /** Restores the counters and counts this opening. */
  constructor(counters: Counters, opening: Omit<Opening, "report">, options: CountersFileOptions) {
    this.#counters = counters;
    const { files, root } = options;
    const saved = attempt(() => readCounters(options));
    if (saved !== undefined) counters.restore(saved);
    const report = attempt(() => readReport(files, root)) ?? { bytes: 0, records: 0 };
    counters.opened({ ...opening, report });
    this.#saved = counters.encode();
    if (options.readOnly) return;
    this.#file = attempt(() =>
      CheckpointFile.open({
        ...options,
        name: COUNTERS_FILE,
        capacity: COUNTERS_CAPACITY,
        initialPayload: this.#saved,
        // Swallowed: the next save tries again (storage.md 8.4).
        onError: () => {},
      }),
    );
    // A crash from here on must not count the opening's repairs once more.
    if (saved !== undefined) this.#file?.save(this.#saved);
  }

  /** A few times a second. */
  tick(nowMs: number): void {
    if (this.#file === undefined) return;
    if (this.#behindSinceMs === undefined) {
      if (!equal(this.#counters.encode(), this.#saved)) this.#behindSinceMs = nowMs;
      return;
    }
    if (nowMs - this.#behindSinceMs < SAVE_AFTER_MS) return;
    this.#save();
  }

  /** The last save; resolves when it is on disk or failed. */
  async close(): Promise<void> {
    if (this.#file === undefined) return;
    this.#save();
    await this.#file.idle();
    this.#file.close();
  }

  #save(): void {
    this.#behindSinceMs = undefined;
    const payload = this.#counters.encode();
    if (equal(payload, this.#saved)) return;
    this.#saved = payload;
    this.#file?.save(payload);
  }
}

function equal(left: Uint8Array, right: Uint8Array): boolean {
  return Buffer.compare(left, right) === 0;
}

/** The payload of the file, without creating or changing it. */
function readCounters({ files, root, codec }: CountersFileOptions): Uint8Array | undefined {
  const path = `${root}/${COUNTERS_FILE}`;
  if (files.stat(path)?.kind !== "file") return undefined;
  const file = files.open(path, "read");
  try {
    return readSlots(file, COUNTERS_CAPACITY, codec).payload;
  } finally {
    file.close();
  }
}

function readReport(files: FileSystem, root: string): Opening["report"] | undefined {
  const events = readLossReport(files, root);
  if (events === undefined) return undefined;
  const report = { bytes: 0, records: 0 };
  for (const event of events) {
    report.bytes += skippedBytes(event);
    report.records += event.recordsLostEstimate;
  }
  return report;
}

function attempt<T>(step: () => T): T | undefined {
  try {
    return step();
  } catch (error) {
    if (error instanceof FileSystemError) return undefined;
    throw error;
  }
}
