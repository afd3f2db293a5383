import {
  type AttemptCount,
  type CursorSnapshot,
  clampSnapshot,
  MAX_PERSISTED_ATTEMPTS,
  MAX_PERSISTED_RUNS,
  type OffsetRun,
  RESUME_HORIZON,
} from "./cursor.ts";
import { backoffDelay, type ExtendOutcome, GenerationExhaustedError, type GroupOptions } from "./group-options.ts";
import { FREE, LEASED, LeaseTable, NO_OWNER, SETTLED } from "./lease-table.ts";
import { GONE, Member } from "./member.ts";
import { lowestRunsOf, NO_RUN, OffsetRuns, unsettledPart } from "./offset-runs.ts";

/**
 * A competing group over one log: cursor, leases and delivery counts (semantics.md 3.2, 4, 5, 6, 7). A state machine
 * without clock and I/O: the same calls give the same answers. Its memory is bounded by `maxInFlight`.
 *
 * What is settled above the committed offset is in the lease table where a consumer acked it, and in `#apart` where it
 * needs no lease: offsets whose records are lost, and the runs of a checkpoint, both of any length.
 *
 * Delivery: `pruneExpired` for the member, `beginScan(now)`, then `next(member, head)` until it returns -1 or the caller has
 * enough; after each offset the fields `lastGeneration` and `lastDeliveries` describe the grant.
 */
export class Group {
  /** Generation of the last grant of {@link next}: with the offset it makes the token. */
  lastGeneration = -1;
  /** Deliveries of the last grant, this one included. */
  lastDeliveries = 0;
  /** Grants with a count of 2 or more since {@link markAttemptsFlushed}. */
  redeliveriesSinceFlush = 0;
  /** Acks that were answered but not recorded because of `maxAckedAheadRuns` (semantics.md 4). */
  shedAcks = 0;

  readonly #options: GroupOptions;
  readonly #table = new LeaseTable();
  readonly #apart = new OffsetRuns();
  readonly #members: (Member | undefined)[] = [];
  #committed = 0;
  #runs = 0;
  #nextGeneration: number;
  /** No FREE slot lies below it. */
  #frontier = 0;
  /** No slot at or above it holds anything. */
  #end = 0;
  #now = 0;
  #position = 0;
  /** The lowest run of `#apart` that the scan has not passed, as far as it knows. */
  #skip: OffsetRun = NO_RUN;
  #sweeping = false;

  constructor(options: GroupOptions) {
    if (!(options.maxInFlight >= 1)) throw new RangeError("max_in_flight must be greater than zero");
    this.#options = options;
    this.#nextGeneration = options.firstGeneration ?? 0;
  }

  /**
   * A group as it was checkpointed (semantics.md 9). Leases are not persisted: what was in flight is claimable at once, with
   * its count carried on. Counts below the committed offset, at or above `head` or beyond `RESUME_HORIZON` are ignored.
   */
  static resume(
    options: GroupOptions,
    snapshot: CursorSnapshot,
    attempts: readonly AttemptCount[],
    head: number,
  ): Group {
    const group = new Group(options);
    const { committed, runs } = clampSnapshot(snapshot, head);
    group.#startAt(committed);
    for (const { start, end } of runs) group.#apart.add(start, end);
    for (const { offset, deliveries } of attempts) {
      if (offset >= group.#committed && offset < Math.min(head, committed + RESUME_HORIZON)) {
        group.#carry(offset, deliveries);
      }
    }
    return group;
  }

  /** Every offset below it is settled. */
  get committed(): number {
    return this.#committed;
  }

  /** Separate runs acked above the committed offset in this life of the group: what `maxAckedAheadRuns` bounds. */
  get ackedAheadRuns(): number {
    return this.#runs;
  }

  /** Something is settled above the committed offset. */
  get hasSettledAhead(): boolean {
    return this.#runs > 0 || !this.#apart.isEmpty;
  }

  /** Records that are delivered and not settled, whoever has them. Looks at the whole window: for those who look on. */
  get inFlight(): number {
    let leased = 0;
    for (let offset = this.#committed; offset < this.#end; offset++) {
      if (this.#table.state[offset & this.#table.mask] === LEASED) leased += 1;
    }
    return leased;
  }

  createMember(): Member {
    let index = this.#members.indexOf(undefined);
    if (index < 0) index = this.#members.length;
    const member = new Member(index);
    this.#members[index] = member;
    return member;
  }

  /** The member's leases stay until they expire; nobody can settle them. Does nothing for a member already removed. */
  removeMember(member: Member): void {
    if (member.index === GONE) return;
    if (member.held > 0) this.#disown(member, Number.POSITIVE_INFINITY);
    this.#members[member.index] = undefined;
    member.index = GONE;
  }

  /**
   * Records below `earliest` no longer exist: the cursor moves there without acked runs, leases and counts below are
   * dropped; generations go on (semantics.md 6.2). Undefined when the group is not behind.
   */
  truncateTo(earliest: number): { readonly skipped: number } | undefined {
    const skipped = earliest - this.#committed;
    if (skipped <= 0) return undefined;
    const table = this.#table;
    for (let offset = this.#committed; offset < this.#end; offset++) {
      const slot = offset & table.mask;
      if (offset < earliest || table.state[slot] === SETTLED) {
        this.#forget(slot);
        table.clear(slot, FREE);
      }
    }
    this.#runs = 0;
    this.#startAt(earliest);
    this.#advance(earliest);
    return { skipped };
  }

  /**
   * The records [start, end) are lost (README ruling 1): settles all of them, whoever holds a lease, and the cursor crosses
   * them when it gets there. The gap may be of any length and may begin anywhere. To be called with the gap that holds an
   * offset {@link next} returned; the scan goes on behind it.
   *
   * @returns what the consumer is to be told of: the part of the gap from its first to its last offset that was not settled
   *   before; undefined when there is none
   */
  lose(start: number, end: number): OffsetRun | undefined {
    const table = this.#table;
    const isAcked = (offset: number) =>
      offset >= this.#committed && offset < this.#end && table.state[offset & table.mask] === SETTLED;
    const part = unsettledPart(Math.max(start, this.#committed), end, this.#apart, isAcked);
    if (part === undefined) return undefined;
    const { start: from, end: to } = part;
    for (let offset = from; offset < Math.min(to, this.#end); offset++) {
      const slot = offset & table.mask;
      // Neither end of the part is acked, so a run inside it ends inside it.
      if (table.state[slot] === SETTLED && !isAcked(offset + 1)) this.#runs--;
      this.#forget(slot);
      table.clear(slot, FREE);
    }
    this.#apart.add(from, to);
    this.#skip = this.#apart.after(this.#position);
    if (from === this.#committed) this.#advance(from);
    return part;
  }

  /**
   * Forgets the leases of this member whose deadline has passed: they no longer count as held and the member can no longer
   * settle them (semantics.md 5, 10.3 step 1). Costs a comparison when none can have expired.
   */
  pruneExpired(member: Member, now: number): void {
    if (now < member.earliestDeadline) return;
    if (member.held > 0) this.#disown(member, now);
    else member.earliestDeadline = Number.POSITIVE_INFINITY;
  }

  /** Starts an ascending scan. Grants of its {@link next} calls count from `now`, which must never go back. */
  beginScan(now: number): void {
    this.#now = now;
    this.#sweeping = now >= this.#table.earliest;
    this.#position = this.#sweeping ? this.#committed : this.#frontier;
    this.#skip = this.#apart.after(this.#position);
  }

  /**
   * Claims the next deliverable offset of the scan for the member: an expired lease or one never claimed, whichever is
   * lower, inside `[committed, min(committed + maxInFlight, head))`.
   *
   * @param head offset of the next record, as consumers see it
   * @returns the offset, or -1 when the scan has reached the end of the window
   * @throws GenerationExhaustedError
   */
  next(member: Member, head: number): number {
    const table = this.#table;
    const end = Math.min(this.#committed + this.#options.maxInFlight, head);
    let offset = Math.max(this.#position, this.#committed);
    if (this.#sweeping) {
      const leasedEnd = Math.min(this.#frontier, end, this.#end);
      offset = table.firstExpired(offset, leasedEnd, this.#now);
      if (offset < leasedEnd) return this.#claim(member, offset);
      if (end < this.#frontier) return this.#pause(Math.max(offset, end));
      table.refreshEarliest();
      this.#sweeping = false;
      offset = Math.max(offset, this.#frontier);
    }
    for (; ; offset++) {
      while (offset >= this.#skip.start) offset = this.#passSkip(offset);
      if (offset >= end) return this.#pause(offset);
      if (offset - this.#committed >= table.capacity) table.reserve(this.#committed, offset - this.#committed + 1);
      const slot = offset & table.mask;
      if (table.state[slot] === FREE || table.deadline[slot] <= this.#now) return this.#claim(member, offset);
      if (offset === this.#frontier) this.#frontier = offset + 1;
    }
  }

  /** Takes the last claim of `offset` back as if it had not happened: the attempt does not count. */
  unclaim(offset: number): void {
    if (offset < this.#committed || offset >= this.#end) return;
    const table = this.#table;
    const slot = offset & table.mask;
    if (table.state[slot] !== LEASED) return;
    const before = table.deliveries[slot] - 1;
    this.#release(offset, slot);
    table.deliveries[slot] = before;
  }

  /** Tells the stored size (key, headers, payload) of a record just granted; it counts as held until the lease ends. */
  setBytes(offset: number, bytes: number): void {
    if (offset < this.#committed || offset >= this.#end) return;
    const slot = offset & this.#table.mask;
    const owner = this.#table.owner[slot];
    if (owner === NO_OWNER) return;
    const member = this.#members[owner]!;
    member.heldBytes += bytes - this.#table.bytes[slot];
    this.#table.bytes[slot] = bytes;
  }

  /**
   * Settles the record. Only the member the token was delivered to can, with its latest generation; a lease that expired but
   * that nobody reclaimed still settles.
   *
   * @returns false when fenced
   */
  ack(member: Member, offset: number, generation: number): boolean {
    const slot = this.#ownedSlot(member, offset, generation);
    if (slot < 0) return false;
    this.#forget(slot);
    this.#settle(offset, slot);
    return true;
  }

  /** Settles the record without its having been processed (semantics.md 7): the cursor treats it as an ack. */
  term(member: Member, offset: number, generation: number): boolean {
    return this.ack(member, offset, generation);
  }

  /**
   * Gives the record back: claimable again `delay` from `now`, however long that is; `SERVER_BACKOFF` takes the delay
   * from the schedule.
   *
   * @returns false when fenced
   * @throws GenerationExhaustedError
   */
  nack(member: Member, offset: number, generation: number, now: number, delay: number): boolean {
    const slot = this.#ownedSlot(member, offset, generation);
    if (slot < 0) return false;
    const table = this.#table;
    table.generation[slot] = this.#takeGeneration();
    this.#forget(slot);
    table.setDeadline(slot, now + (delay >= 0 ? delay : backoffDelay(this.#options, table.deliveries[slot])));
    return true;
  }

  /** Prolongs the attempt by `visibility` from `now`, up to the hard cap counted from its start. */
  extend(member: Member, offset: number, generation: number, now: number): ExtendOutcome {
    const slot = this.#ownedSlot(member, offset, generation);
    if (slot < 0) return "fenced";
    const cap = this.#table.attemptStart[slot] + this.#options.hardCap;
    if (now >= cap) return "cap";
    this.#table.deadline[slot] = Math.min(now + this.#options.visibility, cap);
    return "extended";
  }

  /** The cursor for its checkpoint: at most {@link MAX_PERSISTED_RUNS} runs, the lowest ones. */
  takeSnapshot(): CursorSnapshot {
    const apart = this.#apart.all;
    // Each run apart may join two others into one.
    const acked = Math.min(this.#runs, MAX_PERSISTED_RUNS + apart.length);
    const runs = this.#table.settledRuns(this.#committed, this.#end, acked);
    return { committed: this.#committed, runs: lowestRunsOf(runs, apart, MAX_PERSISTED_RUNS) };
  }

  /** Delivery counts for their checkpoint: leased and carried, ascending, the lowest {@link MAX_PERSISTED_ATTEMPTS}. */
  attemptsSnapshot(): AttemptCount[] {
    return this.#table.counts(this.#committed, this.#end, MAX_PERSISTED_ATTEMPTS);
  }

  /** The counts were written; {@link redeliveriesSinceFlush} starts again. */
  markAttemptsFlushed(): void {
    this.redeliveriesSinceFlush = 0;
  }

  #startAt(committed: number): void {
    this.#committed = committed;
    this.#frontier = committed;
    this.#end = Math.max(this.#end, committed);
  }

  #pause(position: number): number {
    this.#position = position;
    return -1;
  }

  /** Where the scan goes on from an offset at or behind the start of `#skip`. */
  #passSkip(offset: number): number {
    const { end } = this.#skip;
    this.#skip = this.#apart.after(Math.max(offset, end));
    if (end <= offset) return offset;
    if (offset === this.#frontier) this.#frontier = end;
    return end;
  }

  #claim(member: Member, offset: number): number {
    const table = this.#table;
    const slot = offset & table.mask;
    const generation = this.#takeGeneration();
    if (table.owner[slot] !== NO_OWNER) this.#forget(slot);
    const deliveries = Math.min(table.deliveries[slot] + 1, 0xffff_ffff);
    const deadline = this.#now + Math.min(this.#options.visibility, this.#options.hardCap);
    table.state[slot] = LEASED;
    table.owner[slot] = member.index;
    table.generation[slot] = generation;
    table.attemptStart[slot] = this.#now;
    table.deliveries[slot] = deliveries;
    table.setDeadline(slot, deadline);
    if (deliveries >= 2) this.redeliveriesSinceFlush++;
    member.held++;
    if (deadline < member.earliestDeadline) member.earliestDeadline = deadline;
    if (offset === this.#frontier) this.#frontier = offset + 1;
    if (offset >= this.#end) this.#end = offset + 1;
    this.#position = offset + 1;
    this.lastGeneration = generation;
    this.lastDeliveries = deliveries;
    return offset;
  }

  #takeGeneration(): number {
    if (this.#nextGeneration >= Number.MAX_SAFE_INTEGER) throw new GenerationExhaustedError();
    return this.#nextGeneration++;
  }

  /** The slot of a lease that the token is good for, or -1. */
  #ownedSlot(member: Member, offset: number, generation: number): number {
    if (!(offset >= this.#committed && offset < this.#end)) return -1;
    const slot = offset & this.#table.mask;
    return this.#table.owner[slot] === member.index && this.#table.generation[slot] === generation ? slot : -1;
  }

  /** The lease no longer counts as held by its owner, if it has one. */
  #forget(slot: number): void {
    const table = this.#table;
    const owner = table.owner[slot];
    if (owner === NO_OWNER) return;
    const member = this.#members[owner]!;
    member.held--;
    member.heldBytes -= table.bytes[slot];
    table.owner[slot] = NO_OWNER;
    table.bytes[slot] = 0;
  }

  /** Forgets the member's leases with a deadline at or before `now` and makes its bound exact. */
  #disown(member: Member, now: number): void {
    const table = this.#table;
    let earliest = Number.POSITIVE_INFINITY;
    for (let offset = this.#committed; offset < this.#end; offset++) {
      const slot = offset & table.mask;
      if (table.owner[slot] !== member.index) continue;
      if (table.deadline[slot] <= now) this.#forget(slot);
      else if (table.deadline[slot] < earliest) earliest = table.deadline[slot];
    }
    member.earliestDeadline = earliest;
  }

  #release(offset: number, slot: number): void {
    this.#forget(slot);
    this.#table.clear(slot, FREE);
    if (offset < this.#frontier) this.#frontier = offset;
  }

  #settle(offset: number, slot: number): void {
    const table = this.#table;
    if (offset === this.#committed) {
      table.clear(slot, FREE);
      this.#advance(offset + 1);
      return;
    }
    const joinsLeft = table.state[(offset - 1) & table.mask] === SETTLED;
    const joinsRight = table.state[(offset + 1) & table.mask] === SETTLED;
    if (!joinsLeft && !joinsRight) {
      const cap = this.#options.maxAckedAheadRuns;
      if (cap > 0 && this.#runs >= cap) {
        this.shedAcks++;
        this.#release(offset, slot);
        return;
      }
      this.#runs++;
    } else if (joinsLeft && joinsRight) {
      this.#runs--;
    }
    table.clear(slot, SETTLED);
  }

  /** Moves the committed offset up to `committed` and over everything settled that begins there. */
  #advance(committed: number): void {
    const table = this.#table;
    let at = committed;
    for (let apart = this.#apart.after(at); ; ) {
      if (at >= apart.start) {
        at = apart.end;
        apart = this.#apart.after(at);
        continue;
      }
      const slot = at & table.mask;
      if (at >= this.#end || table.state[slot] !== SETTLED) break;
      table.state[slot] = FREE;
      at++;
      if (at >= this.#end || table.state[at & table.mask] !== SETTLED) this.#runs--;
    }
    this.#committed = at;
    if (this.#frontier < at) this.#frontier = at;
    if (this.#end < at) this.#end = at;
    this.#apart.dropBelow(at);
  }

  #carry(offset: number, deliveries: number): void {
    if (offset >= this.#apart.after(offset).start) return;
    this.#table.reserve(this.#committed, offset - this.#committed + 1);
    const slot = offset & this.#table.mask;
    if (this.#table.state[slot] !== FREE) return;
    this.#table.deliveries[slot] = Math.min(Math.max(deliveries, this.#table.deliveries[slot]), 0xffff_ffff);
    if (offset >= this.#end) this.#end = offset + 1;
  }
}
