import { describe, expect, it } from "vitest";
import { fill, startTestBroker } from "./broker-fixture.ts";
import { connect, fetch, flow, frame, nack, TAG, u8, u32 } from "./messages.ts";
import { offsetsOf, type RawClient, range } from "./raw-client.ts";

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
