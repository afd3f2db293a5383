import { afterEach, describe, expect, it } from "vitest";
import { BrokerError, type Client, connect, NotLeaderError, ProtocolError } from "../../src/client/index.ts";
import { ErrorCode } from "../../src/wire/error-body.ts";
import { writePub } from "../../src/wire/hot.ts";
import { Tag } from "../../src/wire/tags.ts";
import { answer, FakeBroker, frame, type Handler, pubAck } from "./fake-broker.ts";

let broker: FakeBroker | undefined;
let client: Client | undefined;

afterEach(async () => {
  await client?.close();
  await broker?.[Symbol.asyncDispose]();
  broker = undefined;
  client = undefined;
});

describe.each(["auto", "node"] as const)("produce, %s sockets", (sockets) => {
  async function start(handler?: Handler): Promise<{ client: Client; broker: FakeBroker }> {
    broker = await FakeBroker.start(handler);
    client = await connect({ port: broker.port, sockets });
    return { client, broker };
  }

  it("sends the bytes of wire.md 8.1 and resolves with the offset", async () => {
    const { client, broker } = await start();
    const headers = Uint8Array.of(1, 2, 3);
    expect(await client.produce("hëllo", { key: "sensor-12", headers, timestampMs: 2 ** 52 + 1 })).toBe(0);
    expect(await client.produce(Uint8Array.of(0, 255))).toBe(1);
    const expected = new Uint8Array(100);
    const end = writePub(expected, 0, 0, 2 ** 52 + 1, Buffer.from("sensor-12"), headers, Buffer.from("hëllo"));
    expect(Buffer.from(broker.peer.requests[0].body).toString("hex")).toBe(
      Buffer.from(expected.subarray(5, end)).toString("hex"),
    );
  });

  it("stamps with the present when no time is given", async () => {
    const { client, broker } = await start();
    const before = Date.now();
    await client.produce("x");
    const stamp = Number(Buffer.from(broker.peer.requests[0].body).readBigUInt64LE(1));
    expect(stamp).toBeGreaterThanOrEqual(before);
    expect(stamp).toBeLessThanOrEqual(Date.now());
  });

  it("answers overlapping calls in order, from one write", async () => {
    const { client } = await start();
    const offsets = await Promise.all(Array.from({ length: 500 }, (_, index) => client.produce(`record ${index}`)));
    expect(offsets).toEqual(Array.from({ length: 500 }, (_, index) => index));
  });

  it("takes a duplicate's original offset as success", async () => {
    const { client } = await start((_, peer) => {
      const ack = pubAck(41);
      ack[4] = Tag.PubAckDuplicate;
      peer.send(ack);
    });
    expect(await client.produce("x")).toBe(41);
  });

  it.each([
    { body: `\0${String.fromCharCode(15)}ERR_AT_CAPACITYat capacity`, code: ErrorCode.AtCapacity, text: "at capacity" },
    { body: "produce failed", code: undefined, text: "produce failed" },
    { body: "\0\u0003NEWfrom the future", code: undefined, text: "from the future" },
    { body: "\0\u00ffshort", code: undefined, text: "\0\u00ffshort" },
  ])("wire.md 7.1: the Err $text rejects that call alone", async ({ body, code, text }) => {
    const { client } = await start((request, peer) => {
      if (peer.requests.length === 1) peer.send(frame(Tag.Err, Buffer.from(body, "latin1")));
      else answer(request, peer);
    });
    const refused = await client.produce("x").catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(BrokerError);
    expect((refused as BrokerError).code).toBe(code);
    expect((refused as BrokerError).retryable).toBe(code === ErrorCode.AtCapacity);
    if (code !== undefined || !text.startsWith("\0")) expect((refused as BrokerError).message).toBe(text);
    expect(await client.produce("y")).toBe(0);
  });

  it.each([
    { hint: "10.0.0.2:7777", leader: "10.0.0.2:7777" },
    { hint: "", leader: undefined },
  ])("names the leader $leader of a NotLeader", async ({ hint, leader }) => {
    const body = Buffer.concat([Buffer.of(9, hint.length, 0), Buffer.from(hint), Buffer.from("later fields")]);
    const { client } = await start((_, peer) => peer.send(frame(Tag.NotLeader, body)));
    const refused = await client.produce("x").catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(NotLeaderError);
    expect((refused as NotLeaderError).leader).toBe(leader);
    expect(client.connected).toBe(true);
  });

  it.each([
    { what: "a key of 65,536 bytes", payload: "x", options: { key: "k".repeat(65_536) } },
    { what: "headers of 65,536 bytes", payload: "x", options: { headers: new Uint8Array(65_536) } },
    { what: "a payload above the frame cap", payload: new Uint8Array(16_842_752), options: {} },
    { what: "a negative time", payload: "x", options: { timestampMs: -1 } },
    { what: "half a millisecond", payload: "x", options: { timestampMs: 0.5 } },
  ])("refuses $what without sending anything", async ({ payload, options }) => {
    const { client, broker } = await start();
    await expect(client.produce(payload, options)).rejects.toThrow(RangeError);
    expect(await client.produce("after")).toBe(0);
    expect(broker.tags).toEqual([Tag.Pub]);
  });

  it("carries the largest frame", async () => {
    const { client, broker } = await start();
    const payload = new Uint8Array(16_842_752 - 14);
    payload[payload.length - 1] = 7;
    expect(await client.produce(payload)).toBe(0);
    expect(broker.peer.requests[0].body.length).toBe(16_842_751);
    expect(broker.peer.requests[0].body[16_842_750]).toBe(7);
  });

  it("keeps the bytes of every size around a write's", async () => {
    const { client, broker } = await start();
    const sizes = [0, 30, 40, 130_000, 131_050, 131_054, 131_055, 131_072, 131_073, 200_000, 262_144, 262_145, 1];
    await Promise.all(sizes.map((size, index) => client.produce(new Uint8Array(size).fill(index))));
    expect(broker.peer.requests.map(({ body }) => body.length - 13)).toEqual(sizes);
    for (const [index, { body }] of broker.peer.requests.entries()) {
      expect(body.subarray(13).every((byte) => byte === index)).toBe(true);
    }
  });

  it("keeps the order of what is sent while the socket is full", async () => {
    const { client, broker } = await start();
    await client.ping();
    const offsets: Promise<number>[] = [];
    for (let round = 0; round < 10; round++) {
      broker.peer.socket.pause();
      offsets.push(client.produce(new Uint8Array(12 * 1024 * 1024)));
      await new Promise((resolve) => setTimeout(resolve, 5));
      broker.peer.socket.resume();
      // Room comes and goes: one of these could slip in ahead of what waits.
      for (let turn = 0; turn < 40; turn++) {
        offsets.push(client.produce("small"));
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    expect(await Promise.all(offsets)).toEqual(offsets.map((_, index) => index));
    const lengths = broker.peer.requests.slice(1).map(({ body }) => body.length);
    expect(lengths.filter((length) => length > 13 + 5).length).toBe(10);
    expect(lengths.filter((length) => length === 13 + 5).length).toBe(400);
  });

  it.each([
    { what: "an offset above 2^53-1", reply: frame(Tag.PubAck, new Uint8Array(8).fill(255)) },
    { what: "a PubAck of 7 bytes", reply: frame(Tag.PubAck, new Uint8Array(7)) },
    { what: "a Pong", reply: frame(Tag.Pong) },
    { what: "an unknown tag", reply: frame(53) },
    { what: "a frame of length 0", reply: new Uint8Array(4) },
    { what: "a frame above the cap", reply: Uint8Array.of(1, 0, 1, 1, 14) },
  ])("wire.md 19: $what as the reply ends the connection", async ({ reply }) => {
    const { client } = await start((_, peer) => peer.send(reply));
    const [first, second] = await Promise.allSettled([client.produce("x"), client.produce("y")]);
    for (const result of [first, second]) {
      expect((result as PromiseRejectedResult).reason).toBeInstanceOf(ProtocolError);
    }
    expect(client.connected).toBe(false);
    await expect(client.produce("z")).rejects.toBe(client.failure);
  });
});
