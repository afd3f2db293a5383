import { describe, expect, it } from "vitest";
import { startSteppedBroker, startTestBroker, type TestBroker, until } from "./broker-fixture.ts";
import { connect, flow, ping, pub, sub, TAG, u64 } from "./messages.ts";
import { type Frame, offsetsOf, range } from "./raw-client.ts";

const FATAL = "fatal storage error";

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

  it.each(["interval", "async", "none"] as const)(
    "storage.md 15: at level %s acks and deliveries do not wait for a sync",
    async (level) => {
      const durability = { level, flushIntervalMs: 60_000, flushMaxBytes: 2 ** 30 };
      const broker = await startTestBroker({ durability });
      const client = await broker.open();
      broker.files.holdBarriers();
      expect(await client.publish({ payload: "a" }, { payload: "b" })).toEqual([0, 1]);
      expect(offsetsOf(await client.poll(flow(10)))).toEqual([0, 1]);
      broker.files.releaseBarriers();
      await broker.stop();
      const after = await startTestBroker({ durability }, broker.files.imageAfterPowerCut({ style: "lost" }));
      expect(offsetsOf(await (await after.open()).poll(flow(10)))).toEqual([0, 1]);
    },
  );

  it("records in many segments are all there, in order, before and after a restart", async () => {
    const options = { maxSegmentBytes: 64 * 1024 };
    const broker = await startTestBroker(options);
    const producer = await broker.open();
    const payload = (index: number) => `${index}-`.repeat(200);
    for (let sent = 0; sent < 1000; sent += 100) {
      await producer.publish(...range(sent, sent + 100).map((index) => ({ payload: payload(index) })));
    }
    const readAll = async (from: TestBroker, group: string): Promise<void> => {
      const client = await from.open();
      client.send(sub(group));
      await client.expectFrame(TAG.ok);
      let next = 0;
      for (let batch = await client.poll(flow(500)); batch.length > 0; batch = await client.poll(flow(500))) {
        for (const record of batch) {
          expect(record.offset).toBe(next);
          expect(record.payload.toString()).toBe(payload(next));
          next++;
        }
        await client.ackAll(batch);
      }
      expect(next).toBe(1000);
    };
    await readAll(broker, "one");
    const after = await startTestBroker(options, await broker.kill());
    await readAll(after, "two");
    expect(await (await after.open()).publish({ payload: "next" })).toEqual([1000]);
  });

  it("storage.md 20.2: a disk too full for the next segment refuses that publish and heals by itself", async () => {
    const broker = await startTestBroker({ maxSegmentBytes: 64 * 1024 });
    const client = await broker.open();
    await client.publish({ payload: "before" });
    broker.files.fail({ operation: "open", path: /seg-0*1\.log/, code: "ENOSPC", times: Number.POSITIVE_INFINITY });
    const payload = Buffer.alloc(8 * 1024);
    let acked = 1;
    let refused = 0;
    for (let sent = 0; sent < 30; sent++) {
      client.send(pub({ payload }));
      const { tag } = await client.frame();
      expect([TAG.pubAck, TAG.err]).toContain(tag);
      if (tag === TAG.pubAck) acked++;
      else refused++;
    }
    expect(refused).toBeGreaterThan(0);
    await client.expectOpen();
    expect((await client.poll(flow(1)))[0].payload.toString()).toBe("before");
    broker.files.clearFaults();
    // A full disk is left alone for a moment.
    let answer: Frame;
    do {
      client.send(pub({ payload: "after" }));
      answer = await client.frame();
    } while (answer.tag === TAG.err);
    // Refused publishes took no offsets.
    expect(answer).toEqual({ tag: TAG.pubAck, body: u64(acked) });
  });
});
