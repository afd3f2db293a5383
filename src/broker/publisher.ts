import type { Refusal } from "../log/refusal.ts";

/** What a stream tells those who publish to it. All of it happens on the main thread, between their own turns. */
export interface Publisher {
  /** Records below `head` may be acknowledged. Returns true once nothing of this publisher is unsettled. */
  settle(head: number): boolean;
  /**
   * Records from `from` on were given up, because of `refusal` if the disk was full; those below it are settled. Only answers:
   * `settle` follows.
   */
  rejected(from: number, refusal: Refusal | undefined): void;
  /** The log will not take or acknowledge anything any more; records below `head` are settled. */
  froze(head: number): void;
  /** An append that was cut short may go on. */
  roomMade(): void;
}
