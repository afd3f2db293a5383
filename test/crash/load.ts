import { BrokerError, type Client, connect, IronbusError } from "../../src/client/index.ts";
import type { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { Process } from "../e2e/harness.ts";
import type { Ledger } from "./ledger.ts";
import { identify, payloadOf } from "./payloads.ts";

const pause = (delayMs: number) => new Promise((resolve) => setTimeout(resolve, delayMs));

/** What one group of consumers was given and has settled, over all lives of the broker. */
export class GroupRecord {
  readonly name: string;
  /** Offsets whose acknowledgement was sent, answered or not. */
  readonly settled = new Set<number>();
  /** Losses that were reported: none may be. */
  readonly advisories: string[] = [];

  constructor(name: string) {
    this.name = name;
  }

  /** The offsets below `head` that the group was never asked to let go of. */
  unsettledBelow(head: number): number[] {
    const offsets: number[] = [];
    for (let offset = 0; offset < head; offset++) if (!this.settled.has(offset)) offsets.push(offset);
    return offsets;
  }
}

/** Numbers for writers, none twice in a ledger. */
export class Writers {
  #next = 0;
  take(): number {
    return this.#next++;
  }
}

/**
 * Everything that uses one life of a broker: publishers and consumers over the SDK, `pub` and `pub --lines` as processes.
 * They end by themselves when the broker dies.
 */
export class Load {
  readonly #address: string;
  readonly #random: SeededRandom;
  readonly #ledger: Ledger;
  readonly #writers: Writers;
  readonly #running: Promise<void>[] = [];
  #stopped = false;

  constructor(address: string, random: SeededRandom, ledger: Ledger, writers: Writers) {
    this.#address = address;
    this.#random = random;
    this.#ledger = ledger;
    this.#writers = writers;
  }

  publisher(): void {
    this.#run((client, random) => this.#publish(client, random));
  }

  consumer(group: GroupRecord): void {
    this.#run((client, random) => this.#consume(client, random, group));
  }

  /** One `pub` after the other. */
  singlePublishes(): void {
    const writer = this.#writers.take();
    const publish = async () => {
      for (let index = 0; !this.#stopped; index++) {
        const payload = payloadOf(writer, index);
        const process = new Process(["pub", "--addr", this.#address], { input: payload });
        const { code, stdout, stderr } = await process.done;
        if (code === 0) this.#ledger.acknowledged(Number(String(stdout)), writer, index);
        else if (code !== 5 || stdout.length > 0) throw new Error(`pub ended with ${code}: ${stdout}${stderr}`);
      }
    };
    this.#running.push(publish());
  }

  /** A `pub --lines` that is fed until the broker is gone. */
  lines(): void {
    const writer = this.#writers.take();
    const process = new Process(["pub", "--addr", this.#address, "--lines"]);
    let index = 0;
    const feed = () => {
      if (this.#stopped) return;
      const lines = Array.from({ length: 20 }, () => Buffer.concat([payloadOf(writer, index++), Buffer.from("\n")]));
      process.child.stdin?.write(Buffer.concat(lines), (error) => error ?? setTimeout(feed, 5));
    };
    feed();
    const ended = process.done.then(({ code, stdout, stderr }) => {
      if (code !== 5) throw new Error(`pub --lines ended with ${code}: ${stderr}`);
      const [, count, last] = /^published (\d+) record\(s\)(?:, last durable offset (\d+))?/.exec(String(stdout)) ?? [];
      if (count !== undefined) this.#ledger.counted(writer, Number(count), Number(last));
    });
    this.#running.push(ended);
  }

  /** Nobody begins anything new. Rejects with what went wrong in a way that a dying broker does not explain. */
  async end(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#running);
  }

  #run(work: (client: Client, random: SeededRandom) => Promise<void>): void {
    const random = this.#random.fork();
    this.#running.push(
      (async () => {
        try {
          await using client = await connect(this.#address);
          await work(client, random);
        } catch (error) {
          const cause = error instanceof Error && "cause" in error ? (error.cause ?? error) : error;
          if (!(error instanceof IronbusError) || cause instanceof BrokerError) throw error;
        }
      })(),
    );
  }

  async #publish(client: Client, random: SeededRandom): Promise<void> {
    const writer = this.#writers.take();
    let next = 0;
    while (!this.#stopped) {
      const first = next;
      next += random.chance(0.3) ? 1 : 1 + random.below(50);
      const payloads = Array.from({ length: next - first }, (_, at) => payloadOf(writer, first + at));
      await client.produceAll(payloads, {
        onAck: (at, offset) => this.#ledger.acknowledged(offset, writer, first + at),
      });
      await pause(random.below(10));
    }
  }

  async #consume(client: Client, random: SeededRandom, group: GroupRecord): Promise<void> {
    await client.subscribe(group.name);
    while (!this.#stopped) {
      const { messages, advisories } = await client.fetch({ max: 1 + random.below(200) });
      group.advisories.push(...advisories.map((advisory) => JSON.stringify(advisory)));
      for (const { payload } of messages) identify(payload);
      // Some come again, some are left to their lease, and what is settled is settled in any order.
      const done = messages.filter(() => random.chance(0.9)).sort(() => random.next() - 0.5);
      const failed = messages.filter((message) => !done.includes(message) && random.chance(0.9));
      for (const { offset } of done) group.settled.add(offset);
      await Promise.all([client.ackAll(done), client.nackAll(failed, { delayMs: 0 })]);
      await pause(random.below(5));
    }
  }
}

/** Takes and settles what is left for the group, of a broker that nobody else uses. */
export async function drain(address: string, group: GroupRecord): Promise<void> {
  await using client = await connect(address);
  await client.subscribe(group.name);
  for (;;) {
    const { messages, advisories } = await client.fetch({ max: 1024 });
    group.advisories.push(...advisories.map((advisory) => JSON.stringify(advisory)));
    if (messages.length + advisories.length === 0) return;
    for (const { offset, payload } of messages) {
      identify(payload);
      group.settled.add(offset);
    }
    await client.ackAll(messages);
  }
}
