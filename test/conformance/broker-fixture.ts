import { onTestFinished } from "vitest";
import { startBroker } from "../../src/broker/broker.ts";
import type { BrokerOptions } from "../../src/broker/options.ts";
import type { Clock } from "../../src/runtime/clock.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { systemClock } from "../../src/runtime/clock-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { loadCodec } from "../../src/runtime/native/codec.ts";
import { createNetwork } from "../../src/runtime/network.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { PLAIN_STORAGE } from "../support/storage-options.ts";
import { RawClient, range } from "./raw-client.ts";

/** The defaults of semantics.md 19 and wire.md 6.1. */
const DEFAULTS: BrokerOptions = {
  dataDir: "/data",
  host: "127.0.0.1",
  port: 0,
  durability: { level: "sync", flushIntervalMs: 0, flushMaxBytes: 0 },
  maxConnections: 256,
  visibilityTimeoutMs: 30_000,
  maxSegmentBytes: 64 * 1024 * 1024,
  checkpointInterval: 1024,
  consumerCredit: 2048,
  consumerCreditBytes: 8 * 1024 * 1024,
  maxInFlight: 1024,
  maxGroups: 1024,
  backoffMs: [100, 500, 2000, 10_000, 30_000],
  maxPendingBytes: 4 * 1024 * 1024,
  drainTimeoutMs: 5000,
  ...PLAIN_STORAGE,
};

export interface TestBroker {
  readonly port: number;
  readonly files: SimulatedFileSystem;
  readonly connections: () => number;
  /** Texts of warnings and of a freeze. */
  readonly events: string[];
  dial(): Promise<RawClient>;
  open(hello?: Uint8Array): Promise<RawClient>;
  stop(): Promise<void>;
  /** What a `kill -9` leaves: everything written. The broker itself is stopped behind it, which changes nothing there. */
  kill(): Promise<SimulatedFileSystem>;
}

export interface SteppedBroker extends TestBroker {
  readonly clock: SimulatedClock;
}

/** A broker on real sockets over a file system in memory. It and its clients are gone when the test is over. */
export async function startTestBroker(
  options: Partial<BrokerOptions> = {},
  files: SimulatedFileSystem = new SimulatedFileSystem(),
): Promise<TestBroker> {
  return await start(options, files, systemClock);
}

/** The same, with time that passes only when told to. */
export async function startSteppedBroker(
  options: Partial<BrokerOptions> = {},
  files: SimulatedFileSystem = new SimulatedFileSystem(),
): Promise<SteppedBroker> {
  const clock = new SimulatedClock();
  return { ...(await start(options, files, clock)), clock };
}

async function start(options: Partial<BrokerOptions>, files: SimulatedFileSystem, clock: Clock): Promise<TestBroker> {
  const clients: RawClient[] = [];
  const events: string[] = [];
  const broker = await startBroker(
    { ...DEFAULTS, ...options },
    { clock, random: new SeededRandom(1), files, network: createNetwork(), codec: loadCodec().codec },
    { warned: (message) => events.push(message), froze: (error) => events.push(error.message) },
  );
  const keep = (client: RawClient): RawClient => {
    clients.push(client);
    return client;
  };
  const stop = async (): Promise<void> => {
    // Stepped time stands still, and a graceful stop may wait on it.
    const step = clock instanceof SimulatedClock ? setInterval(() => clock.advance(20), 1) : undefined;
    await broker.stop();
    clearInterval(step);
  };
  onTestFinished(async () => {
    for (const client of clients) client.socket.destroy();
    files.releaseBarriers();
    await stop();
  });
  return {
    port: broker.port,
    files,
    connections: () => broker.connections,
    events,
    dial: async () => keep(await RawClient.dial(broker.port)),
    open: async (hello) => keep(await RawClient.open(broker.port, hello)),
    stop,
    kill: async () => {
      const image = files.imageAfterPowerCut({ style: "kept" });
      await stop();
      return image;
    },
  };
}

/** Waits until the condition holds; a condition that never does ends in the runner's time limit. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

/** Publishes `count` records in windows; without a payload each one's is its number. */
export async function fill(broker: TestBroker, count: number, payload?: string | Uint8Array): Promise<void> {
  const producer = await broker.open();
  for (let sent = 0; sent < count; sent += 500) {
    const numbers = range(sent, Math.min(count, sent + 500));
    await producer.publish(...numbers.map((number) => ({ payload: payload ?? `${number}` })));
  }
  await producer.close();
}
