import { CreditWindow, negotiateByteBudget, negotiateCredit } from "../queue/credit-window.ts";
import type { Member } from "../queue/member.ts";
import type { ConsumerGroup } from "./consumer-group.ts";
import type { BrokerContext } from "./context.ts";

/** The consuming side of one connection: what it negotiated, and the group it is bound to (wire.md 9.1). */
export class Consumer {
  window: CreditWindow;
  /** Bytes of leases held before nothing more is delivered; 0 = unlimited. */
  byteBudget: number;
  /** The peer decodes compressed payloads. */
  compressedDeliveries = false;
  /** The peer wants GapMarker in place of Truncated. */
  gapMarkers = false;
  /** Present once the connection has polled: until then a subscription is only a name. */
  group: ConsumerGroup | undefined;
  member: Member | undefined;

  readonly #broker: BrokerContext;
  #groupName = "";
  #touched = false;

  constructor(broker: BrokerContext) {
    this.#broker = broker;
    this.window = new CreditWindow(negotiateCredit(undefined, broker.options.consumerCredit));
    this.byteBudget = negotiateByteBudget(undefined, broker.options.consumerCreditBytes);
  }

  /** Takes over the limits of a Connect (wire.md 4.3); 0 or absent requests take the cap. Returns what was agreed. */
  negotiate(credit: number | undefined, creditBytes: number | undefined): { credit: number; creditBytes: number } {
    const agreed = negotiateCredit(credit, this.#broker.options.consumerCredit);
    this.window = new CreditWindow(agreed);
    this.byteBudget = negotiateByteBudget(creditBytes, this.#broker.options.consumerCreditBytes);
    return { credit: agreed, creditBytes: this.byteBudget };
  }

  /** Binds to a group by name; its leases of the former binding are abandoned. */
  bind(groupName: string): void {
    this.leave();
    this.#groupName = groupName;
  }

  /** Joins the bound group, creating or resuming it; undefined when its name or the group cap forbids. */
  join(): ConsumerGroup | undefined {
    this.#touched = true;
    if (this.group === undefined) {
      this.group = this.#broker.stream.group(this.#groupName);
      this.member = this.group?.group.createMember();
      this.group?.use();
    }
    return this.group;
  }

  /** The member's leases stay until they expire, and the group's position is saved. */
  leave(): void {
    if (this.group === undefined || this.member === undefined) return;
    this.group.group.removeMember(this.member);
    this.group.consumerLeft();
    this.group = undefined;
    this.member = undefined;
  }

  /** After the turn's replies: checkpoints that are due (wire.md 6.3.6). */
  turnEnded(): void {
    if (!this.#touched) return;
    this.#touched = false;
    this.group?.turnEnded();
  }

  /** Notes that this turn settled something. */
  touch(): void {
    this.#touched = true;
  }
}
