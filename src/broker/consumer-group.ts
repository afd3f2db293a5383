import { CheckpointFile, type CheckpointOptions } from "../log/checkpoint-file.ts";
import {
  ATTEMPTS_CAPACITY,
  CURSOR_CAPACITY,
  decodeAttempts,
  decodeCursor,
  encodeAttempts,
  encodeCursor,
} from "../log/checkpoint-payloads.ts";
import { type CheckpointContent, readCheckpoint } from "../log/checkpoint-slots.ts";
import { groupCheckpointName } from "../log/names.ts";
import type { AttemptCount, CursorSnapshot } from "../queue/cursor.ts";
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
  /** The group had settled records up to `until`, and the log ends before it: what lies between is lost. */
  readonly onAhead?: (group: string, until: number, head: number) => void;
  /** The files are read and left as they are; what is settled is remembered in memory only. */
  readonly readOnly: boolean;
  /**
   * Whether `root` is still the directory of the log (README ruling 12): in another one no file is looked for or made, while
   * what is open goes on being written. Default: always.
   */
  readonly isInPlace?: () => boolean;
}

const NOTHING_SETTLED: CursorSnapshot = { committed: 0, runs: [] };

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
  /** The last save failed, or the file could not even be made. */
  #cursorUnsaved = false;
  #attemptsUnsaved = false;
  /** Since when a file has been behind the group, as far as tick() saw. */
  #behindSinceMs: number | undefined;
  /** The committed offset that was last seen to be on disk. */
  #durableCommitted: number;
  /** It held positions when it was opened, or a consumer has polled it since. */
  #inUse: boolean;
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
    const cursor = this.#loadCursor();
    const attempts = this.#loadAttempts();
    this.group = Group.resume(options, cursor, attempts, head);
    this.#savedCommitted = this.group.committed;
    this.#durableCommitted = this.group.committed;
    this.#inUse = name !== "" || cursor.committed > 0 || cursor.runs.length > 0 || attempts.length > 0;
    const settledUntil = cursor.runs.reduce((last, { end }) => Math.max(last, end), cursor.committed);
    if (settledUntil > head) home.onAhead?.(name, settledUntil, head);
    // The log lost its end: what is stored about it must not be taken for the records that get those offsets next.
    this.#reporting(() => {
      if (settledUntil > head) {
        this.#cursorUnsaved = true;
        this.#cursorFile?.saveNow(encodeCursor(this.group.takeSnapshot(), this.#codec));
        this.#cursorUnsaved = false;
      }
      if (attempts.some(({ offset }) => offset >= head)) {
        this.#attemptsUnsaved = true;
        this.#attemptsFile?.saveNow(encodeAttempts(this.group.attemptsSnapshot(), this.#codec));
        this.#attemptsUnsaved = false;
      }
    });
  }

  /**
   * Whether retention keeps what the group has not settled (storage.md 20.1): every named group's, and the default group's
   * once it has a position or was polled.
   */
  get holdsRetention(): boolean {
    return this.#inUse;
  }

  /** What was settled could not be written so far: after close() it is delivered again by the next start. */
  get positionUnsaved(): boolean {
    return this.#cursorUnsaved;
  }

  /** Something that was settled or counted could not be written so far. */
  get #unsaved(): boolean {
    return this.#cursorUnsaved || this.#attemptsUnsaved;
  }

  /**
   * Below it a crash brings nothing back: what retention may remove. Where a position cannot be written, as on a full disk,
   * the one in memory counts, since room may come by that removal alone.
   */
  get durableCommitted(): number {
    if (this.#cursorUnsaved) return this.group.committed;
    if (this.#cursorFile?.busy !== true) this.#durableCommitted = this.#savedCommitted;
    return this.#durableCommitted;
  }

  /** Has the position on disk soon, if it is behind. */
  persist(): void {
    if (this.group.committed > this.#savedCommitted) this.#saveCursor();
  }

  /** A consumer polls it. */
  use(): void {
    this.#inUse = true;
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
    if (this.group.committed === this.#savedCommitted && !this.#unsaved) {
      this.#behindSinceMs = undefined;
      return;
    }
    this.#behindSinceMs ??= nowMs;
    if (nowMs - this.#behindSinceMs < SAVE_AFTER_MS) return;
    this.#behindSinceMs = undefined;
    if (this.group.committed !== this.#savedCommitted || this.#cursorUnsaved) this.#saveCursor();
    if (this.#attemptsUnsaved) this.#saveAttempts();
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
    return this.#cursorUnsaved || this.group.committed > this.#savedCommitted || this.group.hasSettledAhead;
  }

  #saveCursor(): void {
    const snapshot = this.group.takeSnapshot();
    this.#savedCommitted = snapshot.committed;
    if (this.#home.readOnly) return;
    this.#cursorUnsaved = false;
    if (this.#cursorFile !== undefined) {
      this.#cursorFile.save(encodeCursor(snapshot, this.#codec));
      return;
    }
    this.#reporting(() => {
      if (this.#mayCreate) this.#cursorFile = this.#openCursor(snapshot);
    });
    if (this.#cursorFile === undefined) this.#cursorUnsaved = true;
  }

  #saveAttempts(): void {
    // Up to 32 KiB: while one is being synced the next waits for its turn rather than being encoded every time.
    if (this.#attemptsFile?.busy === true) return;
    const pairs = this.group.attemptsSnapshot();
    this.group.markAttemptsFlushed();
    if (this.#home.readOnly) return;
    this.#attemptsUnsaved = false;
    if (this.#attemptsFile === undefined) {
      if (pairs.length === 0) return;
      this.#reporting(() => {
        if (this.#mayCreate) this.#attemptsFile = this.#openAttempts();
      });
    }
    if (this.#attemptsFile === undefined) this.#attemptsUnsaved = true;
    this.#attemptsFile?.save(encodeAttempts(pairs, this.#codec));
  }

  #loadCursor(): CursorSnapshot {
    if (!this.#isPresent("cursor")) return NOTHING_SETTLED;
    if (!this.#home.readOnly) this.#cursorFile = this.#openCursor(NOTHING_SETTLED);
    const content = this.#cursorFile ?? this.#readContent("cursor", CURSOR_CAPACITY);
    return this.#decoded(content, "cursor", decodeCursor) ?? NOTHING_SETTLED;
  }

  #loadAttempts(): readonly AttemptCount[] {
    if (!this.#isPresent("attempts")) return [];
    if (!this.#home.readOnly) this.#attemptsFile = this.#openAttempts();
    const content = this.#attemptsFile ?? this.#readContent("attempts", ATTEMPTS_CAPACITY);
    return this.#decoded(content, "attempts", decodeAttempts) ?? [];
  }

  #readContent(kind: "cursor" | "attempts", capacity: number): CheckpointContent | undefined {
    return readCheckpoint(this.#home.files, this.#pathOf(kind), capacity, this.#codec);
  }

  #decoded<T>(
    content: Pick<CheckpointContent, "state" | "payload"> | undefined,
    kind: "cursor" | "attempts",
    decode: (payload: Uint8Array, codec: Codec) => T | undefined,
  ): T | undefined {
    if (content === undefined) return undefined;
    const decoded = content.payload === undefined ? undefined : decode(content.payload, this.#codec);
    if (decoded === undefined && content.state !== "empty") this.#home.onDamaged(this.#pathOf(kind));
    return decoded;
  }

  #pathOf(kind: "cursor" | "attempts"): string {
    return `${this.#home.root}/${groupCheckpointName(kind, this.name)}`;
  }

  #isPresent(kind: "cursor" | "attempts"): boolean {
    if (this.name === "") return true;
    if (!this.#mayCreate) return false;
    try {
      return this.#home.files.stat(this.#pathOf(kind)) !== undefined;
    } catch (error) {
      // A legal group name whose file name is too long for the disk (storage.md 2): the group works, unsaved.
      if (error instanceof FileSystemError && error.code === "ENAMETOOLONG") return false;
      throw error;
    }
  }

  get #mayCreate(): boolean {
    return this.#home.isInPlace?.() !== false;
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
        this.#cursorUnsaved = true;
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
      onError: (error) => {
        this.#attemptsUnsaved = true;
        this.#home.onError(error);
      },
      name: groupCheckpointName("attempts", this.name),
      capacity: ATTEMPTS_CAPACITY,
      initialPayload: encodeAttempts([], this.#codec),
    });
  }
}
