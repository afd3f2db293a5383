import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { Tag } from "../../src/wire/tags.ts";
import { ackOf, type Frame, flow, offsetOf, type Peer, payloadOf, pub, World, type WorldOptions } from "./world.ts";

const SEEDS = Number(process.env.IRONBUS_SIMULATION_SEEDS ?? 40);
const FIRST_SEED = Number(process.env.IRONBUS_SIMULATION_FIRST_SEED ?? 1);
const LIVES = 4;

const OPTIONS: WorldOptions["options"] = {
  maxSegmentBytes: 6000,
  maxPendingBytes: 128 * 1024,
  checkpointInterval: 8,
  visibilityTimeoutMs: 1000,
};

/** What the outside world knows, through all lives of the broker. */
class Witness {
  /** Payload of every acknowledged publish, by offset. */
  readonly acked = new Map<number, string>();
  /** Offsets that a consumer tried to settle, ever. Whether it worked may not have reached it. */
  readonly settled = new Set<number>();

  acknowledged(offset: number, payload: string): void {
    expect(this.acked.has(offset), `offset ${offset} acknowledged twice`).toBe(false);
    this.acked.set(offset, payload);
  }

  delivered(offset: number, payload: string): void {
    const acked = this.acked.get(offset);
    if (acked !== undefined) expect(payload, `offset ${offset}`).toBe(acked);
  }
}

class Producer {
  readonly #peer: Peer;
  readonly #witness: Witness;
  readonly #name: string;
  #unacked: string[] = [];
  #next = 0;

  constructor(world: World, witness: Witness, name: string) {
    this.#peer = world.client();
    this.#witness = witness;
    this.#name = name;
  }

  publish(count: number, random: SeededRandom): void {
    const frames = Array.from({ length: count }, () => {
      const payload = `${this.#name}/${this.#next++}/${"x".repeat(random.below(random.below(10) === 0 ? 3000 : 200))}`;
      this.#unacked.push(payload);
      return pub(payload);
    });
    this.#peer.send(...frames);
  }

  collect(): void {
    for (const frame of this.#peer.arrived()) {
      expect(frame.tag).toBe(Tag.PubAck);
      this.#witness.acknowledged(offsetOf(frame), this.#unacked.shift() as string);
    }
  }
}

class Consumer {
  readonly #peer: Peer;
  readonly #witness: Witness;
  readonly #random: SeededRandom;
  #held: Frame[] = [];
  #busy = false;

  constructor(world: World, witness: Witness, random: SeededRandom) {
    this.#peer = world.client();
    this.#witness = witness;
    this.#random = random;
  }

  step(): void {
    this.collect();
    if (this.#busy) return;
    const settled = this.#held.splice(0, this.#random.below(this.#held.length + 1));
    for (const deliver of settled) this.#witness.settled.add(offsetOf(deliver));
    this.#peer.send(...settled.map((deliver) => ackOf(deliver)), flow(1 + this.#random.below(20)));
    this.#busy = true;
  }

  collect(): void {
    for (const frame of this.#peer.arrived()) {
      if (frame.tag === Tag.AckStatus) continue;
      if (frame.tag === Tag.Deliver) {
        this.#witness.delivered(offsetOf(frame), payloadOf(frame));
        this.#held.push(frame);
      } else {
        expect(frame.tag).toBe(Tag.FlowEnd);
        this.#busy = false;
      }
    }
  }
}

/** One broker's life: traffic for a while, up to a random step. */
async function live(
  seed: number,
  witness: Witness,
  disk: Pick<WorldOptions, "files" | "killed">,
  name: string,
): Promise<World> {
  const random = new SeededRandom(seed);
  const world = await World.start({ seed, ...disk, options: OPTIONS, windowBytes: 2000 + random.below(20_000) });
  const producers = [0, 1, 2].map((index) => new Producer(world, witness, `${name}.${index}`));
  const consumers = [0, 1].map(() => new Consumer(world, witness, random.fork()));
  const steps = 20 + random.below(120);
  for (let step = 0; step < steps; step++) {
    for (const producer of producers) if (random.below(3) === 0) producer.publish(1 + random.below(12), random);
    for (const consumer of consumers) if (random.below(2) === 0) consumer.step();
    // The steps of disk and network interleave as the seed says; most of the work is left in the air.
    for (let turns = random.below(60); turns > 0; turns--) if (!world.turns.step() && !world.files.step()) break;
    for (const client of [...producers, ...consumers]) client.collect();
    if (random.below(20) === 0) world.clock.advance(random.below(1500));
  }
  return world;
}

async function drain(seed: number, witness: Witness, files: World["files"]): Promise<Map<number, string>> {
  const world = await World.start({ seed, files, options: OPTIONS });
  // A group of its own sees the whole log.
  const reader = world.client();
  reader.send(new Uint8Array([4, 0, 0, 0, Tag.Sub, 97, 108, 108]));
  reader.expectTags(Tag.Ok);
  const found = new Map<number, string>();
  for (;;) {
    reader.send(flow(100));
    const delivered = reader.received().filter(({ tag }) => tag === Tag.Deliver);
    if (delivered.length === 0) break;
    for (const deliver of delivered) {
      witness.delivered(offsetOf(deliver), payloadOf(deliver));
      found.set(offsetOf(deliver), payloadOf(deliver));
    }
    reader.send(...delivered.map((deliver) => ackOf(deliver)));
    reader.received();
  }
  // The default group: whatever was not settled comes again.
  const worker = world.client();
  const left = new Set<number>();
  for (;;) {
    worker.send(flow(100));
    const delivered = worker.received().filter(({ tag }) => tag === Tag.Deliver);
    if (delivered.length === 0) break;
    for (const deliver of delivered) left.add(offsetOf(deliver));
    worker.send(...delivered.map((deliver) => ackOf(deliver)));
    worker.received();
  }
  for (const offset of found.keys()) {
    if (!witness.settled.has(offset)) expect(left.has(offset), `offset ${offset} was never settled`).toBe(true);
  }
  await world.stop();
  return found;
}

describe("the whole broker in a simulated world", () => {
  it(
    `keeps what it acknowledged through kills and ${LIVES} power cuts, over ${SEEDS} seeds from ${FIRST_SEED}`,
    async () => {
      let acknowledged = 0;
      for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
        const witness = new Witness();
        let files: World["files"] | undefined;
        for (let life = 0; life < LIVES; life++) {
          let world = await live(seed * 1000 + life, witness, { files }, `${life}`);
          // In the first life the process is killed now and then, and the power goes while the next one lives.
          for (let kills = life === 0 ? seed % 4 : 0; kills > 0; kills--) {
            world.kill();
            world = await live(seed * 1000 + 100 + kills, witness, { killed: world }, `${life}-${kills}`);
          }
          files = world.files.cutPower();
        }
        const found = await drain(seed, witness, files as World["files"]);
        for (const [offset, payload] of witness.acked) {
          expect(found.get(offset), `seed ${seed}, offset ${offset}`).toBe(payload);
        }
        expect([...found.keys()], `seed ${seed}`).toEqual(Array.from({ length: found.size }, (_, index) => index));
        acknowledged += witness.acked.size;
      }
      expect(acknowledged).toBeGreaterThan(SEEDS * 20);
    },
    SEEDS * 10_000,
  );
});
