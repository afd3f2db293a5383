/**
 * Why a log takes no record at the moment although it is healthy: nothing was written, no offset was minted, and it may
 * take the next one (storage.md 14.1 steps 3 and 4, 20.2). `message` is the text of storage.md 23.
 */
export interface Refusal {
  readonly kind: "at-capacity" | "daily-budget" | "disk-full";
  readonly message: string;
}
