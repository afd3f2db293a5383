import type { ConsumerGroup } from "../../src/broker/consumer-group.ts";
import type { Log } from "../../src/log/log.ts";
import { SERVER_BACKOFF } from "../../src/queue/group-options.ts";
import type { Member } from "../../src/queue/member.ts";
import { contentOfRow } from "./contents.ts";
import type { Model } from "./model.ts";
import type { ProcessWorld } from "./process.ts";
import { demand } from "./violation.ts";

interface Delivered {
  readonly offset: number;
  readonly generation: number;
}

/** A member of a group that takes records, settles some of them and gives some back. */
export class Consumer {
  readonly group: ConsumerGroup;
  readonly #member: Member;
  readonly #log: Log;
  readonly #world: ProcessWorld;
  readonly #model: Model;
  #held: Delivered[] = [];

  readonly #mayLose: () => boolean;

  /** `mayLose`: whether the medium is such that records can be lost. */
  constructor(group: ConsumerGroup, log: Log, world: ProcessWorld, model: Model, mayLose: () => boolean) {
    this.group = group;
    this.#member = group.group.createMember();
    this.#log = log;
    this.#world = world;
    this.#model = model;
    this.#mayLose = mayLose;
  }

  /** Takes up to `most` records; returns how many there were. */
  poll(most: number, delivered?: (offset: number) => void): number {
    const { group } = this.group;
    const nowMs = this.#world.clock.monotonicMs();
    const model = this.#model.group(this.group.name);
    // With the records below, what was settled ahead of the cursor is forgotten (semantics.md 6.2).
    if (group.truncateTo(this.#log.earliestOffset) !== undefined) model.settledNow.clear();
    group.pruneExpired(this.#member, nowMs);
    group.beginScan(nowMs);
    const head = this.#log.visibleHead;
    let count = 0;
    for (; count < most; count++) {
      const offset = group.next(this.#member, head);
      if (offset < 0) break;
      demand(offset < head, "I2", () => `offset ${offset} delivered, ${head} is the visible head`);
      demand(!model.settledNow.has(offset), "I5b", () => `offset ${offset} delivered although it is settled`);
      if (!this.#read(offset, head)) continue;
      this.#held.push({ offset, generation: group.lastGeneration });
      delivered?.(offset);
    }
    this.group.turnEnded();
    return count;
  }

  /** Settles up to `most` of what it holds. */
  settle(most: number): void {
    const model = this.#model.group(this.group.name);
    for (const { offset, generation } of this.#take(most)) {
      const { shedAcks } = this.group.group;
      if (!this.group.group.ack(this.#member, offset, generation)) continue;
      if (this.group.group.shedAcks > shedAcks) continue;
      model.settledNow.add(offset);
      model.settled.add(offset);
    }
    this.group.turnEnded();
  }

  /** Gives up to `most` of what it holds back. */
  return(most: number): void {
    const nowMs = this.#world.clock.monotonicMs();
    for (const { offset, generation } of this.#take(most)) {
      this.group.group.nack(this.#member, offset, generation, nowMs, SERVER_BACKOFF);
    }
    this.group.turnEnded();
  }

  leave(): void {
    this.group.group.removeMember(this.#member);
    this.group.consumerLeft();
    this.#held = [];
  }

  /** False when the record is lost: then the group crosses it, as deliveries do. */
  #read(offset: number, head: number): boolean {
    try {
      const window = this.#log.read(offset, head);
      if (window === undefined) {
        demand(this.#mayLose(), "I3", () => `offset ${offset} lies in a gap of a healthy log`);
        const gap = this.#log.gapAt(offset) ?? { start: offset, end: offset + 1 };
        this.group.group.lose(gap.start, Math.min(gap.end, head));
        const { settled } = this.#model.group(this.group.name);
        for (let lost = gap.start; lost < gap.end; lost++) settled.add(lost);
        return false;
      }
      const row = offset - window.firstOffset;
      this.#model.seen(offset, contentOfRow(window.buffer, window.rows, row, this.#world.codec));
      return true;
    } catch (error) {
      this.group.group.unclaim(offset);
      throw error;
    }
  }

  #take(most: number): Delivered[] {
    const { random } = this.#world;
    const taken: Delivered[] = [];
    while (taken.length < most && this.#held.length > 0) {
      // Mostly in order, so that the group's position moves.
      const at = random.chance(0.8) ? 0 : random.below(this.#held.length);
      taken.push(...this.#held.splice(at, 1));
    }
    return taken;
  }
}
