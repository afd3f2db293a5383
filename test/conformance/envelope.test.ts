import { describe, expect, it } from "vitest";
import { startTestBroker } from "./broker-fixture.ts";
import { frame, MAX_FRAME_LENGTH, ping, pub, TAG, u8, u32 } from "./messages.ts";

describe("envelope", () => {
  it.each([
    ["a length of 0", "00000000"],
    ["a length one above the cap, and no body", "0100010103"],
    ["the largest length there is", "ffffffff"],
  ])("wire.md 22.3: %s closes the connection without a byte", async (_, hex) => {
    const broker = await startTestBroker();
    const neighbour = await broker.open();
    const fresh = await broker.dial();
    fresh.send(Buffer.from(hex, "hex"));
    expect(await fresh.ended()).toHaveLength(0);
    const connected = await broker.open();
    connected.send(Buffer.from(hex, "hex"));
    expect(await connected.ended()).toHaveLength(0);
    await neighbour.expectOpen();
  });

  it("wire.md 22.4: a frame of exactly the cap is accepted", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    client.send(u32(MAX_FRAME_LENGTH), u8(TAG.ping), Buffer.alloc(MAX_FRAME_LENGTH - 1));
    await client.expectFrame(TAG.pong);
    await client.expectOpen();
  });

  it("wire.md 22.5: a frame in single bytes is one frame", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    for (const byte of ping()) {
      client.send(u8(byte));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await client.expectFrame(TAG.pong);
    await client.expectOpen();
  });

  it("frames cut at any place, in one stream of pieces, keep their replies in order", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    const stream = Buffer.concat([pub({ payload: "a" }), ping(), pub({ payload: "bb", key: "k" }), ping(), frame(77)]);
    for (let size = 1; size <= stream.length; size += 3) {
      for (let at = 0; at < stream.length; at += size) {
        client.send(stream.subarray(at, at + size));
        await new Promise((resolve) => setImmediate(resolve));
      }
      const tags = (await client.frames(5)).map(({ tag }) => tag);
      expect(tags).toEqual([TAG.pubAck, TAG.pong, TAG.pubAck, TAG.pong, TAG.err]);
    }
  });

  it.each([0, 53, 255, 54, 191, 192, 200])(
    "wire.md 22.6: tag %i is unknown, the connection stays open",
    async (tag) => {
      const broker = await startTestBroker();
      const client = await broker.open();
      client.send(frame(tag));
      await client.expectErr("unknown frame type");
      client.send(frame(tag, Buffer.alloc(1000)));
      await client.expectErr("unknown frame type");
      await client.expectOpen();
    },
  );

  it.each([
    2, 4, 9, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 26, 27, 32, 33, 37, 38, 39, 40, 41, 42, 43, 47, 50, 51,
  ])("wire.md 22.7: tag %i is no request, the connection stays open", async (tag) => {
    const broker = await startTestBroker();
    const client = await broker.open();
    client.send(frame(tag));
    await client.expectErr("verb not supported on this connection");
    client.send(frame(tag, Buffer.alloc(100, 0xff)));
    await client.expectErr("verb not supported on this connection");
    await client.expectOpen();
  });

  it("wire.md 2: a Ping's body is ignored", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    client.send(frame(TAG.ping, Buffer.from("body")));
    await client.expectFrame(TAG.pong);
  });

  it("wire.md 6.3.5: replies owed before a malformed envelope are sent, then the connection ends", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    client.send(pub({ payload: "a" }), pub({ payload: "b" }), ping(), pub({ payload: "c" }), u32(0));
    expect(await client.expectPubAck()).toBe(0);
    expect(await client.expectPubAck()).toBe(1);
    await client.expectFrame(TAG.pong);
    expect(await client.expectPubAck()).toBe(2);
    expect(await client.ended()).toHaveLength(0);
  });
});
