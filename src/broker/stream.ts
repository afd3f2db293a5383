import type { Counters } from "../log/counters.ts";
import type { Log } from "../log/log.ts";
import { isValidName, parseGroupCheckpointName } from "../log/names.ts";
import type { GroupOptions } from "../queue/group-options.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { type CheckpointHome, ConsumerGroup } from "./consumer-group.ts";
import type { Publisher } from "./publisher.ts";

export interface StreamOptions {
  readonly root: string;
  readonly group: GroupOptions;
  readonly checkpointInterval: number;
  /** Bound of groups in memory, the default one included; 0 = unlimited. */
  readonly maxGroups: number;
}

/** A log with its groups, and the connections that wait for the log. */
export class Stream {
  readonly log: Log;
  readonly counters: Counters;
  readonly #options: StreamOptions;
  readonly #home: CheckpointHome;
  readonly #groups = new Map<string, ConsumerGroup>();
  /** Publishers with something unsettled. */
  readonly #awaiting = new Set<Publisher>();
  /** Publishers whose append was cut short, in that order. */
  readonly #awaitingRoom: Publisher[] = [];

  constructor(
    log: Log,
    options: StreamOptions,
    checkpoints: Omit<CheckpointHome, "files" | "root">,
    files: FileSystem,
  ) {
    this.log = log;
    this.counters = log.counters;
    this.#options = options;
    this.#home = { ...checkpoints, files, root: options.root };
    // Groups on disk are resumed whatever the cap says (semantics.md 3.1).
    const names = new Set([""]);
    for (const entry of files.list(options.root)) {
      const checkpoint = entry.kind === "file" ? parseGroupCheckpointName(entry.name) : undefined;
      if (checkpoint !== undefined) names.add(checkpoint.group);
    }
    for (const name of names) this.#open(name);
  }

  /** The group of that name, created if need be; undefined when the name is not one or the cap is reached. */
  group(name: string): ConsumerGroup | undefined {
    const known = this.#groups.get(name);
    if (known !== undefined) return known;
    if (!isValidName(name)) return undefined;
    if (this.#options.maxGroups > 0 && this.#groups.size >= this.#options.maxGroups) return undefined;
    return this.#open(name);
  }

  /** The publisher will be told when the heads move, until nothing of it is unsettled. */
  await(publisher: Publisher): void {
    this.#awaiting.add(publisher);
  }

  awaitRoom(publisher: Publisher): void {
    this.#awaitingRoom.push(publisher);
  }

  forget(publisher: Publisher): void {
    this.#awaiting.delete(publisher);
    const at = this.#awaitingRoom.indexOf(publisher);
    if (at >= 0) this.#awaitingRoom.splice(at, 1);
  }

  /** The log's heads moved or it has room again. */
  advanced(): void {
    const head = this.log.visibleHead;
    for (const publisher of this.#awaiting) if (publisher.settle(head)) this.#awaiting.delete(publisher);
    this.#passRoomOn();
  }

  /** Wakes those who wait for room in their order, as far as the room goes: each of them reads its chunk anew. */
  #passRoomOn(): void {
    for (let left = this.#awaitingRoom.length; left > 0; left--) {
      if (!this.log.hasRoom && this.log.frozen === undefined) return;
      this.#awaitingRoom.shift()?.roomMade();
    }
  }

  rejected(from: number): void {
    // All of them before any of them goes on: the offsets are minted again by the next append.
    for (const publisher of this.#awaiting) publisher.rejected(from);
    this.advanced();
  }

  froze(): void {
    const head = this.log.visibleHead;
    const awaiting = [...this.#awaiting];
    this.#awaiting.clear();
    for (const publisher of awaiting) publisher.froze(head);
    this.advanced();
  }

  /** A few times a second. */
  tick(nowMs: number): void {
    this.log.tick();
    for (const group of this.#groups.values()) group.tick(nowMs);
  }

  /** Syncs the log, then saves every group. */
  async close(): Promise<void> {
    await this.log.close();
    for (const group of this.#groups.values()) await group.close();
  }

  #open(name: string): ConsumerGroup {
    const { group, checkpointInterval } = this.#options;
    const opened = new ConsumerGroup(name, group, this.#home, checkpointInterval, this.log.visibleHead);
    this.#groups.set(name, opened);
    return opened;
  }
}
