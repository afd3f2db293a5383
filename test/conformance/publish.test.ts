import { describe, expect, it } from "vitest";
import { startTestBroker } from "./broker-fixture.ts";
import { connect, flow, frame, type PubFields, ping, pub, pubBody, TAG, u8, u32, u64, variable } from "./messages.ts";
import { offsetsOf, range } from "./raw-client.ts";

describe("publishing", () => {
  it("wire.md 22.22: offsets start at 0 and follow each other", async () => {
    const client = await (await startTestBroker()).open();
    for (const offset of [0, 1, 2]) expect(await client.publish({ payload: "x" })).toEqual([offset]);
  });

  it("wire.md 22.23: a window of 100 in one write is answered in order, a Ping behind it last", async () => {
    const client = await (await startTestBroker()).open();
    client.send(...range(0, 100).map((index) => pub({ payload: `${index}` })), ping());
    for (const offset of range(0, 100)) expect(await client.expectPubAck()).toBe(offset);
    await client.expectFrame(TAG.pong);
  });

  it("wire.md 22.24: a malformed body is refused in its place, the others are acknowledged", async () => {
    const client = await (await startTestBroker()).open();
    client.send(pub({ payload: "0" }), pub({ payload: "1" }), frame(TAG.pub, u8(0)), pub({ payload: "2" }));
    expect(await client.expectPubAck()).toBe(0);
    expect(await client.expectPubAck()).toBe(1);
    await client.expectErr("malformed pub body");
    expect(await client.expectPubAck()).toBe(2);
    await client.expectOpen();
  });

  it.each([
    ["nothing", ""],
    ["flags alone", "00"],
    ["no key length", "000000000000000000"],
    ["a key longer than the body", "000000000000000000050061"],
    ["no headers", "00000000000000000001006b"],
    ["headers longer than the body", "0000000000000000000000ffff"],
    ["a sequence bit without a dedup block", "20000000000000000000000000"],
    ["a dedup block that is missing", "80000000000000000000000000"],
    ["a dedup block cut short", "800000000000000000000000000100700000"],
    ["a dedup block without its sequence", "a0000000000000000000000000000000000000000000000000"],
    ["the fire-and-forget bit and nothing else", "40"],
  ])("wire.md 6.2: a body with %s is refused at any level", async (_, hex) => {
    const client = await (await startTestBroker()).open();
    client.send(frame(TAG.pub, Buffer.from(hex, "hex")));
    await client.expectErr("malformed pub body");
    await client.expectOpen();
    expect(await client.publish({})).toEqual([0]);
  });

  it.each([
    ["bit 0x40", 0x40],
    ["level field 1", 0x08],
    ["both", 0x48],
    ["bit 0x40 with level field 2", 0x50],
  ])("wire.md 22.25: level 0 by %s has no reply, is stored, and its wire flags are not", async (_, flags) => {
    const client = await (await startTestBroker()).open();
    client.send(pub({ flags, payload: "silent", key: "k" }), ping());
    await client.expectFrame(TAG.pong);
    const records = await client.poll(flow(10));
    expect(records).toHaveLength(1);
    expect(records[0].payload.toString()).toBe("silent");
    expect(records[0].flags & 0xf8).toBe(0);
    expect(records[0].flags & 0x02).toBe(0x02);
  });

  it("wire.md 22.26: level field 3 behaves as level 1", async () => {
    const client = await (await startTestBroker()).open();
    expect(await client.publish({ flags: 0x18, payload: "x" })).toEqual([0]);
    const [record] = await client.poll(flow(1));
    expect(record.flags & 0xf8).toBe(0);
  });

  it("wire.md 6.2: levels 0 and 1 mixed: the replies are those of level 1, in order, with the right offsets", async () => {
    const client = await (await startTestBroker()).open();
    const silent = (index: number) => index % 3 === 1;
    client.send(...range(0, 60).map((index) => pub({ flags: silent(index) ? 0x40 : 0, payload: `${index}` })), ping());
    for (const offset of range(0, 60).filter((index) => !silent(index)))
      expect(await client.expectPubAck()).toBe(offset);
    await client.expectFrame(TAG.pong);
    const records = await client.poll(flow(100));
    expect(records.map((record) => record.payload.toString())).toEqual(range(0, 60).map(String));
  });

  it("wire.md 22.30: ids over 256 bytes and a sequence without a producer are refused with their texts", async () => {
    const client = await (await startTestBroker()).open();
    const dedup = (producer: string, message: string, sequence: Uint8Array = Buffer.alloc(0)): PubFields => ({
      flags: sequence.length > 0 ? 0xa0 : 0x80,
      dedup: Buffer.concat([variable(producer), u64(0), variable(message), sequence]),
      payload: "x",
    });
    const refused: [PubFields, string][] = [
      [dedup("p".repeat(257), "m"), "producer_id too long"],
      [dedup("p", "m".repeat(257)), "msg_id too long"],
      [dedup("p".repeat(257), "m".repeat(257)), "producer_id too long"],
      [dedup("", "m", u64(1)), "idempotent sequence requires a non-empty producer_id"],
    ];
    for (const [fields, text] of refused) {
      client.send(pub(fields));
      await client.expectErr(text);
      await client.expectOpen();
      client.send(pub({ ...fields, flags: fields.flags! | 0x40 }), ping());
      await client.expectFrame(TAG.pong);
    }
    expect(await client.poll(flow(10))).toEqual([]);
    expect(await client.publish({})).toEqual([0]);
  });

  it("wire.md 22.31: a payload flagged as compressed must have a well-formed descriptor", async () => {
    const client = await (await startTestBroker()).open();
    const descriptor = (codec: number, claim: number, stream = "") =>
      Buffer.concat([u8(codec), u32(0), u32(claim), Buffer.from(stream)]);
    const refused: [Buffer, string][] = [
      [Buffer.alloc(8), "compressed payload is shorter than the codec descriptor"],
      [descriptor(9, 1, "x"), "unknown compression codec id 9 (poison)"],
      [descriptor(1, 8_388_609, "x"), "claimed uncompressed length 8388609 exceeds the decompressed cap 8388608"],
      [descriptor(0, 2, "x"), "stored raw length disagrees with the descriptor"],
      [descriptor(1, 1), "compressed stream is corrupt"],
      [descriptor(2, 1), "compressed stream is corrupt"],
    ];
    for (const [payload, reason] of refused) {
      client.send(pub({ flags: 0x01, payload }));
      await client.expectErr(`malformed compressed descriptor: ${reason}`);
      client.send(pub({ flags: 0x41, payload }), ping());
      await client.expectFrame(TAG.pong);
      await client.expectOpen();
    }
    client.send(pub({ payload: "1" }), pub({ flags: 0x01, payload: Buffer.alloc(8) }), pub({ payload: "2" }));
    expect(await client.expectPubAck()).toBe(0);
    expect((await client.frame()).tag).toBe(TAG.err);
    expect(await client.expectPubAck()).toBe(1);
  });

  it("wire.md 22.36: what is delivered is what was published, to the byte", async () => {
    const client = await (await startTestBroker()).open();
    const records: PubFields[] = [
      {},
      { payload: "plain" },
      { key: "k", payload: "keyed" },
      { headers: "h: v", payload: "with headers" },
      { key: "k".repeat(65_535), headers: "h".repeat(65_535), payload: Buffer.alloc(100_000, 7), timestampMs: 12_345 },
      { timestampMs: 2n ** 64n - 1n, payload: Buffer.from([0, 255, 128, 10]) },
    ];
    expect(await client.publish(...records)).toEqual(range(0, records.length));
    const delivered = await client.poll(flow(10));
    expect(delivered).toHaveLength(records.length);
    for (const [index, { key = "", headers = "", payload = "", timestampMs = 0 }] of records.entries()) {
      const got = delivered[index];
      expect(got.timestampMs).toBe(BigInt(timestampMs));
      expect(got.key.equals(Buffer.from(key as string))).toBe(true);
      expect(got.headers.equals(Buffer.from(headers as string))).toBe(true);
      expect(got.payload.equals(Buffer.from(payload as string))).toBe(true);
      expect(got.generation).toBeGreaterThan(0n);
      expect(got.flags & 0x02).toBe(key === "" ? 0 : 0x02);
      expect(got.flags & 0xf9).toBe(0);
    }
  });

  it("wire.md 8.1: stored flags come from the record, not from what the publisher claims", async () => {
    const client = await (await startTestBroker()).open();
    await client.publish({ flags: 0x02, payload: "no key" }, { flags: 0x04, payload: "no hash", key: "k" });
    const [first, second] = await client.poll(flow(2));
    expect(first.flags).toBe(0);
    expect(second.flags).toBe(0x02);
  });

  it("records up to the frame cap are stored or refused, never a broken connection", async () => {
    const client = await (await startTestBroker()).open();
    const largest = 16_842_752 - 1 - pubBody({}).length;
    for (const length of [1024 * 1024, largest]) {
      client.send(pub({ payload: Buffer.alloc(length, 3) }));
      const { tag, body } = await client.frame();
      if (tag === TAG.err) expect(body.toString()).toBe("produce failed");
      else expect(tag).toBe(TAG.pubAck);
      await client.expectOpen();
    }
    const [first] = await client.poll(flow(1));
    expect(first.payload).toHaveLength(1024 * 1024);
  });

  it("semantics.md 24.2: 1000 publishes over 8 connections get 0..999, ascending on each connection", async () => {
    const broker = await startTestBroker();
    const clients = await Promise.all(range(0, 8).map(() => broker.open()));
    const offsets = await Promise.all(
      clients.map(async (client, index) => {
        const mine: number[] = [];
        for (let sent = 0; sent < 125; sent += 25) {
          mine.push(...(await client.publish(...range(0, 25).map((n) => ({ payload: `${index}/${sent + n}` })))));
        }
        return mine;
      }),
    );
    for (const mine of offsets) expect(mine).toEqual([...mine].sort((a, b) => a - b));
    expect(offsets.flat().sort((a, b) => a - b)).toEqual(range(0, 1000));
    const reader = await broker.open(connect());
    const seen = new Map<number, string>();
    for (let batch = await reader.poll(flow(5000)); batch.length > 0; batch = await reader.poll(flow(5000))) {
      for (const record of batch) seen.set(record.offset, record.payload.toString());
      await reader.ackAll(batch);
    }
    for (const [index, mine] of offsets.entries()) {
      expect(mine.map((offset) => seen.get(offset))).toEqual(range(0, 125).map((n) => `${index}/${n}`));
    }
  });

  it("wire.md 6.1: a window far larger than any bound of the broker is answered completely", async () => {
    const client = await (await startTestBroker({ maxPendingBytes: 256 * 1024 })).open();
    const count = 100_000;
    const one = pub({ payload: "x".repeat(40) });
    client.send(Buffer.concat(Array.from({ length: count }, () => one)), ping());
    for (let offset = 0; offset < count; offset++) {
      const got = await client.expectPubAck();
      if (got !== offset) expect(got).toBe(offset);
    }
    await client.expectFrame(TAG.pong);
  });

  it("wire.md 6.3.2: a Flow behind publishes in the same write sees all of them", async () => {
    const client = await (await startTestBroker()).open();
    client.send(...range(0, 20).map(() => pub({ payload: "x" })), flow(64), ping());
    for (const offset of range(0, 20)) expect(await client.expectPubAck()).toBe(offset);
    expect(offsetsOf(await client.delivery())).toEqual(range(0, 20));
    await client.expectFrame(TAG.pong);
  });

  it("this version's refusals append nothing and keep their place: level 2 and deduplicated publishes", async () => {
    const client = await (await startTestBroker()).open();
    const dedup = Buffer.concat([variable("p"), u64(1), variable("m")]);
    client.send(pub(), pub({ flags: 0x10 }), pub(), pub({ flags: 0x80, dedup }), pub());
    expect(await client.expectPubAck()).toBe(0);
    expect((await client.frame()).tag).toBe(TAG.err);
    expect(await client.expectPubAck()).toBe(1);
    expect((await client.frame()).tag).toBe(TAG.err);
    expect(await client.expectPubAck()).toBe(2);
    await client.expectOpen();
  });
});
