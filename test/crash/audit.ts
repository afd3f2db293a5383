import { type Advisory, connect } from "../../src/client/index.ts";
import type { Contents } from "./ledger.ts";
import { identify } from "./payloads.ts";

const BATCH = 1024;

/**
 * Everything that the broker at `address` has, as a group that is new to it takes and settles it. Throws when a payload is
 * not what was published, an offset is passed over, or a loss is reported.
 */
export async function contentsOf(address: string, group: string): Promise<Contents> {
  await using client = await connect(address);
  await client.subscribe(group);
  const identities: number[] = [];
  let start = 0;
  for (;;) {
    const { messages, advisories } = await client.fetch({ max: BATCH });
    for (const advisory of advisories) start = beginning(advisory, identities.length);
    if (messages.length + advisories.length === 0) return { start, identities };
    for (const { offset, payload } of messages) {
      if (offset !== start + identities.length) {
        throw new Error(`offset ${offset} came where ${start + identities.length} was due`);
      }
      identities.push(identify(payload));
    }
    const { done } = await client.ackAll(messages);
    if (done !== messages.length) throw new Error(`${messages.length - done} of ${messages.length} leases were fenced`);
  }
}

/** A group may find that the log's beginning was removed before it came; anything else that is passed over is a loss. */
function beginning(advisory: Advisory, taken: number): number {
  if (taken === 0 && advisory.kind === "truncated") return advisory.earliestRetained;
  if (taken === 0 && advisory.kind === "gap" && advisory.reason === 1) return advisory.to;
  throw new Error(`the broker reports ${JSON.stringify(advisory)}`);
}
