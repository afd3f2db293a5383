import type { Client } from "./client.ts";
import type { Advisory, Message } from "./message.ts";
import { wholeNumber } from "./options.ts";
import type { Signal } from "./signal.ts";

export interface ConsumeOptions {
  /** The group to consume as; the broker's default group when absent. */
  readonly group?: string;
  /** Messages leased at a time; 256 by default. Those not yet yielded wait with their leases running. */
  readonly batch?: number;
  /** As in fetch(). */
  readonly maxBytes?: number;
  /** Pause before the first repeated look at an empty queue, milliseconds; 5 by default. It doubles up to `idleMaxMs`. */
  readonly idleMinMs?: number;
  /** Longest pause between two looks at an empty queue, milliseconds; 250 by default. */
  readonly idleMaxMs?: number;
  /** Called for what the broker reports between deliveries. */
  readonly onAdvisory?: (advisory: Advisory) => void;
  /** Ends the iteration. */
  readonly signal?: Signal;
}

/**
 * The loop behind Client.consume(), over the group that the client has by then. The broker answers an empty queue at once, so waiting is done here. When the
 * iteration ends, by `break`, throw or signal, messages that were leased and not yielded go back to the queue.
 */
export async function* consume(client: Client, options: ConsumeOptions): AsyncGenerator<Message, void, undefined> {
  const { signal, onAdvisory } = options;
  const max = wholeNumber("batch", options.batch ?? 256, 1, 0xffff_ffff);
  const idleMinMs = wholeNumber("idleMinMs", options.idleMinMs ?? 5, 0, 0x7fff_ffff);
  const idleMaxMs = wholeNumber("idleMaxMs", options.idleMaxMs ?? 250, idleMinMs, 0x7fff_ffff);
  let idleMs = idleMinMs;
  while (!signal?.aborted) {
    const { messages, advisories } = await client.fetch({ max, maxBytes: options.maxBytes });
    let next = 0;
    try {
      if (onAdvisory !== undefined) for (const advisory of advisories) onAdvisory(advisory);
      while (next < messages.length && !signal?.aborted) yield messages[next++];
    } finally {
      if (next < messages.length && client.connected) await client.nackAll(messages.slice(next), { delayMs: 0 });
    }
    if (messages.length > 0 || advisories.length > 0) {
      idleMs = idleMinMs;
    } else {
      await pause(idleMs, signal);
      idleMs = Math.min(idleMaxMs, Math.max(1, idleMs * 2));
    }
  }
}

/** Resolves after `ms`, or as soon as the signal is aborted. */
function pause(ms: number, signal: Signal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
  });
}
