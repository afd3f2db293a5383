import type { CompressionError, DictionarySource } from "../log/compressed-payload.ts";
import type { Counters } from "../log/counters.ts";
import type { Log } from "../log/log.ts";
import type { LossEvent } from "../log/loss-report.ts";
import { isValidName, parseGroupCheckpointName } from "../log/names.ts";
import { PlainPayloads } from "../log/plain-payloads.ts";
import type { Refusal } from "../log/refusal.ts";
import type { GroupOptions } from "../queue/group-options.ts";
import type { FileSystem } from "../runtime/file-system.ts";
import { type CheckpointHome, ConsumerGroup } from "./consumer-group.ts";
import type { Publisher } from "./publisher.ts";
import { NOTHING_REAPED, Reaper, type ReaperOptions } from "./reaper.ts";
import { UndecodableRecords } from "./undecodable.ts";

export interface StreamOptions {
  readonly root: string;
  readonly group: GroupOptions;
  readonly checkpointInterval: number;
  /** Bound of groups in memory, the default one included; 0 = unlimited. */
  readonly maxGroups: number;
  /** What is removed from the log's beginning, and when. Default: nothing. */
  readonly reaping?: ReaperOptions;
  readonly dictionaries?: DictionarySource;
  /** A record was met that is intact and cannot be decompressed. */
  readonly onUndecodable?: (loss: LossEvent, offset: number, error: CompressionError) => void;
}

/** A log with its groups, and the connections that wait for the log. */
export class Stream {
  readonly log: Log;
  readonly counters: Counters;
  /** Offset behind the last record that was appended, also when it was given up since. */
  appendedUntil: number;
  /** Compressed payloads for consumers that take them plain only. */
  readonly plain: PlainPayloads;
  readonly undecodable: UndecodableRecords;
  readonly #options: StreamOptions;
  readonly #home: CheckpointHome;
  readonly #reaper: Reaper;
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
    this.plain = new PlainPayloads(checkpoints.codec, options.dictionaries);
    this.undecodable = new UndecodableRecords((loss, offset, error) => {
      this.counters.lost([loss], offset + 1);
      options.onUndecodable?.(loss, offset, error);
    });
    this.#home = { ...checkpoints, files, root: options.root };
    this.appendedUntil = log.nextOffset;
    this.#reaper = new Reaper(
      log,
      options.reaping ?? NOTHING_REAPED,
      this.counters,
      {
        floor: () => this.#retentionFloor(({ group }) => group.committed),
        durableFloor: () => this.#retentionFloor(({ durableCommitted }) => durableCommitted),
        persist: () => {
          for (const group of this.#groups.values()) group.persist();
        },
      },
      () => this.#passRoomOn(),
    );
    // Groups on disk are resumed whatever the cap says (semantics.md 3.1).
    const names = new Set([""]);
    for (const entry of files.list(options.root)) {
      const checkpoint = entry.kind === "file" ? parseGroupCheckpointName(entry.name) : undefined;
      if (checkpoint !== undefined) names.add(checkpoint.group);
    }
    for (const name of names) this.#open(name);
  }

  /** All groups, the default one first. */
  get groups(): Iterable<ConsumerGroup> {
    return this.#groups.values();
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

  /** See Reaper.makeRoom. */
  makeRoom(refusal: Refusal): boolean {
    return this.#reaper.makeRoom(refusal);
  }

  /** Why publishes are refused at the moment, unless room is made for them. */
  get refusal(): Refusal | undefined {
    const { refusal } = this.log;
    return refusal?.kind === "at-capacity" && this.#reaper.dropsOldest ? undefined : refusal;
  }

  /** Publishes were refused before anything of them was written; `silent` wanted no reply. */
  countRefused(replied: number, silent: number, refusal: Refusal): void {
    this.counters.produceRejected += replied;
    this.counters.shedWithoutAck += silent;
    if (refusal.kind === "daily-budget") this.counters.dailyBudgetSheds += replied + silent;
  }

  /** The log's heads moved or it has room again. */
  advanced(): void {
    const head = this.log.visibleHead;
    for (const publisher of this.#awaiting) if (publisher.settle(head)) this.#awaiting.delete(publisher);
    this.#passRoomOn();
    this.#reaper.advanced();
  }

  /** Wakes those who wait for room in their order, as far as the room goes: each of them reads its chunk anew. */
  #passRoomOn(): void {
    for (let left = this.#awaitingRoom.length; left > 0; left--) {
      if (!this.log.hasRoom && this.log.frozen === undefined) return;
      this.#awaitingRoom.shift()?.roomMade();
    }
  }

  /** Records from `from` on were given up, because of `refusal` if the disk was full. */
  rejected(from: number, refusal?: Refusal): void {
    const records = this.appendedUntil - from;
    const before = this.counters.produceRejected;
    // All of them before any of them goes on: the offsets are minted again by the next append.
    for (const publisher of this.#awaiting) publisher.rejected(from, refusal);
    this.appendedUntil = from;
    this.counters.shedWithoutAck += Math.max(0, records - (this.counters.produceRejected - before));
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
  tick(nowMs: number, wallMs: number): void {
    this.log.tick();
    this.#reaper.tick(nowMs, wallMs);
    this.plain.tick();
    for (const group of this.#groups.values()) group.tick(nowMs);
  }

  /** Syncs the log, then saves every group. */
  async close(): Promise<void> {
    await this.log.close();
    for (const group of this.#groups.values()) await group.close();
  }

  /** Nothing at or above it may be removed by retention (storage.md 20.1). */
  #retentionFloor(committedOf: (group: ConsumerGroup) => number): number {
    let floor = this.log.visibleHead;
    for (const group of this.#groups.values()) {
      if (group.holdsRetention) floor = Math.min(floor, committedOf(group));
    }
    return floor;
  }

  #open(name: string): ConsumerGroup {
    const { group, checkpointInterval } = this.#options;
    const opened = new ConsumerGroup(name, group, this.#home, checkpointInterval, this.log.visibleHead);
    this.#groups.set(name, opened);
    return opened;
  }
}
