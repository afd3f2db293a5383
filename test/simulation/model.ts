import type { Durability } from "../../src/log/durability.ts";
import { type Content, describeContent, sameContent } from "./contents.ts";
import { demand } from "./violation.ts";

/** What those outside know of one consumer group. */
export class GroupModel {
  /** Offsets that a consumer settled, successfully. */
  readonly settled = new Set<number>();
  /** Those of them that the running process must not hand out again. */
  readonly settledNow = new Set<number>();
  /** The least committed offset that a saved and synced checkpoint holds. */
  savedFloor = 0;
}

/**
 * What the world outside of the broker knows: what was published under which offset, what was acknowledged, seen, settled
 * and removed. It outlives the broker's processes; `recovered` starts the next one.
 */
export class Model {
  readonly level: Durability["level"];
  readonly groups = new Map<string, GroupModel>();
  /** First offset that must not come back: what lies below was removed and reported as removed. */
  removedBelow = 0;
  /** First offset that must be there still: no removal up to it has begun. */
  removingBelow = 0;
  /** Records acknowledged over all lives, for the report. */
  acknowledgedCount = 0;
  recordsLostByPowerCut = 0;
  /** Checkpoint files that were synced at least once: from then on nothing but damage leaves them without content. */
  readonly syncedCheckpoints = new Set<string>();
  readonly #contents = new Map<number, Content>();
  #next = 0;
  #acknowledged = 0;
  #visible = 0;
  #durable = 0;

  constructor(level: Durability["level"]) {
    this.level = level;
  }

  /** Exclusive bound of the records that a power cut must not take. */
  get durable(): number {
    return this.#durable;
  }

  /** Exclusive bound of the records that a killed process must not take. */
  get visible(): number {
    return this.#visible;
  }

  get next(): number {
    return this.#next;
  }

  group(name: string): GroupModel {
    let group = this.groups.get(name);
    if (group === undefined) {
      group = new GroupModel();
      this.groups.set(name, group);
    }
    return group;
  }

  /** The log took a record and promised it this offset. */
  appended(offset: number, content: Content): void {
    demand(offset === this.#next, "I5", () => `offset ${offset} minted where ${this.#next} was next`);
    this.#contents.set(offset, content);
    this.#next = offset + 1;
  }

  /** The log gave up records that it had taken. */
  rejected(from: number): void {
    demand(
      from >= this.#visible && from <= this.#next,
      "I5",
      () => `rejected from ${from}, ${this.#visible} is visible`,
    );
    for (let offset = from; offset < this.#next; offset++) this.#contents.delete(offset);
    this.#next = from;
  }

  /** A publisher was told that everything below `head` is kept as the level says. */
  acknowledged(head: number): void {
    demand(head <= this.#visible, "I2", () => `acknowledged below ${head}, visible below ${this.#visible}`);
    if (head <= this.#acknowledged) return;
    this.acknowledgedCount += head - this.#acknowledged;
    this.#acknowledged = head;
  }

  /** The log's heads as they are now. */
  heads(visible: number, durable: number, next: number): void {
    demand(next === this.#next, "I5", () => `the log would mint ${next}, it has taken records below ${this.#next}`);
    demand(durable <= visible && visible <= next, "I1", () => `heads out of order: ${durable}, ${visible}, ${next}`);
    demand(visible >= this.#visible, "I5", () => `the visible head went back from ${this.#visible} to ${visible}`);
    demand(durable >= this.#durable, "I5", () => `the durable head went back from ${this.#durable} to ${durable}`);
    if (this.level === "sync") {
      demand(durable === visible, "I2", () => `records below ${visible} are visible, durable below ${durable}`);
    }
    this.#visible = visible;
    this.#durable = durable;
  }

  /** Somebody read a record. */
  seen(offset: number, content: Content): void {
    const expected = this.#contents.get(offset);
    demand(expected !== undefined, "I1", () => `offset ${offset} was never published: ${describeContent(content)}`);
    demand(
      sameContent(expected, content),
      "I1",
      () => `offset ${offset} holds ${describeContent(content)}, published was ${describeContent(expected)}`,
    );
  }

  /** The next process begins with the records [earliest, next), all of them durable if `allDurable`. */
  recovered(earliest: number, next: number, allDurable: boolean): void {
    this.recordsLostByPowerCut += this.#next - next;
    for (let offset = next; offset < this.#next; offset++) this.#contents.delete(offset);
    for (const group of this.groups.values()) {
      for (const offset of group.settled) if (offset >= next) group.settled.delete(offset);
      group.settledNow.clear();
      group.savedFloor = Math.min(group.savedFloor, next);
    }
    this.#next = next;
    this.#visible = next;
    this.#acknowledged = next;
    this.#durable = allDurable ? next : Math.min(this.#durable, next);
    this.removedBelow = Math.max(this.removedBelow, earliest);
    this.removingBelow = earliest;
  }
}
