import { describe, expect, it } from "vitest";
import { startTestBroker } from "./broker-fixture.ts";
import { connect, fetch, flow, frame, ping, pub, sub, TAG, u8, u16, u32, u64 } from "./messages.ts";
import type { RawClient } from "./raw-client.ts";

const MIB = 1024 * 1024;

interface Info {
  readonly flags: number;
  readonly credit: readonly [negotiated: number, cap: number];
  readonly bytes: readonly [negotiated: bigint, cap: bigint];
  readonly rest: string;
}

async function hello(client: RawClient, request: Uint8Array): Promise<Info> {
  client.send(request);
  const { tag, body } = await client.frame();
  expect(tag === TAG.err ? body.toString() : tag).toBe(TAG.info);
  expect(body[0]).toBe(1);
  expect(body.readUInt16LE(1)).toBe(body.length - 3);
  return {
    flags: body[3],
    credit: [body.readUInt32LE(4), body.readUInt32LE(8)],
    bytes: [body.readBigUInt64LE(12), body.readBigUInt64LE(20)],
    rest: body.subarray(28).toString("hex"),
  };
}

describe("handshake", () => {
  it("wire.md 22.8: an empty Connect gets the defaults", async () => {
    const client = await (await startTestBroker()).dial();
    expect(await hello(client, frame(TAG.connect))).toEqual({
      flags: 0x03,
      credit: [2048, 2048],
      bytes: [8_388_608n, 8_388_608n],
      rest: "",
    });
  });

  it("wire.md 22.9: the Rust client's default Connect gets exactly the documented reply", async () => {
    const client = await (await startTestBroker()).dial();
    client.send(Buffer.from("1200000001010e000000000000000000000000000001", "hex"));
    const reply = "0119000300080000000800000000800000000000" + "0000800000000000";
    await client.expectFrame(TAG.info, Buffer.from(reply, "hex"));
  });

  it("wire.md 22.9: the Go client's default Connect gets the documented reply, stream verbs not confirmed", async () => {
    const client = await (await startTestBroker()).dial();
    client.send(Buffer.from("1100000001010d0084000000000000000000000000", "hex"));
    // 0x87 once named streams exist; a bit is confirmed only when both sides have it.
    const reply = "0119000700080000000800000000800000000000" + "0000800000000000";
    await client.expectFrame(TAG.info, Buffer.from(reply, "hex"));
  });

  it.each([
    [10, 10],
    [0, 2048],
    [1, 1],
    [2048, 2048],
    [1_000_000, 2048],
    [0xffff_ffff, 2048],
  ])("wire.md 22.10: a credit request of %i negotiates %i", async (credit, negotiated) => {
    const client = await (await startTestBroker()).dial();
    expect((await hello(client, connect({ credit }))).credit).toEqual([negotiated, 2048]);
  });

  it("wire.md 4.1: a credit without its flag bit is no request", async () => {
    const client = await (await startTestBroker()).dial();
    const info = await hello(client, frame(TAG.connect, Buffer.from("010d00000a0000000a00000000000000", "hex")));
    expect(info).toMatchObject({ credit: [2048, 2048], bytes: [8_388_608n, 8_388_608n] });
  });

  it.each([
    [8 * MIB, 0n, 8_388_608n],
    [8 * MIB, 1_048_576n, 1_048_576n],
    [8 * MIB, 2n ** 64n - 1n, 8_388_608n],
    [0, 1_048_576n, 1_048_576n],
    [0, 0n, 0n],
  ])("wire.md 22.11: cap %i, byte request %i negotiates %i", async (cap, creditBytes, negotiated) => {
    const client = await (await startTestBroker({ consumerCreditBytes: cap })).dial();
    expect((await hello(client, connect({ creditBytes }))).bytes).toEqual([negotiated, BigInt(cap)]);
  });

  it("wire.md 22.12: a default tier without the streaming bit is not adopted", async () => {
    const client = await (await startTestBroker()).dial();
    const info = await hello(client, connect({ flags: 0x20, rest: u8(1) }));
    expect(info).toMatchObject({ flags: 0x03, rest: "" });
  });

  it("wire.md 22.13: a default ack level is not echoed", async () => {
    const client = await (await startTestBroker()).dial();
    const info = await hello(client, connect({ flags: 0x08, rest: u8(2) }));
    expect(info).toMatchObject({ flags: 0x03, rest: "" });
  });

  it("wire.md 22.14: compressed deliveries and filters have no confirmation byte", async () => {
    const client = await (await startTestBroker()).dial();
    expect(await hello(client, connect({ rest: u8(0x03) }))).toMatchObject({ flags: 0x03, rest: "" });
  });

  it("wire.md 22.15: unknown bytes at the end of the block, and foreign bytes behind it, are ignored", async () => {
    const client = await (await startTestBroker()).dial();
    expect((await hello(client, connect({ credit: 10, rest: Buffer.alloc(40, 0x01) }))).credit[0]).toBe(10);
    const body = connect({ credit: 20 }).subarray(5);
    expect((await hello(client, frame(TAG.connect, body, u8(0x55)))).credit[0]).toBe(20);
    // On a broker without identities a credential is ignored, also a broken one (wire.md 5.2).
    expect((await hello(client, frame(TAG.connect, body, Buffer.from("a70103", "hex")))).credit[0]).toBe(20);
    await client.expectOpen();
  });

  it.each([
    ["an unknown version", "020d0000000000000000000000000000", "unknown handshake body version 2"],
    ["version 0", "000d0000000000000000000000000000", "unknown handshake body version 0"],
    ["a block longer than the body", "010e0000000000000000000000000000", "message body is truncated"],
    ["no length", "0100", "message body is truncated"],
    ["one byte", "01", "message body is truncated"],
    ["an unknown version alone", "07", "unknown handshake body version 7"],
  ])("wire.md 22.16: %s is refused, the connection stays open and may try again", async (_, hex, text) => {
    const client = await (await startTestBroker()).dial();
    client.send(frame(TAG.connect, Buffer.from(hex, "hex")));
    const { tag, body } = await client.frame();
    expect(tag).toBe(TAG.err);
    // Version and length are both missing in a one-byte body of an unknown version: either may be named.
    if (hex.length > 2) expect(body.toString()).toBe(text);
    await client.expectOpen();
    client.send(flow(1));
    await client.expectErr("not connected");
    client.send(connect());
    expect((await client.frame()).tag).toBe(TAG.info);
  });

  it("wire.md 3: fixed fields that the block is too short for read as 0", async () => {
    const client = await (await startTestBroker()).dial();
    expect(await hello(client, frame(TAG.connect, Buffer.from("01000000", "hex")))).toMatchObject({ flags: 0x03 });
    const short = Buffer.concat([u8(1), u16(5), u8(0x03), u32(10)]);
    expect(await hello(client, frame(TAG.connect, short))).toMatchObject({
      credit: [10, 2048],
      bytes: [8_388_608n, 8_388_608n],
    });
  });

  it("wire.md 22.17: before Connect every verb but Ping is refused, the connection stays open", async () => {
    const broker = await startTestBroker();
    const client = await broker.dial();
    const verbs = [pub({ payload: "x" }), sub("g"), flow(1), fetch({ maxRecords: 1 }), frame(TAG.unsub)];
    const more = [19, 24, 25, 28, 29, 30, 31, 34, 35, 36, 44, 45, 46, 48, 49, 52].map((tag) => frame(tag));
    const settle = frame(TAG.ack, Buffer.alloc(25));
    for (const verb of [...verbs, settle, ...more]) {
      client.send(verb);
      await client.expectErr("not connected");
      await client.expectOpen();
    }
    client.send(pub(), pub(), ping(), connect(), pub());
    await client.expectErr("not connected");
    await client.expectErr("not connected");
    await client.expectFrame(TAG.pong);
    expect((await client.frame()).tag).toBe(TAG.info);
    expect(await client.expectPubAck()).toBe(0);
  });

  it("wire.md 4.4: a second Connect renegotiates; the group of a subscription is kept", async () => {
    const broker = await startTestBroker();
    const client = await broker.open(connect({ credit: 10 }));
    await client.publish(...Array.from({ length: 100 }, () => ({ payload: "x" })));
    client.send(sub("kept"));
    await client.expectFrame(TAG.ok);
    expect(await client.poll(flow(100))).toHaveLength(10);
    expect(await hello(client, connect({ credit: 20 }))).toMatchObject({ credit: [20, 2048] });
    const more = await client.poll(flow(100));
    // The default group would start at 0 again.
    expect(more[0].offset).toBe(10);
  });

  it("wire.md 4.3: gap markers are confirmed when asked for, and only then", async () => {
    const client = await (await startTestBroker()).dial();
    expect((await hello(client, connect({ flags: 0x04 }))).flags).toBe(0x07);
    expect((await hello(client, connect())).flags).toBe(0x03);
  });

  it("wire.md 4.3: the handshake is answered while a disk sync is stalled", async () => {
    const broker = await startTestBroker();
    broker.files.holdBarriers();
    const producer = await broker.open();
    producer.send(pub({ payload: "x" }));
    const fresh = await broker.open();
    await fresh.expectOpen();
    broker.files.releaseBarriers();
    expect(await producer.expectPubAck()).toBe(0);
  });

  it("a byte budget above 2^53 is taken", async () => {
    const client = await (await startTestBroker({ consumerCreditBytes: 0 })).dial();
    const info = await hello(
      client,
      frame(TAG.connect, Buffer.concat([u8(1), u16(13), u8(2), u32(0), u64(2n ** 60n)])),
    );
    expect(info.flags).toBe(0x03);
    await client.publish({ payload: "x" });
    expect(await client.poll(flow(1))).toHaveLength(1);
  });
});
