import { describe, expect, it } from "vitest";
import { startSteppedBroker, startTestBroker, type TestBroker, until } from "./broker-fixture.ts";
import { connect, flow, nack, ping, pub, sub, TAG } from "./messages.ts";
import { offsetsOf, type RawClient, range } from "./raw-client.ts";

const FATAL = "fatal storage error";

async function fill(broker: TestBroker, count: number): Promise<void> {
  const producer = await broker.open();
  for (let sent = 0; sent < count; sent += 500) {
    await producer.publish(...range(sent, Math.min(count, sent + 500)).map((index) => ({ payload: `${index}` })));
  }
  await producer.close();
}

/** Drains and acks the next `count` records in order. */
async function consume(client: RawClient, count: number): Promise<void> {
  for (let left = count; left > 0; ) {
    const records = await client.poll(flow(left));
    expect(records.length).toBeGreaterThan(0);
    await client.ackAll(records);
    left -= records.length;
  }
}

async function firstOffset(broker: TestBroker, group = ""): Promise<number> {
  const client = await broker.open();
  client.send(sub(group));
  await client.expectFrame(TAG.ok);
  const [record] = await client.poll(flow(1));
  await client.close();
  return record.offset;
}

describe("ends of connections", () => {
  it("wire.md 22.71: a stalled sync delays neither another connection's Ping nor its Fetch", async () => {
    const broker = await startTestBroker();
    const idle = await broker.open();
    await idle.publish({ payload: "before" });
    const producer = await broker.open();
    broker.files.holdBarriers();
    producer.send(pub({ payload: "stalled" }), ping());
    await until(() => broker.files.heldBarriers > 0);
    await idle.expectOpen();
    expect(offsetsOf(await idle.poll(flow(10)))).toEqual([0]);
    broker.files.releaseBarriers();
    expect(await producer.expectPubAck()).toBe(1);
    await producer.expectFrame(TAG.pong);
  });

  it("wire.md 22.72: 50 publishes and a FIN: 50 acks, then the end", async () => {
    const client = await (await startTestBroker()).open();
    client.send(...range(0, 50).map((index) => pub({ payload: `${index}` })));
    client.halfClose();
    for (const offset of range(0, 50)) expect(await client.expectPubAck()).toBe(offset);
    expect(await client.ended()).toHaveLength(0);
  });

  it("wire.md 6.3.5: a FIN while the sync is stalled: the acks still come, then the end", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    broker.files.holdBarriers();
    client.send(pub({ payload: "a" }), pub({ payload: "b" }), ping());
    client.halfClose();
    await until(() => broker.files.heldBarriers > 0);
    broker.files.releaseBarriers();
    expect(await client.expectPubAck()).toBe(0);
    expect(await client.expectPubAck()).toBe(1);
    await client.expectFrame(TAG.pong);
    expect(await client.ended()).toHaveLength(0);
  });

  it("wire.md 22.73: 30 s without a byte end a connection silently; a Ping every 10 s keeps it", async () => {
    const broker = await startSteppedBroker();
    const idle = await broker.open();
    const silent = await broker.dial();
    const pinging = await broker.open();
    await until(() => broker.connections() === 3);
    for (let turn = 0; turn < 2; turn++) {
      broker.clock.advance(10_000);
      await pinging.expectOpen();
    }
    expect(broker.connections()).toBe(3);
    for (let turn = 0; turn < 3; turn++) {
      broker.clock.advance(10_000);
      await pinging.expectOpen();
    }
    expect(await idle.ended()).toHaveLength(0);
    expect(await silent.ended()).toHaveLength(0);
    await pinging.expectOpen();
    expect(broker.connections()).toBe(1);
  });

  it("wire.md 22.73: a part of a frame and then nothing is idle, too", async () => {
    const broker = await startSteppedBroker();
    const client = await broker.open();
    client.send(ping().subarray(0, 3));
    await client.socket.end;
    const other = await broker.open();
    await other.expectOpen();
    broker.clock.advance(40_000);
    expect(await client.ended()).toHaveLength(0);
  });

  it("wire.md 6.1: the idle limit does not end a connection whose publishes are pending", async () => {
    const broker = await startSteppedBroker();
    const client = await broker.open();
    broker.files.holdBarriers();
    client.send(pub({ payload: "x" }));
    await until(() => broker.files.heldBarriers > 0);
    for (let turn = 0; turn < 10; turn++) broker.clock.advance(10_000);
    broker.files.releaseBarriers();
    expect(await client.expectPubAck()).toBe(0);
  });

  it("wire.md 22.74: a connection over the cap ends at once without a byte; a freed place is usable", async () => {
    const broker = await startTestBroker({ maxConnections: 3 });
    const clients = [await broker.open(), await broker.open(), await broker.open()];
    for (let extra = 0; extra < 5; extra++) {
      const over = await broker.dial();
      over.send(connect());
      expect(await over.ended()).toHaveLength(0);
    }
    for (const client of clients) await client.expectOpen();
    await clients[0].close();
    await until(() => broker.connections() === 2);
    await (await broker.open()).expectOpen();
  });
});

describe("durability", () => {
  it("semantics.md 24.71: no ack before the sync", async () => {
    const broker = await startTestBroker();
    const clients = [await broker.open(), await broker.open()];
    broker.files.holdBarriers();
    for (const client of clients) client.send(pub({ payload: "x" }));
    await until(() => broker.files.heldBarriers > 0);
    // Time for acks that must not come; were they sent, they would be the first frames seen below.
    await new Promise((resolve) => setTimeout(resolve, 100));
    const lost = broker.files.imageAfterPowerCut({ style: "lost" });
    for (const client of clients) expect(client.socket.bytesRead).toBe(33);
    broker.files.releaseBarriers();
    const offsets = [await clients[0].expectPubAck(), await clients[1].expectPubAck()];
    expect(offsets.sort()).toEqual([0, 1]);
    const after = await startTestBroker({}, lost);
    expect(await (await after.open()).poll(flow(10))).toEqual([]);
  });

  it("semantics.md 24.71: a failed sync: a fatal error for every producer of the batch, no ack, then the end", async () => {
    const broker = await startTestBroker();
    const first = await broker.open();
    await first.publish({ payload: "safe" });
    const second = await broker.open();
    const reader = await broker.open();
    broker.files.fail({ operation: "sync", code: "EIO" });
    first.send(pub({ payload: "a" }), pub({ payload: "b" }));
    second.send(pub({ payload: "c" }));
    for (const client of [first, second]) {
      await client.expectErr(FATAL);
      expect(await client.ended()).toHaveLength(0);
    }
    expect(broker.events).toHaveLength(1);
    // What was acknowledged is still served; nothing more is taken.
    const records = await reader.poll(flow(10));
    expect(records.map((record) => record.payload.toString())).toEqual(["safe"]);
    const late = await broker.open();
    late.send(pub({ payload: "late" }));
    await late.expectErr(FATAL);
    expect(await late.ended()).toHaveLength(0);
    await reader.expectOpen();
  });

  it("wire.md 6.4: after a failed sync a level-0 publish ends the connection without an Err", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    broker.files.fail({ operation: "sync", code: "EIO" });
    client.send(pub({ payload: "a" }));
    await client.expectErr(FATAL);
    const silent = await broker.open();
    silent.send(pub({ flags: 0x40, payload: "b" }));
    expect(await silent.ended()).toHaveLength(0);
  });

  it.each(["lost", "kept", "prefix", "scattered"] as const)(
    "every acknowledged record survives a power cut that leaves unsynced writes %s, in order and once",
    async (style) => {
      const broker = await startTestBroker();
      const client = await broker.open();
      let acked = 0;
      for (let turn = 0; turn < 20; turn++) {
        acked += (await client.publish(...range(0, 10).map((n) => ({ payload: `${turn * 10 + n}` })))).length;
      }
      client.send(...range(0, 50).map((index) => pub({ payload: `${acked + index}` })));
      const image = broker.files.imageAfterPowerCut({ style, seed: 7 });
      const after = await startTestBroker({}, image);
      const reader = await after.open();
      const payloads: string[] = [];
      for (let batch = await reader.poll(flow(500)); batch.length > 0; batch = await reader.poll(flow(500))) {
        payloads.push(...batch.map((record) => record.payload.toString()));
        await reader.ackAll(batch);
      }
      expect(payloads.length).toBeGreaterThanOrEqual(acked);
      expect(payloads).toEqual(range(0, payloads.length).map(String));
      expect(await (await after.open()).publish({ payload: "next" })).toEqual([payloads.length]);
    },
  );
});

describe("consumer positions", () => {
  it("semantics.md 24.25: 1500 acks, then a kill: between 1024 and 1500 of them are remembered", async () => {
    const broker = await startTestBroker();
    await fill(broker, 1600);
    await consume(await broker.open(), 1500);
    const after = await startTestBroker({}, await broker.kill());
    const offset = await firstOffset(after);
    expect(offset).toBeGreaterThanOrEqual(1024);
    expect(offset).toBeLessThanOrEqual(1500);
  });

  it("semantics.md 24.25: 1500 acks, then a graceful stop: all of them are remembered", async () => {
    const broker = await startTestBroker();
    await fill(broker, 1600);
    const client = await broker.open();
    client.send(sub("named"));
    await client.expectFrame(TAG.ok);
    await consume(client, 1500);
    await consume(await broker.open(), 700);
    await broker.stop();
    const after = await startTestBroker({}, broker.files);
    expect(await firstOffset(after, "named")).toBe(1500);
    expect(await firstOffset(after)).toBe(700);
  });

  it("semantics.md 24.25: 1500 acks, a clean disconnect, then a kill: all of them are remembered", async () => {
    const broker = await startTestBroker();
    await fill(broker, 1600);
    const client = await broker.open();
    client.send(sub("named"));
    await client.expectFrame(TAG.ok);
    await consume(client, 1500);
    await client.close();
    await until(() => broker.connections() === 0);
    const after = await startTestBroker({}, await broker.kill());
    expect(await firstOffset(after, "named")).toBe(1500);
  });

  it("semantics.md 24.26: of five acked-ahead records the lowest three are remembered", async () => {
    const broker = await startTestBroker();
    await fill(broker, 12);
    const client = await broker.open();
    const records = await client.poll(flow(12));
    await client.ackAll([2, 4, 6, 8, 10].map((offset) => records[offset]));
    await broker.stop();
    const after = await startTestBroker({}, broker.files);
    const again = await (await after.open()).poll(flow(12));
    expect(offsetsOf(again)).toEqual([0, 1, 3, 5, 7, 8, 9, 10, 11]);
  });

  it("semantics.md 5: tokens of before a restart are fenced", async () => {
    const broker = await startTestBroker();
    await fill(broker, 2);
    const [record] = await (await broker.open()).poll(flow(1));
    await broker.stop();
    const after = await startTestBroker({}, broker.files);
    const client = await after.open();
    client.send(nack(record));
    await client.expectStatus(0);
    await client.ackAll(await client.poll(flow(2)));
  });

  it("semantics.md 24.30: more groups on disk than the cap are all resumed; a new one is refused", async () => {
    const broker = await startTestBroker();
    await fill(broker, 20);
    for (const [index, name] of ["a", "b", "c"].entries()) {
      const client = await broker.open();
      client.send(sub(name));
      await client.expectFrame(TAG.ok);
      await consume(client, index + 1);
    }
    await broker.stop();
    const after = await startTestBroker({ maxGroups: 2 }, broker.files);
    for (const [index, name] of ["a", "b", "c"].entries()) expect(await firstOffset(after, name)).toBe(index + 1);
    const client = await after.open();
    client.send(sub("d"));
    await client.expectFrame(TAG.ok);
    client.send(flow(1));
    await client.expectErr("fetch failed");
  });
});
