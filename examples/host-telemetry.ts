/**
 * Publishes this host's load, memory and uptime, one JSON record per sample.
 *
 *   bun examples/host-telemetry.ts [--addr 127.0.0.1:7777] [--every-ms 1000] [--count 10]
 *
 * What it shows: a record whose offset was printed is on disk; the SDK never reconnects or sends again by itself, so
 * what to do about a lost connection is decided here, in the open.
 */
import { freemem, hostname, loadavg, totalmem, uptime } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { BrokerError, type Client, ConnectError, ConnectionClosedError, connect, TimeoutError } from "ironbus/client";

/** Wrong flags, no broker, a refusal: one line on stderr says it all, a stack would not help. */
function fail(error: Error): never {
  const hint = error instanceof ConnectError ? " (no broker there? `npm start` runs one)" : "";
  process.stderr.write(`host-telemetry: ${error.message}${hint}\n`);
  process.exit(1);
}
process.on("uncaughtException", fail);

const { values } = parseArgs({
  options: {
    addr: { type: "string", default: "127.0.0.1:7777" },
    "every-ms": { type: "string", default: "1000" },
    count: { type: "string", default: "Infinity" },
  },
});
/** Number("abc") is NaN and Number("") is 0: neither may pass for what was meant. */
function number(name: keyof typeof values, least: number, most = Infinity): number {
  const value = values[name].trim() === "" ? Number.NaN : Number(values[name]);
  if (value >= least && value <= most) return value;
  return fail(new RangeError(`--${name} needs a number from ${least} to ${most}, got "${values[name]}"`));
}
const everyMs = number("every-ms", 0, 2 ** 31 - 1);
const count = number("count", 1);

const say = (line: string) => process.stdout.write(`${line}\n`);

// The first Ctrl-C ends the loop below after the sample in hand.
const stop = new AbortController();
process.once("SIGINT", () => stop.abort());
process.once("SIGTERM", () => stop.abort());
const pause = (ms: number) => sleep(ms, undefined, { signal: stop.signal }).catch(() => undefined);

function sample(): string {
  const [load1] = loadavg();
  const usedBytes = totalmem() - freemem();
  return JSON.stringify({ load1, usedBytes, totalBytes: totalmem(), uptimeS: Math.round(uptime()) });
}

/**
 * Publishes until the broker has the record; undefined when told to stop first. A connection that broke after the record
 * left may have stored it: trying again can store it twice, never lose it.
 */
async function publish(client: Client, payload: string, timestampMs: number): Promise<number | undefined> {
  for (;;) {
    try {
      if (!client.connected) await client.reconnect({ signal: stop.signal });
      // The key says whose record it is; with it, all records of one host can be told from the others.
      return await client.produce(payload, { key: hostname(), timestampMs });
    } catch (error) {
      const lost = error instanceof ConnectionClosedError || error instanceof TimeoutError;
      const later = error instanceof BrokerError && error.retryable;
      if (stop.signal.aborted) return undefined;
      if (!lost && !later) throw error;
      say(`waiting for the broker: ${error.message}`);
      await pause(1_000);
    }
  }
}

const client = await connect(values.addr);
let published = 0;
try {
  while (published < count && !stop.signal.aborted) {
    if (published > 0) await pause(everyMs);
    if (stop.signal.aborted) break;
    const payload = sample();
    const offset = await publish(client, payload, Date.now());
    if (offset === undefined) break;
    published++;
    say(`#${offset} ${payload}`);
  }
} finally {
  // Waits for replies that are still owed.
  await client.close();
}
say(`published ${published} sample(s)`);
