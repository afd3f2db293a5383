import type { AttemptCount, OffsetRun } from "./cursor.ts";

/** Nobody has claimed the offset, or its lease was released. */
export const FREE = 0;
/** Claimed; the lease may have expired. */
export const LEASED = 1;
/** Settled above the committed offset. */
export const SETTLED = 2;

export const NO_OWNER = -1;

const BLOCK_SHIFT = 6;
const BLOCK_SLOTS = 1 << BLOCK_SHIFT;
const INITIAL_CAPACITY = 2 * BLOCK_SLOTS;

/**
 * The state of the offsets above a group's committed offset, in typed arrays used as a ring: the slot of an offset is
 * `offset & mask`. Claiming and settling a record writes numbers into place and allocates nothing. The ring starts small
 * (a broker may hold a thousand idle groups) and doubles up to what the caller's window needs.
 *
 * `deadline` is `Infinity` in every slot that is not leased, so that "claimable again" is one comparison. `deliveries` of
 * a FREE slot is the count carried over from an earlier life of the lease. Blocks of slots have a lower bound of their
 * deadlines, by which a scan passes over a long leased prefix.
 */
export class LeaseTable {
  state: Uint8Array;
  owner: Int32Array;
  deliveries: Uint32Array;
  bytes: Uint32Array;
  generation: Float64Array;
  attemptStart: Float64Array;
  deadline: Float64Array;
  /** Offset -> slot is `offset & mask`; exact for offsets up to 2^53, since `&` takes its operand modulo 2^32. */
  mask: number;
  /** Lower bound of all deadlines. */
  earliest = Number.POSITIVE_INFINITY;
  #blockEarliest: Float64Array;

  constructor() {
    const capacity = INITIAL_CAPACITY;
    this.state = new Uint8Array(capacity);
    this.owner = new Int32Array(capacity).fill(NO_OWNER);
    this.deliveries = new Uint32Array(capacity);
    this.bytes = new Uint32Array(capacity);
    this.generation = new Float64Array(capacity);
    this.attemptStart = new Float64Array(capacity);
    this.deadline = new Float64Array(capacity).fill(Number.POSITIVE_INFINITY);
    this.mask = capacity - 1;
    this.#blockEarliest = new Float64Array(capacity >> BLOCK_SHIFT).fill(Number.POSITIVE_INFINITY);
  }

  /** How many offsets, counted from the committed one, the ring can tell apart. */
  get capacity(): number {
    return this.mask + 1;
  }

  /** Doubles until `offsets` offsets counted from `committed` can be told apart; the states move along. */
  reserve(committed: number, offsets: number): void {
    const oldCapacity = this.capacity;
    if (offsets <= oldCapacity) return;
    let capacity = oldCapacity;
    while (capacity < offsets) capacity *= 2;
    const oldMask = this.mask;
    const mask = capacity - 1;
    const move = <T extends Uint8Array | Int32Array | Uint32Array | Float64Array>(from: T, to: T): T => {
      for (let offset = committed; offset < committed + oldCapacity; offset++)
        to[offset & mask] = from[offset & oldMask];
      return to;
    };
    this.state = move(this.state, new Uint8Array(capacity));
    this.owner = move(this.owner, new Int32Array(capacity).fill(NO_OWNER));
    this.deliveries = move(this.deliveries, new Uint32Array(capacity));
    this.bytes = move(this.bytes, new Uint32Array(capacity));
    this.generation = move(this.generation, new Float64Array(capacity));
    this.attemptStart = move(this.attemptStart, new Float64Array(capacity));
    this.deadline = move(this.deadline, new Float64Array(capacity).fill(Number.POSITIVE_INFINITY));
    this.mask = mask;
    this.#blockEarliest = new Float64Array(capacity >> BLOCK_SHIFT);
    for (let slot = 0; slot < capacity; slot += BLOCK_SLOTS) this.refreshBlock(slot);
  }

  /** Sets a deadline and keeps the lower bounds below it. */
  setDeadline(slot: number, deadline: number): void {
    this.deadline[slot] = deadline;
    const block = slot >> BLOCK_SHIFT;
    if (deadline < this.#blockEarliest[block]) this.#blockEarliest[block] = deadline;
    if (deadline < this.earliest) this.earliest = deadline;
  }

  /** Lower bound of the deadlines in the slot's block. */
  blockEarliest(slot: number): number {
    return this.#blockEarliest[slot >> BLOCK_SHIFT];
  }

  /** How many slots from this one on belong to its block. */
  restOfBlock(slot: number): number {
    return BLOCK_SLOTS - (slot & (BLOCK_SLOTS - 1));
  }

  /** Makes the bound of the slot's block exact. */
  refreshBlock(slot: number): void {
    const block = slot >> BLOCK_SHIFT;
    let earliest = Number.POSITIVE_INFINITY;
    for (let at = block << BLOCK_SHIFT; at < (block + 1) << BLOCK_SHIFT; at++) {
      if (this.deadline[at] < earliest) earliest = this.deadline[at];
    }
    this.#blockEarliest[block] = earliest;
  }

  /** First lease in [from, to) that has expired by `now`, else `to`. Bounds of blocks it leaves behind become exact. */
  firstExpired(from: number, to: number, now: number): number {
    let offset = from;
    while (offset < to) {
      const first = offset & this.mask;
      const blockEnd = Math.min(offset + this.restOfBlock(first), to);
      if (this.blockEarliest(first) <= now) {
        for (; offset < blockEnd; offset++) {
          if (this.deadline[offset & this.mask] <= now) return offset;
        }
        this.refreshBlock(first);
      }
      offset = blockEnd;
    }
    return offset;
  }

  /** Recomputes the bound of all deadlines from the bounds of the blocks. */
  refreshEarliest(): void {
    let earliest = Number.POSITIVE_INFINITY;
    const bounds = this.#blockEarliest;
    for (let block = 0; block < bounds.length; block++) if (bounds[block] < earliest) earliest = bounds[block];
    this.earliest = earliest;
  }

  /** Ends whatever the slot held. Its owner's tally is the caller's. */
  clear(slot: number, state: typeof FREE | typeof SETTLED): void {
    this.state[slot] = state;
    this.owner[slot] = NO_OWNER;
    this.deliveries[slot] = 0;
    this.bytes[slot] = 0;
    this.deadline[slot] = Number.POSITIVE_INFINITY;
  }

  /** The lowest settled runs in [from, to), at most `limit`. */
  settledRuns(from: number, to: number, limit: number): OffsetRun[] {
    const runs: OffsetRun[] = [];
    for (let offset = from; runs.length < limit && offset < to; offset++) {
      if (this.state[offset & this.mask] !== SETTLED) continue;
      const start = offset;
      while (offset < to && this.state[offset & this.mask] === SETTLED) offset++;
      runs.push({ start, end: offset });
    }
    return runs;
  }

  /** Delivery counts in [from, to), ascending, at most `limit`. */
  counts(from: number, to: number, limit: number): AttemptCount[] {
    const counts: AttemptCount[] = [];
    for (let offset = from; counts.length < limit && offset < to; offset++) {
      const deliveries = this.deliveries[offset & this.mask];
      if (deliveries > 0) counts.push({ offset, deliveries });
    }
    return counts;
  }
}
