import { type RunningBroker, startBroker } from "../../src/broker/broker.ts";
import { type ConnectionLimits, DEFAULT_CONNECTION_LIMITS } from "../../src/broker/limits.ts";
import type { BrokerOptions } from "../../src/broker/options.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import type { Lock } from "../../src/runtime/file-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { loadCodec } from "../../src/runtime/native/codec.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { type MemoryEndpoint, MemoryNetwork } from "../../src/runtime/sockets-memory.ts";
import { Turns } from "../../src/runtime/turns.ts";
import { Tag } from "../../src/wire/tags.ts";
import { PLAIN_STORAGE } from "../support/storage-options.ts";

const { codec } = loadCodec();

export const OPTIONS: BrokerOptions = {
  dataDir: "/data",
  host: "127.0.0.1",
  port: 7777,
  durability: { level: "sync", flushIntervalMs: 1000, flushMaxBytes: 1024 * 1024 },
  maxConnections: 16,
  visibilityTimeoutMs: 30_000,
  maxSegmentBytes: 64 * 1024 * 1024,
  checkpointInterval: 1024,
  consumerCredit: 2048,
  consumerCreditBytes: 8 * 1024 * 1024,
  maxInFlight: 1024,
  maxGroups: 8,
  backoffMs: [100, 500],
  maxPendingBytes: 1024 * 1024,
  drainTimeoutMs: 30_000,
  ...PLAIN_STORAGE,
};

export interface WorldOptions {
  readonly seed?: number;
  readonly files?: SimulatedFileSystem;
  /** Goes on with the disk of this world, whose broker was killed. */
  readonly killed?: World;
  readonly options?: Partial<BrokerOptions>;
  readonly limits?: Partial<ConnectionLimits>;
  readonly windowBytes?: number;
  readonly chunkBytes?: number;
}

/** Turns whose waiting tasks can be forgotten, with whatever they belonged to. */
class LivesOfTurns extends Turns {
  #life = 0;

  override add(task: () => void): void {
    const life = this.#life;
    super.add(() => {
      if (life === this.#life) task();
    });
  }

  endLife(): void {
    this.#life += 1;
  }
}

/** A broker in a world of its own: disk, network, clock and order of events are the test's, repeatable from the seed. */
export class World {
  readonly turns: LivesOfTurns;
  readonly clock = new SimulatedClock();
  readonly files: SimulatedFileSystem;
  readonly network: MemoryNetwork;
  readonly warnings: string[] = [];
  frozen: Error | undefined;
  broker!: RunningBroker;
  #lock: Lock | undefined;
  /** What a handler threw: a fault of ours, whatever the peer did. */
  readonly #errors: unknown[] = [];

  private constructor({ seed = 1, files, killed, windowBytes, chunkBytes }: WorldOptions) {
    const random = new SeededRandom(seed);
    this.turns = killed?.turns ?? new LivesOfTurns("manual", random.fork());
    this.files = files ?? killed?.files ?? new SimulatedFileSystem({ seed, turns: this.turns });
    const lock = this.files.lock.bind(this.files);
    this.files.lock = (path) => {
      this.#lock = lock(path);
      return this.#lock;
    };
    this.network = new MemoryNetwork({
      turns: this.turns,
      windowBytes,
      chunkBytes,
      random: random.fork(),
      report: (error) => this.#errors.push(error),
    });
  }

  static async start(options: WorldOptions = {}): Promise<World> {
    const world = new World(options);
    world.broker = await startBroker(
      { ...OPTIONS, ...options.options },
      {
        clock: world.clock,
        random: new SeededRandom(options.seed ?? 1),
        files: world.files,
        network: world.network,
        codec,
      },
      { warned: (message) => world.warnings.push(message), froze: (error) => (world.frozen = error) },
      { ...DEFAULT_CONNECTION_LIMITS, ...options.limits },
    );
    return world;
  }

  /** Runs everything that can happen without time passing. */
  settle(): void {
    for (let busy = true; busy; ) {
      busy = this.turns.runAll() > 0;
      if (this.files.runAll() > 0) busy = true;
    }
    if (this.#errors.length > 0) throw this.#errors[0];
  }

  advance(durationMs: number): void {
    this.settle();
    this.clock.advance(durationMs);
    this.settle();
  }

  connect(): Peer {
    return new Peer(this, this.network.connect({ port: this.broker.port }));
  }

  /** A connection after its handshake. */
  client(): Peer {
    const peer = this.connect();
    peer.send(frame(Tag.Connect));
    peer.expectTags(Tag.Info);
    return peer;
  }

  /**
   * Ends the broker as kill -9 does: what it wrote is in the page cache, synced or not. Only for a world that made its own
   * disk; the next one starts with `killed: this`.
   */
  kill(): void {
    this.turns.endLife();
    this.#lock?.release();
  }

  /** Stops the broker, with the world going on around it. */
  async stop(): Promise<void> {
    let done = false;
    const stopped = this.broker.stop().then(() => {
      done = true;
    });
    while (!done) {
      this.settle();
      this.clock.advance(10);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await stopped;
  }
}

export interface Frame {
  readonly tag: number;
  readonly body: Uint8Array;
}

/** The other end of a connection: whole frames out, whole frames in. */
export class Peer {
  readonly endpoint: MemoryEndpoint;
  readonly #world: World;
  #bytes: Uint8Array = new Uint8Array(0);

  constructor(world: World, endpoint: MemoryEndpoint) {
    this.#world = world;
    this.endpoint = endpoint;
  }

  send(...frames: Uint8Array[]): void {
    this.endpoint.send(new Uint8Array(Buffer.concat(frames)));
  }

  /** Everything that has arrived once the world has settled. */
  received(): Frame[] {
    this.#world.settle();
    return this.arrived();
  }

  /** Everything that has arrived by now. */
  arrived(): Frame[] {
    const bytes = new Uint8Array(Buffer.concat([this.#bytes, this.endpoint.take()]));
    const view = new DataView(bytes.buffer);
    const frames: Frame[] = [];
    let at = 0;
    while (at + 4 <= bytes.length && at + 4 + view.getUint32(at, true) <= bytes.length) {
      const end = at + 4 + view.getUint32(at, true);
      frames.push({ tag: bytes[at + 4], body: bytes.slice(at + 5, end) });
      at = end;
    }
    this.#bytes = bytes.slice(at);
    return frames;
  }

  /** What arrived, which must have exactly these tags. */
  expectTags(...tags: number[]): Frame[] {
    const frames = this.received();
    const got = frames.map(({ tag }) => tag);
    if (got.join() !== tags.join()) throw new Error(`expected frames ${tags.join()}, got ${got.join()}`);
    return frames;
  }
}

export function frame(tag: number, body: Uint8Array = new Uint8Array(0)): Uint8Array {
  const bytes = new Uint8Array(5 + body.length);
  new DataView(bytes.buffer).setUint32(0, body.length + 1, true);
  bytes[4] = tag;
  bytes.set(body, 5);
  return bytes;
}

/** A Pub frame without key and headers. */
export function pub(payload: string | Uint8Array, flags = 0): Uint8Array {
  const bytes = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
  const body = new Uint8Array(13 + bytes.length);
  body[0] = flags;
  body.set(bytes, 13);
  return frame(Tag.Pub, body);
}

export function flow(credit: number): Uint8Array {
  const body = new Uint8Array(4);
  new DataView(body.buffer).setUint32(0, credit, true);
  return frame(Tag.Flow, body);
}

export function ackOf(deliver: Frame, op = 0, delayMs = 0n): Uint8Array {
  const body = new Uint8Array(25);
  body[0] = op;
  body.set(deliver.body.subarray(0, 16), 1);
  new DataView(body.buffer).setBigUint64(17, delayMs, true);
  return frame(Tag.Ack, body);
}

export function offsetOf({ body }: Frame): number {
  return Number(new DataView(body.buffer, body.byteOffset).getBigUint64(0, true));
}

/** Payload of a Deliver without key and headers. */
export function payloadOf({ body }: Frame): string {
  return new TextDecoder().decode(body.subarray(29));
}

export function textOf({ body }: Frame): string {
  return new TextDecoder().decode(body);
}

/** Every record of the broker's log as a new consumer gets it, each settled: payloads by offset. */
export function everyRecord(world: World): Map<number, string> {
  const reader = world.client();
  const found = new Map<number, string>();
  while (found.size < world.broker.nextOffset) {
    reader.send(flow(64));
    const delivered = reader.received().filter(({ tag }) => tag === Tag.Deliver);
    for (const deliver of delivered) found.set(offsetOf(deliver), payloadOf(deliver));
    reader.send(...delivered.map((deliver) => ackOf(deliver)));
    reader.received();
  }
  return found;
}

export function numbersTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
