import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import {
  type Advisory,
  type Batch,
  BrokerError,
  type Client,
  connect,
  type Message,
  ProtocolError,
} from "../../src/client/index.ts";
import { decodeFetch } from "../../src/wire/consume.ts";
import {
  AckView,
  readAck,
  readU64Exact,
  writeDeadLetter,
  writeGapMarker,
  writeTruncated,
  writeU64Exact,
} from "../../src/wire/hot.ts";
import { Reader } from "../../src/wire/reader.ts";
import { Tag } from "../../src/wire/tags.ts";
import {
  ackStatus,
  answer,
  type Delivery,
  deliver,
  empty,
  errorFrame,
  FakeBroker,
  flowEnd,
  type Handler,
  type Peer,
  type Request,
  until,
} from "./fake-broker.ts";

let broker: FakeBroker | undefined;
let client: Client | undefined;

afterEach(async () => {
  await broker?.[Symbol.asyncDispose]();
  await client?.close();
  broker = undefined;
  client = undefined;
});

function built(length: number, write: (out: Uint8Array) => number): Uint8Array {
  const out = new Uint8Array(length);
  expect(write(out)).toBe(length);
  return out;
}

const deadLetter = (offset: number) => built(14, (out) => writeDeadLetter(out, 0, offset, 0));
const truncated = (earliest: number, skipped: number) => built(21, (out) => writeTruncated(out, 0, earliest, skipped));
const gap = (from: number, to: number, reason: number) =>
  built(30, (out) => writeGapMarker(out, 0, from, to, 0, reason));

/** The acks that arrived: op, offset, token, delay. */
function acks(broker: FakeBroker): [number, number, bigint, number][] {
  const view = new AckView();
  return broker.peers.flatMap((peer) =>
    peer.requests
      .filter(({ tag }) => tag === Tag.Ack)
      .map(({ body }) => {
        readAck(body, 0, body.length, view);
        return [view.op, view.offset, readU64Exact(body, 9), view.delayMs];
      }),
  );
}

/** Answers fetches from a list of records until it is empty, everything else plainly. */
function queue(deliveries: Delivery[]): Handler {
  return (request: Request, peer: Peer) => {
    if (request.tag !== Tag.Fetch) return answer(request, peer);
    const { maxRecords } = decodeFetch(new Reader(request.body));
    const given = deliveries.splice(0, maxRecords);
    return peer.send(...given.map(deliver), flowEnd(given.length));
  };
}

const records = (count: number): Delivery[] =>
  Array.from({ length: count }, (_, offset) => ({
    offset,
    generation: BigInt(offset + 1),
    payload: `record ${offset}`,
  }));

describe.each(["auto", "node"] as const)("consuming, %s sockets", (sockets) => {
  async function start(handler?: Handler): Promise<{ client: Client; broker: FakeBroker }> {
    broker = await FakeBroker.start(handler);
    client = await connect({ port: broker.port, sockets });
    return { client, broker };
  }

  const replying =
    (...frames: Uint8Array[]): Handler =>
    (request, peer) => {
      if (request.tag === Tag.Fetch) peer.send(...frames);
      else answer(request, peer);
    };

  describe("subscribe", () => {
    it("sends the bare group name", async () => {
      const { client, broker } = await start();
      await client.subscribe("orders");
      expect(client.group).toBe("orders");
      await client.unsubscribe();
      expect(client.group).toBe("");
      expect(broker.peer.requests.map(({ tag, body }) => [tag, Buffer.from(body).toString()])).toEqual([
        [Tag.Sub, "orders"],
        [Tag.Unsub, ""],
      ]);
    });

    it("keeps the group when the broker refuses another", async () => {
      const { client } = await start((request, peer) => {
        const busy = request.tag === Tag.Sub && peer.requests.length > 1;
        peer.send(busy ? errorFrame("ERR_BROADCAST_GROUP_BUSY", "busy") : empty(Tag.Ok));
      });
      await client.subscribe("a");
      const refused = await client.subscribe("b").catch((error: unknown) => error);
      expect((refused as BrokerError).code).toBe("ERR_BROADCAST_GROUP_BUSY");
      expect(client.group).toBe("a");
    });

    it("refuses a name that fits no frame of this kind", async () => {
      const { client } = await start();
      await expect(client.subscribe("g".repeat(65_536))).rejects.toThrow(RangeError);
    });
  });

  describe("fetch", () => {
    it("sends the request of wire.md 9.2", async () => {
      const { client, broker } = await start();
      await client.fetch();
      await client.fetch({ max: 7, maxBytes: 2 ** 40, noWait: true });
      expect(broker.peer.requests.map(({ body }) => decodeFetch(new Reader(body)))).toEqual([
        { maxRecords: 256, maxBytes: 0n, expiresMs: 0n, noWait: false },
        { maxRecords: 7, maxBytes: 2n ** 40n, expiresMs: 0n, noWait: true },
      ]);
    });

    it("gives messages with all fields, full-range token and time included", async () => {
      const generation = 0xfedc_ba98_7654_3210n;
      const { client } = await start(
        replying(
          deliver({
            offset: 2 ** 40,
            generation,
            timestampMs: 1_700_000_000_123n,
            key: "k",
            headers: "h",
            payload: "ü",
          }),
          deliver({ offset: 3, timestampMs: 2n ** 62n }),
          flowEnd(2),
        ),
      );
      const { messages, advisories } = await client.fetch();
      expect(advisories).toEqual([]);
      const [first, second] = messages;
      expect(first).toMatchObject({ offset: 2 ** 40, generation, timestampMs: 1_700_000_000_123 });
      expect(first.text()).toBe("ü");
      expect(first.payload).toEqual(new Uint8Array(Buffer.from("ü")));
      expect(first.key).toEqual(Uint8Array.of(107));
      expect(first.headers).toEqual(Uint8Array.of(104));
      expect(first.payload.constructor).toBe(Uint8Array);
      expect(second.timestampMs).toBe(2 ** 62);
      expect([second.key.length, second.headers.length, second.payload.length]).toEqual([0, 0, 0]);
    });

    it("surfaces dead letters, truncations and gaps, unknown reasons too", async () => {
      const { client } = await start(
        replying(
          deadLetter(4),
          truncated(10, 6),
          gap(10, 12, 1),
          gap(12, 15, 200),
          deliver({ offset: 15 }),
          flowEnd(1),
        ),
      );
      const { messages, advisories } = await client.fetch();
      expect(messages.map((message) => message.offset)).toEqual([15]);
      expect(advisories).toEqual([
        { kind: "dead-letter", offset: 4, reason: 0 },
        { kind: "truncated", earliestRetained: 10, skipped: 6 },
        { kind: "gap", from: 10, to: 12, bytesSkipped: 0, reason: 1 },
        { kind: "gap", from: 12, to: 15, bytesSkipped: 0, reason: 200 },
      ] satisfies Advisory[]);
    });

    it("wire.md 6.2: an Err in place of FlowEnd rejects, the connection stays", async () => {
      const { client } = await start(replying(deliver({ offset: 0 }), errorFrame("", "fetch failed")));
      const refused = await client.fetch().catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(BrokerError);
      await client.ping();
      expect(client.connected).toBe(true);
    });

    it.each([
      { what: "more messages than asked for", frames: [deliver({ offset: 0 }), deliver({ offset: 1 }), flowEnd(2)] },
      { what: "more advisories than asked for", frames: [deadLetter(0), deadLetter(1), flowEnd(0)] },
      { what: "a FlowEnd that counts wrong", frames: [deliver({ offset: 0 }), flowEnd(2)] },
      { what: "a Deliver cut short", frames: [deliver({ offset: 0 }).with(0, 20).slice(0, 24)] },
      { what: "a DeadLetter of 8 bytes", frames: [deadLetter(0).with(0, 9).slice(0, 13)] },
      { what: "a Pong", frames: [empty(Tag.Pong)] },
      { what: "an unknown tag", frames: [empty(99)] },
    ])("wire.md 19: $what ends the connection", async ({ frames }) => {
      const { client } = await start(replying(...frames));
      await expect(client.fetch({ max: 1 })).rejects.toBeInstanceOf(ProtocolError);
      expect(client.connected).toBe(false);
    });

    it("an offset above 2^53-1 ends the connection", async () => {
      const { client } = await start(replying(deliver({ offset: 0 }).fill(255, 5, 13), flowEnd(1)));
      await expect(client.fetch()).rejects.toBeInstanceOf(ProtocolError);
    });

    it.each([{ max: -1 }, { max: 1.5 }, { max: 2 ** 32 }, { maxBytes: -1 }])("refuses %j", async (options) => {
      const { client } = await start();
      await expect(client.fetch(options)).rejects.toThrow(RangeError);
    });

    it("keeps messages intact however the answer is cut, also after later answers", async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.record({ key: fc.string({ maxLength: 20 }), payload: fc.string({ maxLength: 600 }) }), {
            maxLength: 30,
          }),
          fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 10 }),
          async (contents, cuts) => {
            const { client } = await start((_, peer) => {
              const frames = contents.map((content, offset) => deliver({ offset, ...content }));
              const bytes = Buffer.concat([...frames, flowEnd(contents.length)]);
              const pieces: Buffer[] = [];
              for (let at = 0; at < bytes.length; ) {
                const end = at + cuts[pieces.length % cuts.length];
                pieces.push(bytes.subarray(at, end));
                at = end;
              }
              const next = () => {
                const piece = pieces.shift();
                if (piece !== undefined) peer.socket.write(piece, () => setImmediate(next));
              };
              next();
            });
            const batches: Batch[] = [await client.fetch(), await client.fetch()];
            for (const { messages } of batches) {
              expect(messages.map((message) => message.text())).toEqual(contents.map(({ payload }) => clean(payload)));
              expect(messages.map((message) => Buffer.from(message.key).toString())).toEqual(
                contents.map(({ key }) => clean(key)),
              );
            }
            await broker?.[Symbol.asyncDispose]();
            await client.close();
          },
        ),
        { numRuns: 30 },
      );
    });
  });

  describe("settling", () => {
    async function leased(count: number, handler?: Handler): Promise<{ messages: Message[]; broker: FakeBroker }> {
      const deliveries = records(count);
      const serve = queue(deliveries);
      const { client, broker } = await start((request, peer) => {
        if (request.tag === Tag.Ack && handler !== undefined) handler(request, peer);
        else serve(request, peer);
      });
      return { messages: (await client.fetch({ max: 1_000 })).messages, broker };
    }

    it("wire.md 9.4: sends op, offset, token and delay", async () => {
      const generation = 0xfedc_ba98_7654_3210n;
      const { client, broker } = await start(queue([{ offset: 5, generation }]));
      const [message] = (await client.fetch()).messages;
      await client.ack(message);
      await client.nack(message);
      await client.nack(message, { delayMs: 0 });
      await client.nack(message, { delayMs: 60_000 });
      await client.term(message);
      await client.extend(message);
      expect(acks(broker)).toEqual([
        [0, 5, generation, 0],
        [1, 5, generation, -1],
        [1, 5, generation, 0],
        [1, 5, generation, 60_000],
        [2, 5, generation, 0],
        [3, 5, generation, 0],
      ]);
      const scheduled = broker.peer.requests.filter(({ tag }) => tag === Tag.Ack)[1];
      const maximum = new Uint8Array(8);
      writeU64Exact(maximum, 0, 2n ** 64n - 1n);
      expect(new Uint8Array(scheduled.body.subarray(17))).toEqual(maximum);
    });

    it("names the three statuses", async () => {
      const statuses = [1, 0, 2];
      const { messages } = await leased(3, (_, peer) => peer.send(ackStatus(statuses.shift()!)));
      const settled = await Promise.all(messages.map((message) => client!.extend(message)));
      expect(settled).toEqual(["done", "fenced", "capped"]);
    });

    it("an unknown status ends the connection", async () => {
      const { messages } = await leased(1, (_, peer) => peer.send(ackStatus(3)));
      await expect(client!.ack(messages[0])).rejects.toBeInstanceOf(ProtocolError);
    });

    it("settles many and says which were fenced", async () => {
      let seen = 0;
      const { messages, broker } = await leased(1_000, (_, peer) => peer.send(ackStatus(seen++ % 10 === 3 ? 0 : 1)));
      const settled = await client!.ackAll(messages);
      expect(settled.done).toBe(900);
      expect(settled.fenced).toEqual(Array.from({ length: 100 }, (_, index) => index * 10 + 3));
      expect(settled.capped).toEqual([]);
      expect(acks(broker).map(([, offset]) => offset)).toEqual(messages.map((message) => message.offset));
    });

    it("settles none without asking", async () => {
      const { broker } = await leased(0);
      expect(await client!.ackAll([])).toEqual({ done: 0, fenced: [], capped: [] });
      expect(acks(broker)).toEqual([]);
    });

    it("rejects with the first Err and its index, after all were answered", async () => {
      let seen = 0;
      const { messages, broker } = await leased(10, (_, peer) => {
        peer.send(seen === 2 || seen === 6 ? errorFrame("", `failed ${seen}`) : ackStatus(1));
        seen++;
      });
      const refused = await client!.nackAll(messages, { delayMs: 5 }).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(BrokerError);
      expect((refused as BrokerError).index).toBe(2);
      expect((refused as BrokerError).message).toBe("failed 2");
      expect(acks(broker).length).toBe(10);
      expect(await client!.ack(messages[0])).toBe("done");
    });

    it("term and extend go to many as well", async () => {
      const { messages, broker } = await leased(2);
      await client!.termAll(messages);
      await client!.extendAll(messages);
      expect(acks(broker).map(([op]) => op)).toEqual([2, 2, 3, 3]);
    });

    it.each([-1, 0.5, Number.NaN])("refuses a delay of %d", async (delayMs) => {
      const { messages } = await leased(1);
      await expect(client!.nack(messages[0], { delayMs })).rejects.toThrow(RangeError);
    });
  });

  describe("consume", () => {
    it("yields messages as they come and waits, ever longer, while there are none", async () => {
      const waiting = records(300);
      const { client, broker } = await start(queue(waiting));
      const seen: number[] = [];
      const control = new AbortController();
      const loop = (async () => {
        const options = { group: "g", batch: 100, idleMinMs: 1, idleMaxMs: 8, signal: control.signal };
        for await (const message of client.consume(options)) {
          seen.push(message.offset);
          await client.ack(message);
        }
      })();
      await until(() => seen.length === 300, "300 messages");
      const fetches = () => broker.tags.filter((tag) => tag === Tag.Fetch).length;
      await until(() => fetches() >= 8, "polls of the empty queue");
      waiting.push({ offset: 300 });
      await until(() => seen.length === 301, "the late message");
      control.abort();
      await loop;
      expect(seen).toEqual(Array.from({ length: 301 }, (_, offset) => offset));
      expect(Buffer.from(broker.peer.requests[0].body).toString()).toBe("g");
      expect(client.connected).toBe(true);
    });

    it("ends at once when aborted during the pause", async () => {
      const { client, broker } = await start();
      const control = new AbortController();
      const loop = (async () => {
        for await (const _ of client.consume({ idleMinMs: 1_000_000, idleMaxMs: 1_000_000, signal: control.signal }));
      })();
      await until(() => broker.tags.includes(Tag.Fetch), "the first look");
      control.abort();
      await loop;
      expect(client.connected).toBe(true);
    });

    it("asks nothing when aborted beforehand", async () => {
      const { client, broker } = await start();
      for await (const _ of client.consume({ signal: AbortSignal.abort() })) expect.unreachable();
      expect(broker.tags).toEqual([]);
    });

    it.each(["break", "throw", "abort"])("gives back what it did not yield on %s", async (how) => {
      const { client, broker } = await start(queue(records(10)));
      const control = new AbortController();
      const broken = new Error("handler");
      const loop = (async () => {
        for await (const message of client.consume({ signal: control.signal })) {
          if (message.offset !== 3) continue;
          if (how === "break") break;
          if (how === "throw") throw broken;
          control.abort();
        }
      })();
      if (how === "throw") await expect(loop).rejects.toBe(broken);
      else await loop;
      expect(acks(broker)).toEqual([4, 5, 6, 7, 8, 9].map((offset) => [1, offset, BigInt(offset + 1), 0]));
    });

    it("hands advisories to the callback", async () => {
      const { client } = await start((request, peer) => {
        if (request.tag !== Tag.Fetch) answer(request, peer);
        else if (peer.requests.length === 1) peer.send(gap(0, 9, 200), flowEnd(0));
        else peer.send(deliver({ offset: 9 }), flowEnd(1));
      });
      const told: Advisory[] = [];
      for await (const message of client.consume({ onAdvisory: (advisory) => told.push(advisory) })) {
        expect(message.offset).toBe(9);
        break;
      }
      expect(told).toEqual([{ kind: "gap", from: 0, to: 9, bytesSkipped: 0, reason: 200 }]);
    });

    it("throws what ends the connection", async () => {
      const { client } = await start(replying(empty(Tag.Pong)));
      const loop = (async () => {
        for await (const _ of client.consume()) expect.unreachable();
      })();
      await expect(loop).rejects.toBeInstanceOf(ProtocolError);
    });

    it("leaves a binding that is right already alone, with its leases", async () => {
      const { client, broker } = await start(queue(records(2)));
      await client.subscribe("g");
      for await (const _ of client.consume({ group: "g" })) break;
      for await (const _ of client.consume({ group: "h", signal: AbortSignal.timeout(10) })) expect.unreachable();
      expect(broker.tags.filter((tag) => tag === Tag.Sub).length).toBe(2);
      expect(client.group).toBe("h");
    });

    it("runs one loop at a time", async () => {
      const { client } = await start(queue(records(1)));
      for await (const _ of client.consume()) {
        await expect(client.consume().next()).rejects.toThrow("consuming already");
        await expect(client.subscribe("other")).rejects.toThrow("consuming already");
        break;
      }
      expect((await client.consume({ signal: AbortSignal.abort() }).next()).done).toBe(true);
    });
  });
});

/** fast-check's strings can hold what UTF-8 cannot. */
function clean(text: string): string {
  return Buffer.from(text).toString();
}
