import { describe, expect, it } from "vitest";
import { startTestBroker } from "./broker-fixture.ts";
import { block, connect, flow, frame, pubBody, TAG, u8, u32, u64, variable } from "./messages.ts";

const NOT_NEGOTIATED = "stream addressing not negotiated (set understands_streams)";
const COMPETING = "cumulative ack is not allowed on a competing work-group (broadcast consumers only)";

const STREAM_VERBS: [string, Buffer][] = [
  ["StreamDeclare", frame(28, block(variable("s")))],
  ["StreamInfo", frame(29, block(variable("s")))],
  ["PubTo", frame(30, block(variable("s")), pubBody({ payload: "x" }))],
  ["SubTo", frame(31, block(variable("s"), variable("g")))],
  ["BindSubject", frame(34, block(variable("s"), variable("a.>")))],
  ["PubSubject", frame(35, block(variable("a.b")), pubBody({ payload: "x" }))],
  ["SubSubject", frame(36, block(variable("a.b"), variable("g")))],
];

describe("verbs of features that are not there", () => {
  it.each(STREAM_VERBS)("wire.md 22.54: %s without the streams capability is not negotiated", async (_, request) => {
    const client = await (await startTestBroker()).open();
    client.send(request);
    await client.expectErr(NOT_NEGOTIATED);
    await client.expectOpen();
  });

  it.each(STREAM_VERBS)("%s is refused as well when the broker did not confirm the capability", async (_, request) => {
    const client = await (await startTestBroker()).dial();
    client.send(connect({ flags: 0x80 }));
    const info = await client.frame();
    expect(info.body[3] & 0x80).toBe(0);
    client.send(request);
    await client.expectErr(NOT_NEGOTIATED);
    await client.expectOpen();
  });

  it("wire.md 22.46: a cumulative ack on a competing group is not allowed and moves nothing", async () => {
    const client = await (await startTestBroker()).open();
    await client.publish({ payload: "a" }, { payload: "b" });
    for (const group of ["", "g", "never seen"]) {
      client.send(frame(TAG.cumulativeAck, u64(1), Buffer.from(group)));
      await client.expectCodedErr("ERR_CUMULATIVE_ACK_NOT_ALLOWED", COMPETING);
    }
    expect((await client.poll(flow(10))).map((record) => record.offset)).toEqual([0, 1]);
  });

  it("wire.md 22.50: Tier-S verbs on a work group are not allowed, without a terminator behind", async () => {
    const client = await (await startTestBroker()).open(connect({ flags: 0x10 }));
    await client.publish({ payload: "a" });
    client.send(frame(TAG.streamFetch, block(u64(0), u32(10), u64(0))));
    await client.expectCodedErr("ERR_CUMULATIVE_ACK_NOT_ALLOWED", COMPETING);
    await client.expectOpen();
    client.send(frame(TAG.streamCommit, u64(1), Buffer.from("g")));
    await client.expectCodedErr("ERR_CUMULATIVE_ACK_NOT_ALLOWED", COMPETING);
    await client.expectOpen();
  });

  it.each([
    ["a short cumulative ack", TAG.cumulativeAck, "00000000000000", "malformed cumulative-ack body"],
    [
      "a cumulative ack of no group name",
      TAG.cumulativeAck,
      "0000000000000000ff",
      "cumulative-ack group name must be valid UTF-8",
    ],
    ["a short stream commit", TAG.streamCommit, "", "malformed stream-commit body"],
    [
      "a stream commit of no group name",
      TAG.streamCommit,
      "0000000000000000fe",
      "stream-commit group name must be valid UTF-8",
    ],
    ["an empty stream fetch", TAG.streamFetch, "", "malformed stream-fetch body"],
    ["a stream fetch of version 9", TAG.streamFetch, "090000", "malformed stream-fetch body"],
  ])("wire.md 7.4: %s is refused with its text", async (_, tag, hex, text) => {
    const client = await (await startTestBroker()).open();
    client.send(frame(tag, Buffer.from(hex, "hex")));
    await client.expectErr(text);
    await client.expectOpen();
  });

  it.each([
    ["TxnPrepare", frame(44, block(variable("t"), variable("")), pubBody({ payload: "x" }))],
    ["TxnCommit", frame(45, block(variable("t")))],
    ["TxnRollback", frame(46, block(variable("t")))],
    ["TxnCheckResult", frame(48, block(variable("t"), u8(0)))],
    ["TxnListen", frame(49, block(variable("g")))],
    ["PauseGroup", frame(52, block(variable(""), variable("g"), u64(1000)))],
  ])("wire.md 6.2: %s gets one Err, changes nothing, and leaves the connection open", async (_, request) => {
    const client = await (await startTestBroker()).open();
    client.send(request);
    expect((await client.frame()).tag).toBe(TAG.err);
    await client.expectOpen();
    expect(await client.poll(flow(10))).toEqual([]);
    expect(await client.publish({})).toEqual([0]);
  });

  it("Unsub goes back to the default group, with or without a body", async () => {
    const client = await (await startTestBroker()).open();
    await client.publish({ payload: "a" }, { payload: "b" });
    client.send(frame(TAG.sub, Buffer.from("g")));
    await client.expectFrame(TAG.ok);
    await client.ackAll(await client.poll(flow(2)));
    client.send(frame(TAG.unsub, Buffer.from("ignored")));
    await client.expectFrame(TAG.ok);
    expect(await client.poll(flow(2))).toHaveLength(2);
  });
});
