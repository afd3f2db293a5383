import { describe, expect, it } from "vitest";
import { startSteppedBroker, startTestBroker, type TestBroker, until } from "./broker-fixture.ts";
import { connect, flow, frame, ping, pub, TAG, u8, u32 } from "./messages.ts";
import { RawClient, range } from "./raw-client.ts";

const MIB = 1024 * 1024;
/** A peer that was offered this much without reading must have been stopped long before. */
const OFFERED_BYTES = 128 * MIB;
/** Buffers of the kernel at both ends, and the broker's own bounds. */
const TAKEN_BYTES = 48 * MIB;

/** Writes `chunk` again and again until the peer takes no more, or all was taken. Returns the bytes handed over. */
async function writeUntilStuck(client: RawClient, chunk: Uint8Array, total: number): Promise<number> {
  let sent = 0;
  while (sent < total) {
    sent += chunk.length;
    if (client.socket.write(chunk)) continue;
    const drained = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), 2000);
      client.socket.once("drain", () => {
        clearTimeout(timer);
        resolve(true);
      });
    });
    if (!drained) break;
  }
  return sent;
}

function heapInUse(): number {
  Bun.gc(true);
  return process.memoryUsage().heapUsed;
}

/** Publishes and consumes as if nobody else were there. */
async function expectUndisturbed(broker: TestBroker): Promise<void> {
  const client = await broker.open();
  client.send(frame(TAG.sub, Buffer.from(`neighbour-${Math.random().toString(36).slice(2)}`)));
  await client.expectFrame(TAG.ok);
  const [offset] = await client.publish({ payload: "undisturbed" });
  expect(offset).toBeGreaterThanOrEqual(0);
  expect(await client.poll(flow(1))).toHaveLength(1);
  await client.close();
}

describe("bad input", () => {
  it("a peer that sends Pings and never reads is not read from any more; later it gets every Pong", async () => {
    const broker = await startTestBroker();
    const greedy = await broker.open();
    greedy.socket.pause();
    const pings = Buffer.concat(Array.from({ length: 13_107 }, () => ping()));
    const sent = await writeUntilStuck(greedy, pings, OFFERED_BYTES);
    expect(sent).toBeLessThan(TAKEN_BYTES);
    await expectUndisturbed(broker);
    greedy.socket.resume();
    let received = 0;
    greedy.socket.on("data", (bytes: Buffer) => {
      received += bytes.length;
    });
    await until(() => greedy.socket.bytesRead >= sent + 33);
    expect(received).toBeGreaterThan(0);
  });

  it("a peer that publishes and never reads its acks is not read from any more", async () => {
    const broker = await startTestBroker();
    const greedy = await broker.open();
    greedy.socket.pause();
    const chunk = Buffer.concat(Array.from({ length: 2000 }, () => pub({ payload: "x" })));
    expect(await writeUntilStuck(greedy, chunk, OFFERED_BYTES)).toBeLessThan(TAKEN_BYTES);
    await expectUndisturbed(broker);
  });

  it("a slow reader of large records holds up nobody, and gets all of them in the end", async () => {
    const broker = await startTestBroker();
    const producer = await broker.open();
    const payload = Buffer.alloc(256 * 1024, 1);
    for (let sent = 0; sent < 60; sent += 10) await producer.publish(...range(0, 10).map(() => ({ payload })));
    const slow = await broker.open(connect({ creditBytes: 0 }));
    slow.socket.pause();
    slow.send(flow(64), ping());
    for (let turn = 0; turn < 5; turn++) await expectUndisturbed(broker);
    slow.socket.resume();
    const records = await slow.delivery();
    expect(records.length).toBeGreaterThanOrEqual((8 * MIB) / payload.length);
    expect(records.every((record) => record.payload.equals(payload))).toBe(true);
    await slow.expectFrame(TAG.pong);
  });

  it("wire.md 6.1: a reader without progress for 30 s is cut off; its leases come back to others", async () => {
    const broker = await startSteppedBroker();
    const producer = await broker.open();
    const payload = Buffer.alloc(MIB, 1);
    for (let sent = 0; sent < 20; sent++) await producer.publish({ payload });
    await producer.close();
    const stuck = await broker.dial();
    stuck.send(connect());
    expect((await stuck.frame()).tag).toBe(TAG.info);
    stuck.socket.pause();
    const filler = Buffer.concat(Array.from({ length: 13_107 }, () => ping()));
    stuck.send(flow(64));
    await writeUntilStuck(stuck, filler, OFFERED_BYTES);
    expect(broker.connections()).toBe(1);
    broker.clock.advance(29_000);
    expect(broker.connections()).toBe(1);
    broker.clock.advance(5000);
    await until(() => broker.connections() === 0);
    const other = await broker.open();
    expect((await other.poll(flow(1)))[0].offset).toBe(0);
  });

  it("wire.md 6.1: the 30 s without progress count from when output got stuck, not from when the connection began", async () => {
    const broker = await startSteppedBroker();
    const producer = await broker.open();
    const payload = Buffer.alloc(MIB, 1);
    for (let sent = 0; sent < 20; sent++) await producer.publish({ payload });
    await producer.close();
    const slow = await broker.open(connect({ creditBytes: 0 }));
    for (let turn = 0; turn < 4; turn++) {
      broker.clock.advance(10_000);
      await slow.expectOpen();
    }
    slow.socket.pause();
    slow.send(flow(64));
    await writeUntilStuck(slow, Buffer.concat(Array.from({ length: 13_107 }, () => ping())), OFFERED_BYTES);
    broker.clock.advance(20_000);
    expect(broker.connections()).toBe(1);
    slow.socket.resume();
    expect((await slow.delivery()).length).toBeGreaterThan(5);
  });

  it("a FIN behind a request for more than the socket holds: the whole response still comes", async () => {
    const broker = await startTestBroker();
    const producer = await broker.open();
    const payload = Buffer.alloc(512 * 1024, 2);
    for (let sent = 0; sent < 20; sent++) await producer.publish({ payload });
    const client = await broker.open(connect({ creditBytes: 0 }));
    client.socket.pause();
    client.send(flow(64), ping());
    client.halfClose();
    await expectUndisturbed(broker);
    client.socket.resume();
    const records = await client.delivery();
    expect(records.length).toBeGreaterThanOrEqual(16);
    expect(records.every((record) => record.payload.equals(payload))).toBe(true);
    await client.expectFrame(TAG.pong);
    expect(await client.ended()).toHaveLength(0);
  });

  it("10,000 connections in a row, well-behaved and not, leave nothing behind", async () => {
    const broker = await startTestBroker();
    const neighbour = await broker.open();
    const visit = async (index: number): Promise<void> => {
      const client = await RawClient.dial(broker.port);
      switch (index % 5) {
        case 0:
          client.send(connect(), ping());
          expect((await client.frame()).tag).toBe(TAG.info);
          await client.expectFrame(TAG.pong);
          await client.close();
          break;
        case 1:
          client.send(u32(0));
          expect(await client.ended()).toHaveLength(0);
          client.socket.destroy();
          break;
        case 2:
          client.send(connect(), pub({ payload: "x" }).subarray(0, 9));
          expect((await client.frame()).tag).toBe(TAG.info);
          client.socket.resetAndDestroy();
          break;
        case 3:
          client.socket.destroy();
          break;
        default:
          client.send(connect(), pub({ payload: "x" }));
          client.halfClose();
          expect((await client.frame()).tag).toBe(TAG.info);
          await client.expectPubAck();
          expect(await client.ended()).toHaveLength(0);
          client.socket.destroy();
      }
    };
    let heapAfterWarmUp = 0;
    for (let index = 0; index < 10_000; index += 50) {
      await Promise.all(range(index, index + 50).map(visit));
      if (index === 2000) heapAfterWarmUp = heapInUse();
    }
    await neighbour.expectOpen();
    await until(() => broker.connections() === 1);
    expect(heapInUse() - heapAfterWarmUp).toBeLessThan(32 * MIB);
    expect(await neighbour.publish({ payload: "last" })).toEqual([2000]);
    await expectUndisturbed(broker);
  }, 300_000);

  it("half-open peers and pieces of frames hold up nobody", async () => {
    const broker = await startTestBroker();
    const pieces = [
      Buffer.alloc(0),
      u32(16_842_752),
      pub({ payload: "abc" }).subarray(0, 20),
      u32(5),
      connect().subarray(0, 7),
    ];
    for (const piece of pieces) {
      const client = await broker.dial();
      if (piece.length > 0) client.send(piece);
    }
    await expectUndisturbed(broker);
    const gone = await broker.dial();
    gone.send(pub({ payload: "abc" }).subarray(0, 20));
    gone.halfClose();
    expect(await gone.ended()).toHaveLength(0);
    await until(() => broker.connections() === pieces.length);
  });

  it("a frame announced as large is not taken memory for before it comes", async () => {
    const broker = await startTestBroker();
    const before = process.memoryUsage().rss;
    const peers = await Promise.all(range(0, 200).map(() => broker.open()));
    for (const peer of peers) peer.send(u32(16_842_752), u8(TAG.pub), Buffer.alloc(10));
    for (const peer of peers.slice(0, 5)) peer.send(Buffer.alloc(1000));
    await expectUndisturbed(broker);
    // 200 frames of 16 MiB would be 3.2 GB.
    expect(process.memoryUsage().rss - before).toBeLessThan(1024 * MIB);
  });

  it("random bytes end in a reply or a close, and never touch the neighbours", async () => {
    const broker = await startTestBroker();
    const neighbour = await broker.open();
    let state = 12345;
    const random = (bound: number): number => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
      return state % bound;
    };
    for (let round = 0; round < 300; round++) {
      const client = await broker.open();
      const garbage = Buffer.from(range(0, 1 + random(200)).map(() => random(256)));
      // Half of it in a well-formed envelope, so that it reaches the verbs.
      client.send(round % 2 === 0 ? garbage : frame(random(64), garbage));
      client.halfClose();
      const rest = await client.ended();
      for (let at = 0; at < rest.length; at += 4 + rest.readUInt32LE(at)) {
        const tag = rest[at + 4];
        expect([TAG.info, TAG.pong, TAG.ok, TAG.err, TAG.pubAck, TAG.ackStatus, TAG.flowEnd, TAG.deliver]).toContain(
          tag,
        );
      }
      client.socket.destroy();
    }
    await neighbour.expectOpen();
    await expectUndisturbed(broker);
  });

  it("every length of every verb's body is answered once, and the connection stays open", async () => {
    const broker = await startTestBroker({ maxGroups: 8 });
    const client = await broker.open();
    const verbs = [1, 5, 6, 7, 8, 10, 19, 23, 24, 25, 28, 29, 30, 31, 34, 35, 36, 44, 45, 46, 48, 49, 52];
    for (const tag of verbs) {
      for (let length = 0; length < 40; length++) {
        for (const fill of [0x00, 0x01, 0xff]) {
          client.send(frame(tag, Buffer.alloc(length, fill)), ping());
          const replies: number[] = [];
          for (let reply = await client.frame(); reply.tag !== TAG.pong; reply = await client.frame()) {
            if (reply.tag === TAG.err) expect(reply.body.length).toBeGreaterThan(0);
            if (reply.tag !== TAG.deliver) replies.push(reply.tag);
          }
          // A publish at level 0 has no reply.
          if (tag === TAG.pub) expect(replies.length).toBeLessThanOrEqual(1);
          else expect(replies).toHaveLength(1);
        }
      }
    }
  });
});
