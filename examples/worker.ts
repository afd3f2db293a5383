/**
 * A worker of a group: takes messages, tries again later what fails, gives up after some attempts.
 *
 *   bun examples/worker.ts [--addr 127.0.0.1:7777] [--group workers] [--fail-rate 0.2] [--attempts 4] [--max 100]
 *
 * Start it several times with the same group: each message goes to one of them. Stop it with Ctrl-C: the message in hand
 * is finished, the ones it had not begun go back to the queue.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { ConnectError, ConnectionClosedError, connect, type Message, TimeoutError } from "ironbus/client";

/** Wrong flags, no broker, a refusal: one line on stderr says it all, a stack would not help. */
function fail(error: Error): never {
  const hint = error instanceof ConnectError ? " (no broker there? `npm start` runs one)" : "";
  process.stderr.write(`worker: ${error.message}${hint}\n`);
  process.exit(1);
}
process.on("uncaughtException", fail);

const { values } = parseArgs({
  options: {
    addr: { type: "string", default: "127.0.0.1:7777" },
    group: { type: "string", default: "workers" },
    // How many of the messages the pretended work fails on.
    "fail-rate": { type: "string", default: "0.2" },
    // After so many failures a message is dropped.
    attempts: { type: "string", default: "4" },
    // Ends after so many finished messages.
    max: { type: "string", default: "Infinity" },
  },
});
/** Number("abc") is NaN and Number("") is 0: neither may pass for what was meant. */
function number(name: keyof typeof values, least: number, most = Infinity): number {
  const value = values[name].trim() === "" ? Number.NaN : Number(values[name]);
  if (value >= least && value <= most) return value;
  return fail(new RangeError(`--${name} needs a number from ${least} to ${most}, got "${values[name]}"`));
}
const failRate = number("fail-rate", 0, 1);
const maxAttempts = number("attempts", 1);
const max = number("max", 1);

const say = (line: string) => process.stdout.write(`${line}\n`);

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());
process.once("SIGTERM", () => stop.abort());

/** Stands for your work. Messages may come more than once: make it safe to repeat. */
async function handle(message: Message): Promise<void> {
  await sleep(1);
  if (Math.random() < failRate) throw new Error("the device is busy");
  say(`#${message.offset} done: ${message.text()}`);
}

/**
 * How often each message failed here. The broker counts deliveries too, over all workers and restarts; this count is ours
 * to base decisions on. Finished messages leave the map, so it stays small.
 */
const failures = new Map<number, number>();

/** True when the message is finished, one way or the other. */
async function work(message: Message): Promise<boolean> {
  const { offset } = message;
  try {
    await handle(message);
  } catch (error) {
    const attempts = (failures.get(offset) ?? 0) + 1;
    const reason = error instanceof Error ? error.message : String(error);
    if (attempts < maxAttempts) {
      failures.set(offset, attempts);
      const delayMs = 50 * 2 ** attempts;
      say(`#${offset} failed (${reason}), attempt ${attempts}; again in ${delayMs} ms`);
      await client.nack(message, { delayMs });
      return false;
    }
    failures.delete(offset);
    say(`#${offset} dropped after ${attempts} attempts (${reason})`);
    await client.term(message);
    return true;
  }
  failures.delete(offset);
  // "fenced": we took longer than the visibility timeout, and the message is (or will be) with another worker.
  if ((await client.ack(message)) === "fenced") say(`#${offset} was no longer ours`);
  return true;
}

const client = await connect(values.addr);
let finished = 0;
try {
  while (finished < max && !stop.signal.aborted) {
    try {
      if (!client.connected) await client.reconnect({ signal: stop.signal });
      // A small batch: leases of messages that wait for their turn run as well.
      for await (const message of client.consume({ group: values.group, batch: 16, signal: stop.signal })) {
        if (await work(message)) finished++;
        if (finished >= max) break;
      }
    } catch (error) {
      const lost = error instanceof ConnectionClosedError || error instanceof TimeoutError;
      if (stop.signal.aborted) break;
      if (!lost) throw error;
      say(`waiting for the broker: ${error.message}`);
      await sleep(1_000, undefined, { signal: stop.signal }).catch(() => undefined);
    }
  }
} finally {
  await client.close();
}
say(`finished ${finished} message(s)`);
