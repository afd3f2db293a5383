import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import {
  BrokerError,
  type Client,
  ConnectionClosedError,
  connect,
  ProduceError,
  type Producible,
} from "../../src/client/index.ts";
import { readPubRow } from "../../src/wire/pub-table.ts";
import { Tag } from "../../src/wire/tags.ts";
import { answer, errorFrame, FakeBroker, type Handler, type Peer, pubAck, type Request, until } from "./fake-broker.ts";

let broker: FakeBroker | undefined;
let client: Client | undefined;

afterEach(async () => {
  await broker?.[Symbol.asyncDispose]();
  await client?.close();
  broker = undefined;
  client = undefined;
});

/** Payloads of all publishes received, as text. */
function payloads(broker: FakeBroker): string[] {
  const row = new Int32Array(8);
  return broker.peers.flatMap((peer) =>
    peer.requests
      .filter((request) => request.tag === Tag.Pub)
      .map(({ body }) => {
        readPubRow(body, 0, body.length, row, 0);
        return Buffer.from(body.subarray(row[6], row[6] + row[7])).toString();
      }),
  );
}

const numbers = (count: number): string[] => Array.from({ length: count }, (_, index) => `record ${index}`);

async function failure(promise: Promise<unknown>): Promise<ProduceError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ProduceError);
  return error as ProduceError;
}

describe.each(["auto", "node"] as const)("produceAll, %s sockets", (sockets) => {
  async function start(handler?: Handler): Promise<{ client: Client; broker: FakeBroker }> {
    broker = await FakeBroker.start(handler);
    client = await connect({ port: broker.port, sockets });
    return { client, broker };
  }

  it("publishes arrays, generators, async generators and async arrays in order", async () => {
    const { client, broker } = await start();
    const all = numbers(3_000);
    const sources: (Iterable<string> | AsyncIterable<string | string[]>)[] = [
      all,
      (function* () {
        yield* all;
      })(),
      (async function* () {
        yield* all;
      })(),
      (async function* () {
        for (let at = 0; at < all.length; at += 700) yield all.slice(at, at + 700);
      })(),
    ];
    for (const [index, source] of sources.entries()) {
      const done = await client.produceAll(source);
      expect(done).toEqual({ acknowledged: 3_000, rejected: 0, lastOffset: 3_000 * (index + 1) - 1 });
    }
    expect(payloads(broker)).toEqual([...all, ...all, ...all, ...all]);
  });

  it("publishes nothing from an empty source", async () => {
    const { client, broker } = await start();
    expect(await client.produceAll([])).toEqual({ acknowledged: 0, rejected: 0, lastOffset: undefined });
    expect(broker.tags).toEqual([]);
  });

  it("takes bytes, text, and records with key, headers and time", async () => {
    const { client, broker } = await start();
    await client.produceAll([Uint8Array.of(65), "B", { payload: "C", key: "k", headers: "h", timestampMs: 5 }]);
    expect(payloads(broker)).toEqual(["A", "B", "C"]);
    const last = Buffer.from(broker.peer.requests[2].body);
    expect(last.readBigUInt64LE(1)).toBe(5n);
    expect(last.subarray(9).toString("hex")).toBe("01006b01006843");
  });

  it("never has more than the window in flight, for any window", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 0, max: 400 }), async (window, count) => {
        let most = 0;
        const held: Request[] = [];
        const { client } = await start((request, peer) => {
          held.push(request);
          most = Math.max(most, held.length);
          // Everything the client dares to send arrives before anything is answered.
          setTimeout(() => {
            for (const _ of held.splice(0)) peer.send(pubAck(peer.nextOffset++));
          }, 2);
        });
        const done = await client.produceAll(numbers(count), { window });
        expect(done.acknowledged).toBe(count);
        expect(most).toBeLessThanOrEqual(window);
        await broker?.[Symbol.asyncDispose]();
      }),
      { numRuns: 15 },
    );
  });

  it.each([0, -1, 1.5])("refuses a window of %d", async (window) => {
    const { client } = await start();
    await expect(client.produceAll(["x"], { window })).rejects.toThrow(RangeError);
  });

  it("reports each ack and each reject with its index", async () => {
    const { client } = await start((request, peer) => {
      if (peer.requests.length % 3 === 0) peer.send(errorFrame("ERR_AT_CAPACITY", "at capacity"));
      else answer(request, peer);
    });
    const acks: [number, number][] = [];
    const rejects: [number, BrokerError][] = [];
    const done = await client.produceAll(numbers(9), {
      onAck: (index, offset) => acks.push([index, offset]),
      onReject: (index, error) => rejects.push([index, error]),
    });
    expect(done).toEqual({ acknowledged: 6, rejected: 3, lastOffset: 5 });
    expect(acks).toEqual([
      [0, 0],
      [1, 1],
      [3, 2],
      [4, 3],
      [6, 4],
      [7, 5],
    ]);
    expect(rejects.map(([index, error]) => [index, error.index, error.code, error.retryable])).toEqual([
      [2, 2, "ERR_AT_CAPACITY", true],
      [5, 5, "ERR_AT_CAPACITY", true],
      [8, 8, "ERR_AT_CAPACITY", true],
    ]);
  });

  it("without onReject ends at the first reject, after what is in flight is settled", async () => {
    const { client, broker } = await start((request, peer) => {
      if (peer.requests.length === 3) peer.send(errorFrame("", "produce failed"));
      else answer(request, peer);
    });
    let taken = 0;
    const source = (function* () {
      for (; taken < 1_000; taken++) yield `record ${taken}`;
    })();
    const error = await failure(client.produceAll(source, { window: 10 }));
    expect(error.cause).toBeInstanceOf(BrokerError);
    expect((error.cause as BrokerError).index).toBe(2);
    expect(error.progress.rejected).toBe(1);
    expect(error.progress.acknowledged + 1).toBe(broker.peer.requests.length);
    expect(taken).toBeLessThan(1_000);
    expect(await client.produce("still usable")).toBe(error.progress.acknowledged);
  });

  it("takes no more from the source than window and socket can hold while the broker does not read", async () => {
    const { client, broker } = await start();
    await client.ping();
    broker.peer.socket.pause();
    let taken = 0;
    const payload = new Uint8Array(64 * 1024);
    const source = (function* () {
      for (; taken < 100_000; taken++) yield payload;
    })();
    const run = failure(client.produceAll(source, { window: 100_000 }));
    let before = -1;
    while (before !== taken) {
      before = taken;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    // Kernel buffers of both sides take some MiB; ours are at most a few writes of 128 KiB.
    expect(taken * payload.length).toBeLessThan(64 * 1024 * 1024);
    broker.peer.socket.destroy();
    expect((await run).cause).toBeInstanceOf(ConnectionClosedError);
  });

  it("goes on when a slow broker reads again, and loses nothing", async () => {
    const { client, broker } = await start();
    await client.ping();
    broker.peer.socket.pause();
    const run = client.produceAll(Array.from({ length: 400 }, (_, index) => `${index} ${"x".repeat(50_000)}`));
    await new Promise((resolve) => setTimeout(resolve, 50));
    broker.peer.socket.resume();
    expect(await run).toEqual({ acknowledged: 400, rejected: 0, lastOffset: 399 });
    expect(payloads(broker).map((payload) => Number.parseInt(payload, 10))).toEqual(numbers(400).map((_, n) => n));
  });

  it("says what is safe when the connection breaks", async () => {
    const { client } = await start((request, peer) => {
      if (peer.requests.length <= 5) answer(request, peer);
      else if (peer.requests.length === 6) peer.socket.end();
    });
    const error = await failure(client.produceAll(numbers(100)));
    expect(error.cause).toBeInstanceOf(ConnectionClosedError);
    expect(error.code).toBe("CONNECTION_CLOSED");
    expect(error.progress).toEqual({ acknowledged: 5, rejected: 0, lastOffset: 4 });
    await expect(client.produce("x")).rejects.toBeInstanceOf(ConnectionClosedError);
  });

  it("ends at once, and lets go of its source, when the connection breaks while the source is silent", async () => {
    const { client, broker } = await start();
    let released = false;
    const silent: AsyncIterable<string> = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise(() => undefined),
        return: () => {
          released = true;
          return Promise.resolve({ done: true, value: undefined });
        },
      }),
    };
    const run = failure(client.produceAll(silent));
    await client.ping();
    broker.peer.socket.destroy();
    expect((await run).cause).toBeInstanceOf(ConnectionClosedError);
    expect(released).toBe(true);
  });

  it("sends what an async source gave although the source then pauses", async () => {
    const { client, broker } = await start();
    let more = (): void => undefined;
    const source = (async function* () {
      yield "first";
      await new Promise<void>((resolve) => {
        more = resolve;
      });
      yield "second";
    })();
    const acknowledged: number[] = [];
    const run = client.produceAll(source, { onAck: (index) => acknowledged.push(index) });
    await until(() => acknowledged.length === 1, "the ack of the first record");
    expect(payloads(broker)).toEqual(["first"]);
    more();
    expect((await run).acknowledged).toBe(2);
  });

  it.each(["sync", "async"])("reports a throw of a %s source after what was sent is settled", async (kind) => {
    const { client } = await start();
    const broken = new Error("no more sensors");
    const source =
      kind === "sync"
        ? (function* (): Generator<string> {
            yield* numbers(20);
            throw broken;
          })()
        : (async function* (): AsyncGenerator<string> {
            yield* numbers(20);
            throw broken;
          })();
    const error = await failure(client.produceAll(source));
    expect(error.cause).toBe(broken);
    expect(error.progress).toEqual({ acknowledged: 20, rejected: 0, lastOffset: 19 });
  });

  it("ends at a record that cannot be encoded: the first one not settled", async () => {
    const { client, broker } = await start();
    const source: Producible[] = ["a", "b", { payload: "c", key: "k".repeat(70_000) }, "d"];
    const error = await failure(client.produceAll(source));
    expect(error.cause).toBeInstanceOf(RangeError);
    expect(error.progress).toEqual({ acknowledged: 2, rejected: 0, lastOffset: 1 });
    expect(payloads(broker)).toEqual(["a", "b"]);
  });

  it("ends when onAck throws, without blaming the broker", async () => {
    const { client } = await start();
    const wrong = new Error("in the callback");
    const error = await failure(
      client.produceAll(numbers(10), {
        onAck: (index) => {
          if (index === 4) throw wrong;
        },
      }),
    );
    expect(error.cause).toBe(wrong);
    expect(error.progress.acknowledged).toBe(10);
    expect(client.connected).toBe(true);
  });

  it("aborted beforehand, sends nothing and keeps the connection", async () => {
    const { client, broker } = await start();
    const error = await failure(client.produceAll(numbers(5), { signal: AbortSignal.abort("enough") }));
    expect(error.cause).toBe("enough");
    expect(error.progress.acknowledged).toBe(0);
    await client.ping();
    expect(broker.tags).toEqual([Tag.Ping]);
  });

  it("aborted while nothing is in flight, keeps the connection", async () => {
    const { client } = await start();
    const control = new AbortController();
    const source = (async function* () {
      yield "first";
      await new Promise(() => undefined);
    })();
    const run = failure(client.produceAll(source, { signal: control.signal, onAck: () => queueMicrotask(abort) }));
    const abort = () => control.abort("enough");
    const error = await run;
    expect(error.cause).toBe("enough");
    expect(error.progress.acknowledged).toBe(1);
    await client.ping();
    expect(client.connected).toBe(true);
  });

  it("wire.md 19: aborted while acks are owed, closes the connection", async () => {
    const { client } = await start(() => undefined);
    const control = new AbortController();
    const run = failure(client.produceAll(numbers(5), { signal: control.signal }));
    const other = client.produce("x").catch((error: unknown) => error);
    control.abort("enough");
    expect((await run).cause).toBe("enough");
    expect(await other).toBeInstanceOf(ConnectionClosedError);
    expect(client.connected).toBe(false);
  });

  it("shares the connection: replies reach whoever is next, whatever is interleaved", async () => {
    const { client } = await start();
    const singles: Promise<number>[] = [];
    const source = (function* () {
      for (let index = 0; index < 50; index++) {
        if (index % 10 === 5) singles.push(client.produce(`single ${index}`));
        yield `record ${index}`;
      }
    })();
    const acks: number[] = [];
    const run = client.produceAll(source, { onAck: (_, offset) => acks.push(offset) });
    const pings = [client.ping(), client.ping()];
    expect((await run).acknowledged).toBe(50);
    await Promise.all(pings);
    expect(await Promise.all(singles)).toEqual([5, 16, 27, 38, 49]);
    expect(acks).toEqual(Array.from({ length: 55 }, (_, n) => n).filter((n) => n % 11 !== 5));
  });

  it("keeps counting right for any mix of acks and rejects, however the replies are cut", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.boolean(), { maxLength: 200 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 20 }),
        async (accepted, cuts) => {
          const replies: Uint8Array[] = [];
          let offset = 0;
          const whole = (peer: Peer) => {
            if (peer.requests.length < accepted.length) return;
            for (const ok of accepted) replies.push(ok ? pubAck(offset++) : errorFrame("", "produce failed"));
            const bytes = Buffer.concat(replies);
            for (let at = 0, turn = 0; at < bytes.length; turn++) {
              const end = at + cuts[turn % cuts.length];
              peer.socket.write(bytes.subarray(at, end));
              at = end;
            }
          };
          const { client } = await start((_, peer) => whole(peer));
          const refused: number[] = [];
          const done = await client.produceAll(numbers(accepted.length), { onReject: (index) => refused.push(index) });
          expect(done.acknowledged).toBe(accepted.filter((ok) => ok).length);
          expect(refused).toEqual(accepted.flatMap((ok, index) => (ok ? [] : [index])));
          await broker?.[Symbol.asyncDispose]();
          await client.close();
        },
      ),
      { numRuns: 40 },
    );
  });
});
