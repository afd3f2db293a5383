import { describe, expect, it } from "vitest";
import { CheckpointFile } from "../../src/log/checkpoint-file.ts";
import { ATTEMPTS_CAPACITY, decodeAttempts, encodeAttempts } from "../../src/log/checkpoint-payloads.ts";
import type { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { loadCodec } from "../../src/runtime/native/codec.ts";
import { fill, startTestBroker, type TestBroker, until } from "./broker-fixture.ts";
import { flow, nack, sub, TAG } from "./messages.ts";
import { offsetsOf, type RawClient } from "./raw-client.ts";

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

  it("semantics.md 24.26: the same after a clean disconnect and a kill", async () => {
    const broker = await startTestBroker();
    await fill(broker, 6);
    const client = await broker.open();
    const records = await client.poll(flow(6));
    await client.ackAll([records[1], records[3]]);
    await client.close();
    await until(() => broker.connections() === 0);
    const after = await startTestBroker({}, await broker.kill());
    expect(offsetsOf(await (await after.open()).poll(flow(6)))).toEqual([0, 2, 4, 5]);
  });

  it("semantics.md 24.24: delivery counts survive a kill", async () => {
    const broker = await startTestBroker();
    await fill(broker, 3);
    const client = await broker.open();
    for (let delivery = 0; delivery < 2; delivery++) {
      const [record] = await client.poll(flow(1));
      client.send(nack(record));
      await client.expectStatus(1);
    }
    const counts = (files: SimulatedFileSystem): unknown => {
      const { codec } = loadCodec();
      const queue = files.createQueue();
      const onError = (error: Error): void => expect(error).toBeUndefined();
      const file = CheckpointFile.open({
        files,
        codec,
        queue,
        onError,
        root: "/data",
        name: "attempts.ckpt",
        capacity: ATTEMPTS_CAPACITY,
        initialPayload: encodeAttempts([], codec),
      });
      const attempts = decodeAttempts(file.payload!, codec);
      file.close();
      return attempts;
    };
    const image = await broker.kill();
    expect(counts(image)).toEqual([{ offset: 0, deliveries: 2 }]);
    // And they go on from there in the next life.
    const after = await startTestBroker({}, image);
    const [record] = await (await after.open()).poll(flow(1));
    expect(record.offset).toBe(0);
    expect(counts(await after.kill())).toEqual([{ offset: 0, deliveries: 3 }]);
  });

  it("a graceful stop with consumers connected, records acked ahead and in flight, is quiet", async () => {
    const broker = await startTestBroker();
    await fill(broker, 6);
    const faults: unknown[] = [];
    const note = (fault: unknown): void => {
      faults.push(fault);
    };
    process.on("warning", note);
    const client = await broker.open();
    const records = await client.poll(flow(6));
    await client.ackAll([records[1], records[3]]);
    const ended = client.ended();
    await broker.stop();
    expect(await ended).toHaveLength(0);
    await new Promise((resolve) => setTimeout(resolve, 50));
    process.off("warning", note);
    expect([faults, broker.events]).toEqual([[], []]);
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
