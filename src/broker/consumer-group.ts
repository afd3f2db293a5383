import { CheckpointFile, type CheckpointOptions } from "../log/checkpoint-file.ts";
import {
  ATTEMPTS_CAPACITY,
  CURSOR_CAPACITY,
  decodeAttempts,
  decodeCursor,
  encodeAttempts,
  encodeCursor,
} from "../log/checkpoint-payloads.ts";
import { groupCheckpointName } from "../log/names.ts";
import type { CursorSnapshot } from "../queue/cursor.ts";
import { Group } from "../queue/group.ts";
import type { GroupOptions } from "../queue/group-options.ts";
import type { Codec } from "../runtime/codec.ts";
import { FileSystemError } from "../runtime/file-system.ts";

/**
 * A position is this old on disk at most while the group makes progress: a crash must not repeat hours of a slow consumer's
 * work because it never settles a checkpoint interval. One small write in this time is what flash bears.
 */
const SAVE_AFTER_MS = 5_000;

/** How a group's files are opened; the name, capacity and payload are filled in here. */
export interface CheckpointHome extends Omit<CheckpointOptions, "name" | "capacity" | "initialPayload"> {
  /** What the file held is lost, and the group goes on without it (README ruling 13). */
  readonly onDamaged: (path: string) => void;
}

/** A group and its files: `cursor*.ckpt` and `attempts*.ckpt` (semantics.md 9, storage.md 8.4). */
export class ConsumerGroup {
  readonly name: string;
  readonly group: Group;
  /** Records settled by acks and terms since the broker was started. */
  consumed = 0;
  readonly #home: CheckpointHome;
  readonly #codec: Codec;
  readonly #interval: number;
  #cursorFile: CheckpointFile | undefined;
  #attemptsFile: CheckpointFile | undefined;
  #savedCommitted: number;
  /** The last save of the cursor failed. */
  #unsaved = false;
  /** Since when the file has been behind the group, as far as tick() saw. */
  #behindSinceMs: number | undefined;
  #closed = false;

  /**
   * Resumes the group from its files. The default group's are created at once; those of a named group exist from its
   * first checkpoint on. `head` is the visible head; `interval` the committed records between two cursor checkpoints.
   */
  constructor(name: string, options: GroupOptions, home: CheckpointHome, interval: number, head: number) {
    this.name = name;
    this.#home = home;
    this.#codec = home.codec;
    this.#interval = Math.max(1, interval);
    if (this.#isPresent("cursor")) this.#cursorFile = this.#openCursor({ committed: 0, runs: [] });
    if (this.#isPresent("attempts")) this.#attemptsFile = this.#openAttempts();
    const cursor = this.#contentOf(this.#cursorFile, decodeCursor) ?? { committed: 0, runs: [] };
    const attempts = this.#contentOf(this.#attemptsFile, decodeAttempts) ?? [];
    this.group = Group.resume(options, cursor, attempts, head);
    this.#savedCommitted = this.group.committed;
    // The log lost its end: what is stored about it must not be taken for the records that get those offsets next.
    if (cursor.committed > head || cursor.runs.some(({ end }) => end > head)) {
      this.#cursorFile?.saveNow(encodeCursor(this.group.takeSnapshot(), this.#codec));
    }
    if (attempts.some(({ offset }) => offset >= head)) {
      this.#attemptsFile?.saveNow(encodeAttempts(this.group.attemptsSnapshot(), this.#codec));
    }
  }

  /** Called after the replies of a turn that polled or settled. */
  turnEnded(): void {
    if (this.group.committed - this.#savedCommitted >= this.#interval) {
      this.#saveCursor();
      this.#saveAttempts();
    } else if (this.group.redeliveriesSinceFlush > 0) {
      this.#saveAttempts();
    }
  }

  /** A consumer went away: what it settled is kept. */
  consumerLeft(): void {
    if (this.#closed) return;
    if (this.#settledAnything()) this.#saveCursor();
    if (this.group.redeliveriesSinceFlush > 0) this.#saveAttempts();
  }

  /** Now and then: counts that waited for an earlier save, and the position of a group that settles slowly. */
  tick(nowMs: number): void {
    if (this.group.redeliveriesSinceFlush > 0) this.#saveAttempts();
    if (this.group.committed === this.#savedCommitted) {
      this.#behindSinceMs = undefined;
      return;
    }
    this.#behindSinceMs ??= nowMs;
    if (nowMs - this.#behindSinceMs < SAVE_AFTER_MS) return;
    this.#behindSinceMs = undefined;
    this.#saveCursor();
  }

  /** The last save, once nothing is settled any more; returns when everything is on disk or reported. */
  async close(): Promise<void> {
    // Consumers that go away from here on change nothing, and a save of theirs could outlive the queue.
    this.#closed = true;
    if (this.#settledAnything()) this.#saveCursor();
    this.#saveAttempts();
    await this.#cursorFile?.idle();
    await this.#attemptsFile?.idle();
    if (this.group.redeliveriesSinceFlush > 0) {
      this.#saveAttempts();
      await this.#attemptsFile?.idle();
    }
    this.#cursorFile?.close();
    this.#attemptsFile?.close();
  }

  #settledAnything(): boolean {
    return this.#unsaved || this.group.committed > this.#savedCommitted || this.group.hasSettledAhead;
  }

  #saveCursor(): void {
    const snapshot = this.group.takeSnapshot();
    this.#savedCommitted = snapshot.committed;
    this.#unsaved = false;
    if (this.#cursorFile !== undefined) {
      this.#cursorFile.save(encodeCursor(snapshot, this.#codec));
      return;
    }
    this.#reporting(() => {
      this.#cursorFile = this.#openCursor(snapshot);
    });
    if (this.#cursorFile === undefined) this.#unsaved = true;
  }

  #saveAttempts(): void {
    // Up to 32 KiB: while one is being synced the next waits for its turn rather than being encoded every time.
    if (this.#attemptsFile?.busy === true) return;
    const pairs = this.group.attemptsSnapshot();
    this.group.markAttemptsFlushed();
    if (this.#attemptsFile === undefined) {
      if (pairs.length === 0) return;
      this.#reporting(() => {
        this.#attemptsFile = this.#openAttempts();
      });
    }
    this.#attemptsFile?.save(encodeAttempts(pairs, this.#codec));
  }

  #contentOf<T>(
    file: CheckpointFile | undefined,
    decode: (payload: Uint8Array, codec: Codec) => T | undefined,
  ): T | undefined {
    if (file === undefined) return undefined;
    const content = file.payload === undefined ? undefined : decode(file.payload, this.#codec);
    if (content === undefined && file.state !== "empty") this.#home.onDamaged(file.path);
    return content;
  }

  #isPresent(kind: "cursor" | "attempts"): boolean {
    if (this.name === "") return true;
    try {
      return this.#home.files.stat(`${this.#home.root}/${groupCheckpointName(kind, this.name)}`) !== undefined;
    } catch (error) {
      // A legal group name whose file name is too long for the disk (storage.md 2): the group works, unsaved.
      if (error instanceof FileSystemError && error.code === "ENAMETOOLONG") return false;
      throw error;
    }
  }

  /** A checkpoint that cannot be created is told about and costs redelivery, not the consumer. */
  #reporting(create: () => void): void {
    try {
      create();
    } catch (error) {
      if (!(error instanceof FileSystemError)) throw error;
      this.#home.onError(error);
    }
  }

  #openCursor(initial: CursorSnapshot): CheckpointFile {
    return CheckpointFile.open({
      ...this.#home,
      onError: (error) => {
        this.#unsaved = true;
        this.#home.onError(error);
      },
      name: groupCheckpointName("cursor", this.name),
      capacity: CURSOR_CAPACITY,
      initialPayload: encodeCursor(initial, this.#codec),
    });
  }

  #openAttempts(): CheckpointFile {
    return CheckpointFile.open({
      ...this.#home,
      name: groupCheckpointName("attempts", this.name),
      capacity: ATTEMPTS_CAPACITY,
      initialPayload: encodeAttempts([], this.#codec),
    });
  }
}
