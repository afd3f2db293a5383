import { describe, expect, it } from "vitest";
import { startTestBroker } from "./broker-fixture.ts";
import { connect, flow, sub, TAG, u8, u32 } from "./messages.ts";
import { offsetsOf } from "./raw-client.ts";

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
