import type { Publisher } from "../../src/broker/publisher.ts";
import type { Model } from "./model.ts";

/** Somebody who waits for the acknowledgement of a publish. */
export class AwaitingPublisher implements Publisher {
  readonly #model: Model;
  readonly #dead: () => boolean;
  #end: number;

  constructor(end: number, model: Model, dead: () => boolean) {
    this.#end = end;
    this.#model = model;
    this.#dead = dead;
  }

  settle(head: number): boolean {
    if (this.#dead()) return true;
    this.#model.acknowledged(Math.min(head, this.#end));
    return head >= this.#end;
  }

  rejected(from: number): number {
    this.#end = Math.min(this.#end, from);
    return 0;
  }

  froze(head: number): void {
    this.settle(head);
  }

  roomMade(): void {}
}
