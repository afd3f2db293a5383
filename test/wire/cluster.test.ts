import { createHash, createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { decodePeerContent, encodePeerContent } from "../../src/wire/cluster.ts";
import { decodeBody, encodeFrame, type Message } from "../../src/wire/message.ts";
import { Tag } from "../../src/wire/tags.ts";
import { Writer } from "../../src/wire/writer.ts";
import { ascii, bytes, hex, kindOf } from "./support.ts";

const none = new Uint8Array(0);

/** Appendix of cluster.md. */
const APPENDIX: readonly (readonly [string, Message])[] = [
  ["040000002a010000", { kind: "notLeader", body: { leaderHint: "" } }],
  [
    "1900000020000000000000000005000000000000000004000000001000",
    { kind: "fetchRecords", body: { partition: 0n, fromOffset: 5n, maxRecords: 1024, maxBytes: 1_048_576 } },
  ],
  [
    "21000000210000000000000000090000000000000005000000000000000000000000000000",
    {
      kind: "fetchResponse",
      body: { partition: 0n, highWatermark: 9n, firstOffset: 5n, recordCount: 0, frames: none },
    },
  ],
  [
    "1900000025000000000000000002000000000000000900000000000000",
    { kind: "ackReplicated", body: { partition: 0n, followerId: 2n, fsyncedOffset: 9n } },
  ],
  [
    "12000000260000000000000000000300000000000000",
    { kind: "offsetForLeaderEpoch", body: { kind: "request", partition: 0n, epoch: 3n } },
  ],
  [
    "2200000026000000000000000001030000000000000003000000000000000900000000000000",
    {
      kind: "offsetForLeaderEpoch",
      body: { kind: "response", partition: 0n, requestedEpoch: 3n, answeredEpoch: 3n, endOffset: 9n },
    },
  ],
  ["0a0000002b000000000000000000", { kind: "committedHwQuery", body: { kind: "request", partition: 0n } }],
  [
    "120000002b0000000000000000010900000000000000",
    { kind: "committedHwQuery", body: { kind: "response", partition: 0n, committedHw: 9n } },
  ],
  [
    "2d000000276400000000000000010000000100000000000000630000000000000064000000efbeadde0807060504030201",
    {
      kind: "segmentFingerprints",
      body: {
        committedHw: 100n,
        fingerprints: [
          {
            segmentId: 1n,
            lastSeq: 99n,
            recordCount: 100,
            footerCrc: 0xdead_beef,
            contentHash: 0x0102_0304_0506_0708n,
          },
        ],
      },
    },
  ],
  [
    "1a00000028000700000000000000640000000000010006006f7264657273",
    {
      kind: "mirrorPull",
      body: { kind: "request", fromOffset: 7n, maxRecords: 100, maxBytes: 65_536, originStream: "orders" },
    },
  ],
  [
    "1a0000002801070000000000000007000000000000000000000000000000",
    {
      kind: "mirrorPull",
      body: { kind: "response", originHighWatermark: 7n, firstOffset: 7n, recordCount: 0, frames: none },
    },
  ],
  ["0a00000029010c00000000000000", { kind: "leafPush", body: { kind: "response", acceptedThroughLeafOffset: 12n } }],
  ["0b0000001b08081002180120034005", { kind: "raft", body: { message: bytes("08081002180120034005") } }],
];

const peerKey = createHash("sha256").update("0123456789abcdef0123456789abcdef").digest();
const macOf = (context: string, content: Uint8Array): string =>
  createHmac("sha256", peerKey)
    .update(context)
    .update(new Uint8Array([1]))
    .update(content)
    .digest("hex");

describe("peer frames", () => {
  it.each(APPENDIX)("cluster.md appendix: %s", (frameHex, message) => {
    const frame = bytes(frameHex);
    expect(decodeBody(frame[4], frame.subarray(5))).toEqual(message);
    expect(hex(encodeFrame(message))).toBe(frameHex);
  });

  it("cluster.md appendix: a signed heartbeat verifies over its content", () => {
    const frame = bytes(
      "2c0000003201edeae8cb0a37e60d05d8b926974d396c7c6d994fb12ac504de2e32d6219e4ddb08081002180120034005",
    );
    const message = decodeBody(frame[4], frame.subarray(5));
    if (message.kind !== "raftAuth") throw new Error(message.kind);
    expect(hex(message.body.mac)).toBe(macOf("ironbus.cluster.peer.raft.v1", message.body.content));
    expect(hex(message.body.content)).toBe("08081002180120034005");
    expect(hex(encodeFrame(message))).toBe(hex(frame));
  });

  it("cluster.md appendix: a signed AckReplicated verifies and holds tag, partition and body", () => {
    const frame = bytes(
      "3b00000033012d1e7f37892176401901f0c9ff20725ccc96e3019fdd1cf3fe49840437d4961e250000000000000000" +
        "02000000000000000900000000000000",
    );
    const message = decodeBody(frame[4], frame.subarray(5));
    if (message.kind !== "dataPlaneAuth") throw new Error(message.kind);
    expect(hex(message.body.mac)).toBe(macOf("ironbus.cluster.peer.data.v1", message.body.content));
    const content = decodePeerContent(message.body.content);
    expect(content).toMatchObject({ tag: Tag.AckReplicated, partition: 0n });
    expect(hex(content.layerBody)).toBe("02000000000000000900000000000000");
    const writer = new Writer();
    encodePeerContent(writer, content);
    expect(hex(writer.toBytes())).toBe(hex(message.body.content));
  });

  it("refuses wrong lengths, kinds, versions and names", () => {
    const kindOfBody = (tag: Tag, text: string) => kindOf(() => decodeBody(tag, bytes(text)));
    const u64 = "0000000000000000";
    const u32 = "00000000";
    expect(kindOfBody(Tag.FetchRecords, `${u64}${u64}${u64}00`)).toBe("trailing-bytes");
    expect(kindOfBody(Tag.FetchRecords, `${u64}${u64}`)).toBe("truncated");
    expect(kindOfBody(Tag.FetchResponse, `${u64}${u64}${u64}${u32}01008000`)).toBe("length-exceeds");
    expect(kindOfBody(Tag.FetchResponse, `${u64}${u64}${u64}${u32}00008000`)).toBe("truncated");
    expect(kindOfBody(Tag.FetchResponse, `${u64}${u64}${u64}${u32}${u32}aa`)).toBe("trailing-bytes");
    expect(kindOfBody(Tag.OffsetForLeaderEpoch, `${u64}02`)).toBe("unknown-kind");
    expect(kindOfBody(Tag.SegmentFingerprints, `${u64}ffffffff`)).toBe("length-exceeds");
    expect(kindOfBody(Tag.SegmentFingerprints, `${u64}00001000`)).toBe("truncated");
    expect(kindOfBody(Tag.MirrorPull, `00${u64}${u32}${u32}0001`)).toBe("length-exceeds");
    expect(kindOfBody(Tag.MirrorPull, `00${u64}${u32}${u32}0100ff`)).toBe("bad-text");
    expect(kindOfBody(Tag.LeafPush, `00${u64}${u32}01008000`)).toBe("length-exceeds");
    expect(kindOfBody(Tag.RaftAuth, `02${"00".repeat(40)}`)).toBe("unknown-version");
    expect(kindOfBody(Tag.DataPlaneAuth, `01${"00".repeat(31)}`)).toBe("truncated");
    expect(kindOf(() => decodePeerContent(ascii("12345678")))).toBe("truncated");
  });

  it("does not send frames above 8 MiB, nor a short MAC", () => {
    const frames = new Uint8Array(8_388_609);
    const body = { partition: 0n, highWatermark: 0n, firstOffset: 0n, recordCount: 1, frames };
    expect(kindOf(() => encodeFrame({ kind: "fetchResponse", body }))).toBe("length-exceeds");
    expect(kindOf(() => encodeFrame({ kind: "raftAuth", body: { mac: none, content: none } }))).toBe("length-exceeds");
  });
});
