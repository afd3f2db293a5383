import { describe, expect, it } from "vitest";
import { fill, startSteppedBroker, startTestBroker, until } from "./broker-fixture.ts";
import { ack, fetch, flow, frame, sub, TAG } from "./messages.ts";
import { offsetsOf, range } from "./raw-client.ts";

const VISIBILITY_MS = 30_000;

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
