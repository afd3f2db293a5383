/**
 * One consumer of a group: a connection's subscription. A lease counts as held from its delivery until the member settles
 * it, another claim takes it over, or the member is found to have let it expire (semantics.md 10.3 step 1).
 */
export class Member {
  /** Leases held. */
  held = 0;
  /** Stored bytes of the records held, as told by `Group.setBytes`. */
  heldBytes = 0;
  /** The group's index of this member; {@link GONE} once removed. */
  index: number;
  /** Lower bound of the deadlines of the leases held. */
  earliestDeadline = Number.POSITIVE_INFINITY;

  constructor(index: number) {
    this.index = index;
  }
}

/** Index of a removed member: equal to no owner, so that it can settle nothing. */
export const GONE = -2;
