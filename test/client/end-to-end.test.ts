import { randomBytes } from "node:crypto";
import { afterEach, describe, expect, it } from "vitest";
import { BrokerError, type Client, ConnectionClosedError, connect, type Message } from "../../src/client/index.ts";
import { until } from "./fake-broker.ts";
import { RealBroker } from "./real-broker.ts";

let broker: RealBroker | undefined;
const clients: Client[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await broker?.[Symbol.asyncDispose]();
  broker = undefined;
});

describe.each(["auto", "node"] as const)("client and broker, %s sockets", (sockets) => {
  async function join(): Promise<Client> {
    const client = await connect({ port: broker!.port, sockets });
    clients.push(client);
    return client;
  }

  async function drain(client: Client): Promise<Message[]> {
    const all: Message[] = [];
    for (;;) {
      const { messages } = await client.fetch({ max: 2_000 });
      if (messages.length === 0) return all;
      expect((await client.ackAll(messages)).done).toBe(messages.length);
      all.push(...messages);
    }
  }

  it("brings back what was published, byte for byte and in order", async () => {
    broker = await RealBroker.start();
    const client = await join();
    expect(client.limits).toEqual({ credit: 2048, creditBytes: 8 * 1024 * 1024 });
    const sizes = [0, 1, 63, 64, 65, 127, 4_095, 65_535, 65_536, 300_000];
    const payloads = sizes.map((size) => new Uint8Array(randomBytes(size)));
    const offsets = [];
    for (const payload of payloads) {
      offsets.push(await client.produce(payload, { key: `key ${payload.length}`, headers: "h", timestampMs: 1_234 }));
    }
    expect(offsets).toEqual(sizes.map((_, index) => index));
    const messages = await drain(client);
    expect(messages.map((message) => message.offset)).toEqual(offsets);
    for (const [index, message] of messages.entries()) {
      expect(Buffer.compare(message.payload, payloads[index])).toBe(0);
      expect(Buffer.from(message.key).toString()).toBe(`key ${sizes[index]}`);
      expect(Buffer.from(message.headers).toString()).toBe("h");
      expect(message.timestampMs).toBe(1_234);
      expect(message.generation).toBeGreaterThan(0n);
    }
  });

  it("publishes 100,000 records through one window and reads them back", async () => {
    broker = await RealBroker.start();
    const client = await join();
    const count = 100_000;
    let next = 0;
    const done = await client.produceAll(
      (function* () {
        for (let index = 0; index < count; index++) yield `record ${index}`;
      })(),
      {
        onAck: (index, offset) => {
          if (index !== next || offset !== next) throw new Error(`record ${index} at ${offset}, expected ${next}`);
          next++;
        },
      },
    );
    expect(done).toEqual({ acknowledged: count, rejected: 0, lastOffset: count - 1 });
    const messages = await drain(client);
    expect(messages.length).toBe(count);
    expect(messages.every((message, index) => message.text() === `record ${index}`)).toBe(true);
  });

  it("interleaves everything on one connection", async () => {
    broker = await RealBroker.start();
    const client = await join();
    const results = await Promise.all([
      client.produce("a"),
      client.produceAll(["b", "c"]),
      client.ping(),
      client.subscribe("g"),
      client.fetch(),
      client.produce("d"),
    ]);
    expect(results[0]).toBe(0);
    expect(results[1]).toMatchObject({ acknowledged: 2 });
    expect(results[4].messages.length).toBeGreaterThanOrEqual(1);
    expect(results[5]).toBe(3);
  });

  it("settles: ack, nack, term, extend, and fences what is not ours", async () => {
    broker = await RealBroker.start();
    const client = await join();
    const other = await join();
    await client.produceAll(["a", "b", "c"]);
    const [a, b, c] = (await client.fetch()).messages;
    expect(await other.ack(a)).toBe("fenced");
    expect(await client.extend(a)).toBe("done");
    expect(await client.ack(a)).toBe("done");
    expect(await client.ack(a)).toBe("fenced");
    expect(await client.nack(b, { delayMs: 0 })).toBe("done");
    expect(await client.term(c)).toBe("done");
    const again = (await client.fetch()).messages;
    expect(again.map((message) => message.text())).toEqual(["b"]);
    expect(again[0].generation).not.toBe(b.generation);
    expect(await client.ackAll([a, again[0], c])).toEqual({ done: 1, fenced: [0, 2], capped: [] });
  });

  it("shares a group among clients, each message going to one of them", async () => {
    broker = await RealBroker.start();
    const workers = [await join(), await join(), await join()];
    const count = 600;
    const control = new AbortController();
    const seen: number[] = [];
    const loops = workers.map(async (worker) => {
      for await (const message of worker.consume({ group: "pool", batch: 20, signal: control.signal })) {
        expect(await worker.ack(message)).toBe("done");
        seen.push(message.offset);
      }
    });
    await (await join()).produceAll(Array.from({ length: count }, (_, index) => `${index}`));
    await until(() => seen.length >= count, "all messages");
    control.abort();
    await Promise.all(loops);
    expect(seen.toSorted((x, y) => x - y)).toEqual(Array.from({ length: count }, (_, index) => index));
  });

  it("gives messages back when a loop is left, at once", async () => {
    broker = await RealBroker.start();
    const first = await join();
    await first.produceAll(["a", "b", "c"]);
    for await (const message of first.consume({ group: "g" })) {
      await first.ack(message);
      break;
    }
    const second = await join();
    await second.subscribe("g");
    expect((await drain(second)).map((message) => message.text())).toEqual(["b", "c"]);
  });

  it("reports a group name that cannot exist, and stays usable", async () => {
    broker = await RealBroker.start();
    const client = await join();
    await client.subscribe("no spaces please");
    await expect(client.fetch()).rejects.toBeInstanceOf(BrokerError);
    await client.unsubscribe();
    expect((await client.fetch()).messages).toEqual([]);
  });

  it("sees the broker go, reconnects when told to, and finds everything that was acknowledged", async () => {
    broker = await RealBroker.start();
    const client = await join();
    await client.subscribe("g");
    await client.produceAll(["a", "b", "c"]);
    const [a] = (await client.fetch({ max: 1 })).messages;
    expect(await client.ack(a)).toBe("done");
    await broker.restart();
    await until(() => !client.connected, "the end of the connection");
    await expect(client.produce("lost")).rejects.toBeInstanceOf(ConnectionClosedError);
    await client.reconnect();
    expect(client.group).toBe("g");
    expect(await client.produce("d")).toBe(3);
    expect((await drain(client)).map((message) => message.text())).toEqual(["b", "c", "d"]);
  });
});
