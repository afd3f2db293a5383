import { describe, expect, it } from "vitest";
import { fill, startSteppedBroker, startTestBroker } from "./broker-fixture.ts";
import { ack, connect, flow, frame, nack, ping, progress, SERVER_BACKOFF, TAG, term } from "./messages.ts";
import { offsetsOf, range } from "./raw-client.ts";

const VISIBILITY_MS = 30_000;
const HARD_CAP_MS = 300_000;

describe("settling", () => {
  it("wire.md 22.37: an ack counts once, and only on the connection that the record went to", async () => {
    const broker = await startTestBroker();
    await fill(broker, 3);
    const owner = await broker.open();
    const stranger = await broker.open();
    const [record, other] = await owner.poll(flow(2));
    await stranger.poll(flow(1));
    stranger.send(ack(record), nack(record), term(record), progress(record));
    for (let reply = 0; reply < 4; reply++) await stranger.expectStatus(0);
    owner.send(ack(record), ack(record));
    await owner.expectStatus(1);
    await owner.expectStatus(0);
    stranger.send(ack(other));
    await stranger.expectStatus(0);
    owner.send(ack({ ...other, generation: other.generation + 1n }), ack(other));
    await owner.expectStatus(0);
    await owner.expectStatus(1);
  });

  it("wire.md 22.37: a foreign ack commits nothing", async () => {
    const broker = await startSteppedBroker();
    await fill(broker, 1);
    const owner = await broker.open();
    const [record] = await owner.poll(flow(1));
    const stranger = await broker.open();
    stranger.send(ack(record));
    await stranger.expectStatus(0);
    broker.clock.advance(VISIBILITY_MS);
    expect(offsetsOf(await (await broker.open()).poll(flow(1)))).toEqual([0]);
  });

  it("semantics.md 24.15: settling on another connection is fenced, the owner's still works", async () => {
    const broker = await startTestBroker();
    await fill(broker, 1);
    const owner = await broker.open();
    const [record] = await owner.poll(flow(1));
    const stranger = await broker.open();
    for (const verb of [ack, nack, term, progress]) {
      stranger.send(verb(record));
      await stranger.expectStatus(0);
    }
    await owner.ackAll([record]);
  });

  it("wire.md 22.38: a nack without delay redelivers at once with a new generation", async () => {
    const broker = await startTestBroker();
    await fill(broker, 2);
    const client = await broker.open();
    const [first] = await client.poll(flow(1));
    client.send(nack(first, 0));
    await client.expectStatus(1);
    client.send(ack(first));
    await client.expectStatus(0);
    const [again] = await client.poll(flow(1));
    expect(again.offset).toBe(0);
    expect(again.generation).not.toBe(first.generation);
    expect(again.generation).not.toBe(0n);
    await client.ackAll([again]);
    expect(offsetsOf(await client.poll(flow(1)))).toEqual([1]);
  });

  it("wire.md 22.38: a nack with the backoff sentinel follows the schedule; explicit delays override it", async () => {
    const broker = await startSteppedBroker({ backoffMs: [100, 500] });
    await fill(broker, 1);
    const client = await broker.open();
    const cycle = async (delay: number | bigint, expectedMs: number): Promise<void> => {
      const [record] = await client.poll(flow(1));
      expect(record.offset).toBe(0);
      client.send(nack(record, delay));
      await client.expectStatus(1);
      for (let waited = 0; waited < expectedMs; waited += 20_000) {
        // Also keeps the connection from being idle.
        expect(await client.poll(flow(1))).toEqual([]);
        broker.clock.advance(Math.min(20_000, expectedMs - waited) - (waited + 20_000 >= expectedMs ? 1 : 0));
      }
      expect(await client.poll(flow(1))).toEqual([]);
      broker.clock.advance(1);
    };
    await cycle(SERVER_BACKOFF, 100);
    await cycle(SERVER_BACKOFF, 500);
    await cycle(SERVER_BACKOFF, 500);
    await cycle(7, 7);
    await cycle(2 * HARD_CAP_MS, 2 * HARD_CAP_MS);
    expect(await client.poll(flow(1))).toHaveLength(1);
  }, 120_000);

  it("a nack's delay just below the sentinel is a delay, not an error", async () => {
    const broker = await startSteppedBroker();
    await fill(broker, 2);
    const client = await broker.open();
    const [record] = await client.poll(flow(1));
    client.send(nack(record, SERVER_BACKOFF - 1n));
    await client.expectStatus(1);
    broker.clock.advance(VISIBILITY_MS - 10_000);
    expect(offsetsOf(await client.poll(flow(2)))).toEqual([1]);
  });

  it("wire.md 22.39: a terminated record is not delivered again; progress works up to the hard cap", async () => {
    const broker = await startSteppedBroker();
    await fill(broker, 2);
    const client = await broker.open();
    const [first, second] = await client.poll(flow(2));
    client.send(term(first), term(first));
    await client.expectStatus(1);
    await client.expectStatus(0);
    for (let now = 20_000; now < HARD_CAP_MS; now += 20_000) {
      broker.clock.advance(20_000);
      client.send(progress(second));
      await client.expectStatus(1);
    }
    const watcher = await broker.open();
    expect(await watcher.poll(flow(10))).toEqual([]);
    broker.clock.advance(HARD_CAP_MS % 20_000 || 20_000);
    client.send(progress(second));
    await client.expectStatus(2);
    expect(offsetsOf(await watcher.poll(flow(10)))).toEqual([1]);
    client.send(progress(second));
    await client.expectStatus(0);
  });

  it("semantics.md 24.9: an expired lease still acks, unless the connection has sent a Flow since", async () => {
    const broker = await startSteppedBroker();
    await fill(broker, 2);
    const quiet = await broker.open();
    const [record] = await quiet.poll(flow(1));
    const busy = await broker.open();
    const [other] = await busy.poll(flow(1));
    broker.clock.advance(VISIBILITY_MS - 1);
    quiet.send(ping());
    busy.send(ping());
    await quiet.expectFrame(TAG.pong);
    await busy.expectFrame(TAG.pong);
    broker.clock.advance(2);
    await quiet.ackAll([record]);
    expect(await busy.poll(flow(0))).toEqual([]);
    busy.send(ack(other));
    await busy.expectStatus(0);
    expect(offsetsOf(await busy.poll(flow(10)))).toEqual([1]);
  });

  it("wire.md 22.36, semantics.md 24.7: the generation changes when an expired record is delivered again", async () => {
    const broker = await startSteppedBroker();
    await fill(broker, 1);
    const client = await broker.open();
    const [first] = await client.poll(flow(1));
    broker.clock.advance(VISIBILITY_MS - 1);
    expect(await client.poll(flow(1))).toEqual([]);
    broker.clock.advance(1);
    const [second] = await client.poll(flow(1));
    expect(second.offset).toBe(0);
    expect([first.generation, second.generation]).not.toContain(0n);
    expect(second.generation).not.toBe(first.generation);
    client.send(ack(first), ack(second));
    await client.expectStatus(0);
    await client.expectStatus(1);
  });

  it("semantics.md 24.51: expired leases stop counting against the credit at the next Flow", async () => {
    const broker = await startSteppedBroker();
    await fill(broker, 200);
    const client = await broker.open(connect({ credit: 64 }));
    expect(await client.poll(flow(64))).toHaveLength(64);
    expect(await client.poll(flow(64))).toHaveLength(0);
    broker.clock.advance(VISIBILITY_MS - 1);
    expect(await client.poll(flow(64))).toHaveLength(0);
    broker.clock.advance(1);
    expect(offsetsOf(await client.poll(flow(64)))).toEqual(range(0, 64));
  });

  it("semantics.md 24.52: a new connection has its full window at once; old leases come back after expiry", async () => {
    const broker = await startSteppedBroker();
    await fill(broker, 200);
    const first = await broker.open();
    const held = await first.poll(flow(64));
    expect(held).toHaveLength(64);
    await first.close();
    const second = await broker.open();
    expect(offsetsOf(await second.poll(flow(64)))).toEqual(range(64, 128));
    second.send(ack(held[0]));
    await second.expectStatus(0);
    broker.clock.advance(VISIBILITY_MS - 1);
    second.send(ping());
    await second.expectFrame(TAG.pong);
    broker.clock.advance(1);
    expect(offsetsOf(await (await broker.open()).poll(flow(64)))).toEqual(range(0, 64));
  });

  it.each([
    ["empty", 0],
    ["too short", 24],
    ["too long", 26],
  ])("wire.md 7.4: an Ack body that is %s is refused", async (_, length) => {
    const client = await (await startTestBroker()).open();
    client.send(frame(TAG.ack, Buffer.alloc(length)));
    await client.expectErr("malformed ack body");
    await client.expectOpen();
  });

  it("wire.md 3: an unknown ack op is a malformed body", async () => {
    const broker = await startTestBroker();
    await fill(broker, 1);
    const client = await broker.open();
    const [record] = await client.poll(flow(1));
    const unknown = Buffer.from(ack(record));
    unknown[5] = 4;
    client.send(unknown);
    await client.expectErr("malformed ack body");
    await client.ackAll([record]);
  });

  it("tokens that were never handed out are fenced, whatever their numbers", async () => {
    const broker = await startTestBroker();
    await fill(broker, 3);
    const client = await broker.open();
    const [record] = await client.poll(flow(1));
    const big = 2n ** 64n - 1n;
    const tokens = [0n, 1n, 2n, 3n, 1024n, 2n ** 32n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n, big];
    for (const offset of tokens) {
      for (const generation of [0n, big, 2n ** 53n, 2n ** 32n + record.generation]) {
        const token = Buffer.from(ack(record));
        token.writeBigUInt64LE(offset, 6);
        token.writeBigUInt64LE(generation, 14);
        client.send(token);
        await client.expectStatus(0);
      }
    }
    await client.ackAll([record]);
  });

  it("pipelined acks of all kinds are answered one by one, in order", async () => {
    const broker = await startTestBroker();
    await fill(broker, 64);
    const client = await broker.open();
    const records = await client.poll(flow(64));
    client.send(...records.flatMap((record, index) => [[ack, nack, term, progress][index % 4](record), ack(record)]));
    for (const { offset } of records) {
      await client.expectStatus(1);
      // Only progress leaves the lease with the connection.
      await client.expectStatus(offset % 4 === 3 ? 1 : 0);
    }
  });
});
