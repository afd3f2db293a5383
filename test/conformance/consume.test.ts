import { describe, expect, it } from "vitest";
import { startSteppedBroker, startTestBroker, type TestBroker, until } from "./broker-fixture.ts";
import {
  ack,
  connect,
  fetch,
  flow,
  frame,
  nack,
  ping,
  progress,
  SERVER_BACKOFF,
  sub,
  TAG,
  term,
  u8,
  u32,
} from "./messages.ts";
import { offsetsOf, type RawClient, range } from "./raw-client.ts";

const VISIBILITY_MS = 30_000;
const HARD_CAP_MS = 300_000;

async function fill(broker: TestBroker, count: number, payload: string | Uint8Array = "x"): Promise<void> {
  const producer = await broker.open();
  for (let sent = 0; sent < count; sent += 500) {
    await producer.publish(...range(sent, Math.min(count, sent + 500)).map(() => ({ payload })));
  }
  await producer.close();
}

/** One Flow, everything acked: how many there were. */
async function drainOnce(client: RawClient): Promise<number> {
  const records = await client.poll(flow(5000));
  await client.ackAll(records);
  return records.length;
}

describe("flow and fetch", () => {
  it("wire.md 22.34: an empty log answers at once, whatever the deadline", async () => {
    const client = await (await startTestBroker()).open();
    expect(await client.poll(flow(10))).toEqual([]);
    const started = performance.now();
    expect(await client.poll(fetch({ maxRecords: 10, expiresMs: 60_000 }))).toEqual([]);
    expect(await client.poll(fetch({ maxRecords: 10, noWait: true }))).toEqual([]);
    expect(performance.now() - started).toBeLessThan(30_000);
  });

  it.each([
    [1024, 1024],
    [4096, 2048],
  ])("wire.md 22.35, semantics.md 24.45: with max_in_flight %i batches grow by 64 up to %i", async (max, last) => {
    const broker = await startTestBroker({ maxInFlight: max });
    const client = await broker.open();
    const expected = range(1, 35).map((batch) => Math.min(64 * batch, last));
    await fill(broker, expected.reduce((sum, size) => sum + size, 0) + 5000);
    for (const size of expected) expect(await drainOnce(client)).toBe(size);
  });

  it("wire.md 22.35: a Flow for less than the window does not make it grow", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    await fill(broker, 500);
    for (let turn = 0; turn < 3; turn++) await client.ackAll(await client.poll(flow(63)));
    expect(await drainOnce(client)).toBe(64);
    expect(await drainOnce(client)).toBe(128);
  });

  it("semantics.md 24.46: a negotiated credit of 10 is a window of 10 for good", async () => {
    const broker = await startTestBroker();
    const client = await broker.open(connect({ credit: 10 }));
    await fill(broker, 100);
    for (let turn = 0; turn < 5; turn++) expect(await drainOnce(client)).toBe(10);
  });

  it("semantics.md 24.47: a nack halves the window, never below 64", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    await fill(broker, 2000);
    expect(await drainOnce(client)).toBe(64);
    const batch = await client.poll(flow(5000));
    expect(batch).toHaveLength(128);
    // The window is 192 now; a nack makes it 96, and 127 are held.
    client.send(nack(batch[127], 3_600_000));
    await client.expectStatus(1);
    expect(await client.poll(flow(5000))).toEqual([]);
    await client.ackAll(batch.slice(0, 127));
    const next = await client.poll(flow(5000));
    expect(next).toHaveLength(96);
    for (const record of next.slice(0, 3)) {
      client.send(nack(record, 3_600_000));
      await client.expectStatus(1);
    }
    await client.ackAll(next.slice(3));
    expect(await drainOnce(client)).toBe(64);
  });

  it("semantics.md 24.48: the byte budget counts what is held, and one record always goes out", async () => {
    const broker = await startTestBroker();
    await fill(broker, 10, Buffer.alloc(400));
    const client = await broker.open(connect({ creditBytes: 1000 }));
    const first = await client.poll(flow(10));
    expect(offsetsOf(first)).toEqual([0, 1, 2]);
    expect(await client.poll(flow(10))).toEqual([]);
    await client.ackAll([first[0]]);
    expect(offsetsOf(await client.poll(flow(10)))).toEqual([3]);

    const large = await startTestBroker();
    await fill(large, 2, Buffer.alloc(5000));
    const other = await large.open(connect({ creditBytes: 1000 }));
    expect(offsetsOf(await other.poll(flow(10)))).toEqual([0]);
    expect(await other.poll(flow(10))).toEqual([]);
  });

  it("semantics.md 10.3: the byte budget counts key and headers, too", async () => {
    const broker = await startTestBroker();
    const client = await broker.open(connect({ creditBytes: 1000 }));
    const record = { key: "k".repeat(200), headers: "h".repeat(150), payload: "p".repeat(50) };
    await client.publish(record, record, record, record, record);
    expect(await client.poll(flow(10))).toHaveLength(3);
  });

  it("semantics.md 24.49: zero credit leases nothing and loses nothing", async () => {
    const broker = await startTestBroker();
    await fill(broker, 100);
    const client = await broker.open(connect({ credit: 64 }));
    expect(await client.poll(flow(0))).toEqual([]);
    expect(await client.poll(fetch({ maxRecords: 0 }))).toEqual([]);
    const all = await client.poll(flow(64));
    expect(offsetsOf(all)).toEqual(range(0, 64));
    expect(await client.poll(flow(10))).toEqual([]);
    await client.ackAll(all.slice(0, 5));
    expect(offsetsOf(await client.poll(flow(5)))).toEqual(range(64, 69));
  });

  it("semantics.md 24.50: a consumer stuck at its full window does not hold up another", async () => {
    const broker = await startTestBroker();
    await fill(broker, 300);
    const stuck = await broker.open();
    expect(await stuck.poll(flow(64))).toHaveLength(64);
    const other = await broker.open();
    const seen: number[] = [];
    for (let batch = await other.poll(flow(5000)); batch.length > 0; batch = await other.poll(flow(5000))) {
      seen.push(...offsetsOf(batch));
      await other.ackAll(batch);
    }
    expect(seen).toEqual(range(64, 300));
  });

  it("semantics.md 24.34: two competing consumers get disjoint offsets, together all", async () => {
    const broker = await startTestBroker();
    await fill(broker, 500);
    const clients = [await broker.open(), await broker.open()];
    const seen: number[] = [];
    for (let idle = 0; idle < 2; ) {
      idle = 0;
      for (const client of clients) {
        const batch = await client.poll(flow(7));
        if (batch.length === 0) idle++;
        seen.push(...offsetsOf(batch));
        await client.ackAll(batch);
      }
    }
    expect(seen).toHaveLength(500);
    expect([...seen].sort((a, b) => a - b)).toEqual(range(0, 500));
  });

  it("wire.md 22.42: max_bytes is compared with what is held, and one record always goes out", async () => {
    const broker = await startTestBroker();
    await fill(broker, 10, Buffer.alloc(1000));
    const client = await broker.open();
    const request = fetch({ maxRecords: 10, maxBytes: 100 });
    const first = await client.poll(request);
    expect(offsetsOf(first)).toEqual([0]);
    expect(await client.poll(request)).toEqual([]);
    await client.ackAll(first);
    expect(offsetsOf(await client.poll(request))).toEqual([1]);
    expect(offsetsOf(await client.poll(fetch({ maxRecords: 10, maxBytes: 3500 })))).toEqual([2, 3, 4]);
    expect(offsetsOf(await client.poll(fetch({ maxRecords: 2 })))).toEqual([5, 6]);
  });

  it("semantics.md 24.55: max_records bounds a Fetch; a short deadline only bounds work", async () => {
    const broker = await startTestBroker();
    await fill(broker, 200);
    const client = await broker.open();
    expect(offsetsOf(await client.poll(fetch({ maxRecords: 3, noWait: true })))).toEqual([0, 1, 2]);
    expect(offsetsOf(await client.poll(fetch({ maxRecords: 2, expiresMs: 60_000 })))).toEqual([3, 4]);
    expect(await client.poll(fetch({ maxRecords: 1000 }))).toHaveLength(59);
  });

  it.each([0, 1, 3, 5, 8])("wire.md 22.43, semantics.md 24.53: a Flow body of %i bytes is refused", async (length) => {
    const client = await (await startTestBroker()).open();
    client.send(frame(TAG.flow, Buffer.alloc(length)));
    await client.expectErr("flow credit must be a u32");
    await client.expectOpen();
  });

  it.each([
    ["empty", ""],
    ["version 2", "02150000000000000000000000000000000000000000000000"],
    ["cut short", "011500000a"],
  ])("wire.md 7.4: a Fetch body that is %s is refused", async (_, hex) => {
    const client = await (await startTestBroker()).open();
    client.send(frame(TAG.fetch, Buffer.from(hex, "hex")));
    await client.expectErr("malformed fetch body");
    await client.expectOpen();
  });

  it("wire.md 3: a Fetch block too short for its fields reads them as 0", async () => {
    const broker = await startTestBroker();
    await fill(broker, 5);
    const client = await broker.open();
    const short = Buffer.concat([u8(0), u32(2)]);
    const body = Buffer.concat([u8(1), Buffer.from([short.length, 0]), short]);
    expect(offsetsOf(await client.poll(frame(TAG.fetch, body)))).toEqual([0, 1]);
  });
});

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

describe("groups", () => {
  it.each([
    ["a space", "a b"],
    ["129 bytes", "g".repeat(129)],
    ["a control byte", "a\x01"],
    ["a letter beyond ASCII", "é"],
    ["a delete byte", "a\x7f"],
    ["65,536 bytes", "g".repeat(65_536)],
  ])(
    "wire.md 22.44, semantics.md 24.31, 24.33: a name with %s is refused at the first Flow, not by Sub",
    async (_, name) => {
      const client = await (await startTestBroker()).open();
      await client.publish({ payload: "x" });
      client.send(sub(name));
      await client.expectFrame(TAG.ok);
      for (const request of [flow(1), fetch({ maxRecords: 1 }), flow(1)]) {
        client.send(request);
        await client.expectErr("fetch failed");
        await client.expectOpen();
      }
      client.send(sub("good"));
      await client.expectFrame(TAG.ok);
      expect(await client.poll(flow(1))).toHaveLength(1);
    },
  );

  it("semantics.md 24.31: up to 128 graphic bytes are a name", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    await client.publish({ payload: "x" });
    for (const name of ["!~", "a/../b", "*", "g".repeat(120), "g".repeat(121), "g".repeat(128)]) {
      client.send(sub(name));
      await client.expectFrame(TAG.ok);
      const records = await client.poll(flow(1));
      expect(offsetsOf(records)).toEqual([0]);
      await client.ackAll(records);
    }
    await client.close();
    await (await broker.open()).expectOpen();
  });

  it("storage.md 2: a group whose files cannot be named for the disk is reported", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    await client.publish({ payload: "x" });
    client.send(sub("g".repeat(128)));
    await client.expectFrame(TAG.ok);
    await client.ackAll(await client.poll(flow(1)));
    await client.close();
    await until(() => broker.connections() === 0);
    expect(broker.events.join()).toContain("ENAMETOOLONG");
  });

  it("wire.md 7.4: a name that is not UTF-8 is refused by Sub", async () => {
    const client = await (await startTestBroker()).open();
    client.send(sub(Buffer.from([0x61, 0xff])));
    await client.expectErr("subscription name must be valid UTF-8");
    await client.expectOpen();
  });

  it("semantics.md 24.32: the group cap counts the default group; an ack makes no group", async () => {
    const broker = await startTestBroker({ maxGroups: 2 });
    const client = await broker.open();
    await client.publish({ payload: "x" });
    const settleUnknown = async (name: string): Promise<void> => {
      client.send(sub(name));
      await client.expectFrame(TAG.ok);
      client.send(ack({ offset: 0, generation: 1n }));
      await client.expectStatus(0);
    };
    await settleUnknown("never-polled");
    await settleUnknown("one");
    expect(await client.poll(flow(1))).toHaveLength(1);
    await settleUnknown("two");
    client.send(flow(1));
    await client.expectErr("fetch failed");
    client.send(frame(TAG.unsub));
    await client.expectFrame(TAG.ok);
    expect(await client.poll(flow(1))).toHaveLength(1);
    client.send(sub("one"));
    await client.expectFrame(TAG.ok);
    expect(await client.poll(flow(1))).toHaveLength(0);
  });

  it("semantics.md 3: groups have cursors of their own; a new one starts at 0", async () => {
    const broker = await startTestBroker();
    await fill(broker, 10);
    const client = await broker.open();
    for (const name of ["", "a", "b"]) {
      client.send(sub(name));
      await client.expectFrame(TAG.ok);
      const records = await client.poll(flow(10));
      expect(offsetsOf(records)).toEqual(range(0, 10));
      await client.ackAll(records.slice(0, 4));
    }
  });

  it("wire.md 9.1: switching abandons the leases; they come back after the visibility timeout", async () => {
    const broker = await startSteppedBroker();
    await fill(broker, 3);
    const client = await broker.open();
    const [record] = await client.poll(flow(1));
    client.send(sub("other"), sub(""));
    await client.expectFrame(TAG.ok);
    await client.expectFrame(TAG.ok);
    client.send(ack(record));
    await client.expectStatus(0);
    expect(offsetsOf(await client.poll(flow(10)))).toEqual([1, 2]);
    broker.clock.advance(VISIBILITY_MS);
    expect(offsetsOf(await (await broker.open()).poll(flow(1)))).toEqual([0]);
  });
});

describe("compressed payloads", () => {
  it("wire.md 22.47: delivered as stored to who can decode them, plain to who cannot", async () => {
    const broker = await startTestBroker();
    // One literal run: token 0xF0 with an extension of 5, then 20 bytes (wire.md 16).
    const text = "twenty bytes of text";
    const lz4 = Buffer.concat([Buffer.from([0xf0, 5]), Buffer.from(text)]);
    const stored = Buffer.concat([u8(1), u32(0), u32(text.length), lz4]);
    const raw = Buffer.concat([u8(0), u32(0), u32(3), Buffer.from("raw")]);
    const producer = await broker.open();
    await producer.publish({ flags: 0x01, payload: stored, key: "k" }, { flags: 0x01, payload: raw });

    const plain = await broker.open(connect());
    const [one, two] = await plain.poll(flow(2));
    expect([one.payload.toString(), two.payload.toString()]).toEqual([text, "raw"]);
    expect([one.flags & 0x01, two.flags & 0x01]).toEqual([0, 0]);
    expect(one.key.toString()).toBe("k");

    const able = await broker.open(connect({ rest: u8(0x01) }));
    able.send(sub("able"));
    await able.expectFrame(TAG.ok);
    const [first, second] = await able.poll(flow(2));
    expect([first.payload.equals(stored), second.payload.equals(raw)]).toEqual([true, true]);
    expect([first.flags & 0x01, second.flags & 0x01]).toEqual([1, 1]);
  });

  it("wire.md 16: a batch stops before a record that cannot be decompressed, and nothing is lost", async () => {
    const broker = await startTestBroker();
    const corrupt = Buffer.concat([u8(1), u32(0), u32(1000), Buffer.from("no lz4")]);
    const client = await broker.open();
    await client.publish({ payload: "before" }, { flags: 0x01, payload: corrupt }, { payload: "after" });
    expect(offsetsOf(await client.poll(flow(10)))).toEqual([0]);
    await client.expectOpen();
    const able = await broker.open(connect({ rest: u8(0x01) }));
    const records = await able.poll(flow(10));
    expect(offsetsOf(records)).toEqual([1, 2]);
    expect(records[0].payload.equals(corrupt)).toBe(true);
  });

  it("wire.md 16: payloads of 64 bytes and more come back as they were, whatever the broker stores", async () => {
    const broker = await startTestBroker();
    const payloads = [63, 64, 65, 1000, 100_000].map((length) => Buffer.alloc(length, "abcdefgh"));
    const client = await broker.open();
    await client.publish(...payloads.map((payload) => ({ payload })));
    const records = await client.poll(flow(10));
    expect(records.map((record, index) => record.payload.equals(payloads[index]))).toEqual(payloads.map(() => true));
    expect(records.map((record) => record.flags & 0x01)).toEqual(payloads.map(() => 0));
  });
});
