import { describe, expect, it } from "vitest";
import type { BrokerOptions } from "../../src/broker/options.ts";
import { Tag } from "../../src/wire/tags.ts";
import { ackOf, type Frame, flow, frame, numbersTo, offsetOf, type Peer, payloadOf, pub, World } from "./world.ts";

/** One record is a frame of 1044 bytes, so four fill a segment: segment n holds the offsets from 4n on. */
const PAYLOAD_BYTES = 1000;
const FRAME_BYTES = 1044;
const OPTIONS: Partial<BrokerOptions> = { maxSegmentBytes: 4096, checkpointInterval: 1 };

const WITH_GAP_MARKERS = frame(Tag.Connect, new Uint8Array([1, 13, 0, 0x04, ...new Array(12).fill(0)]));

function segmentPath(id: number): string {
  return `/data/seg-${id.toString(16).padStart(16, "0")}.log`;
}

/** Damages the body of the record at that offset. */
function damage(world: World, offset: number): void {
  const id = Math.floor(offset / 4);
  world.files.flipBit(segmentPath(id), 64 + (offset % 4) * FRAME_BYTES + 500, 3);
}

function publish(world: World, count: number): void {
  const peer = world.client();
  const first = world.broker.nextOffset;
  peer.send(...numbersTo(count).map((index) => pub(`${first + index}`.padEnd(PAYLOAD_BYTES, "."))));
  expect(peer.received().map(offsetOf)).toEqual(numbersTo(count).map((index) => first + index));
}

function subscribe(world: World, group: string, connect = frame(Tag.Connect)): Peer {
  const peer = world.connect();
  peer.send(connect, frame(Tag.Sub, new TextEncoder().encode(group)));
  peer.expectTags(Tag.Info, Tag.Ok);
  return peer;
}

/** What a response brought, shortly: an offset, or the span of a notice. Each payload must be the one of its offset. */
function told(frames: readonly Frame[]): (number | string)[] {
  const u64 = (body: Uint8Array, at: number) =>
    Number(new DataView(body.buffer, body.byteOffset).getBigUint64(at, true));
  return frames.flatMap((answer): (number | string)[] => {
    const { tag, body } = answer;
    switch (tag) {
      case Tag.Deliver:
        expect(payloadOf(answer)).toBe(`${offsetOf(answer)}`.padEnd(PAYLOAD_BYTES, "."));
        return [offsetOf(answer)];
      case Tag.Truncated:
        return [`truncated ${u64(body, 0) - u64(body, 8)}-${u64(body, 0)}`];
      case Tag.GapMarker:
        expect(u64(body, 16)).toBe(0);
        return [`gap ${u64(body, 0)}-${u64(body, 8)} reason ${body[24]}`];
      default:
        expect(tag).toBe(Tag.FlowEnd);
        return [];
    }
  });
}

/** Polls and acks until nothing comes any more. */
function drain(peer: Peer, credit = 64): (number | string)[] {
  const all: (number | string)[] = [];
  for (;;) {
    peer.send(flow(credit));
    const frames = peer.received();
    if (frames.length === 1 && frames[0].tag === Tag.FlowEnd) return all;
    all.push(...told(frames));
    peer.send(...frames.filter(({ tag }) => tag === Tag.Deliver).map((deliver) => ackOf(deliver)));
    peer.received();
  }
}

describe("records that are lost (README ruling 1)", () => {
  it("each group is told once, in its form, between the record before and the one behind", async () => {
    const world = await World.start({ options: OPTIONS });
    publish(world, 12);
    damage(world, 5);
    const marked = subscribe(world, "marked", WITH_GAP_MARKERS);
    const plain = subscribe(world, "plain");
    expect(drain(marked)).toEqual([0, 1, 2, 3, 4, "gap 5-6 reason 200", 6, 7, 8, 9, 10, 11]);
    expect(drain(plain)).toEqual([0, 1, 2, 3, 4, "truncated 5-6", 6, 7, 8, 9, 10, 11]);
    const warnings = world.warnings.filter((warning) => warning.includes("met while reading"));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("corrupt_record_body");
    expect(drain(marked)).toEqual([]);
    publish(world, 2);
    expect(drain(marked)).toEqual([12, 13]);
  });

  it("a notice uses a credit, and a request never brings more than it asked for", async () => {
    const world = await World.start({ options: OPTIONS });
    publish(world, 12);
    damage(world, 1);
    damage(world, 6);
    const peer = subscribe(world, "g", WITH_GAP_MARKERS);
    for (let polls = 0; polls < 20; polls++) {
      peer.send(flow(2));
      const frames = peer.received();
      expect(frames.length).toBeLessThanOrEqual(3);
      peer.send(...frames.filter(({ tag }) => tag === Tag.Deliver).map((deliver) => ackOf(deliver)));
      peer.received();
    }
    const again = subscribe(world, "again", WITH_GAP_MARKERS);
    expect(drain(again, 1)).toEqual([0, "gap 1-2 reason 200", 2, 3, 4, 5, "gap 6-7 reason 200", 7, 8, 9, 10, 11]);
  });

  it("damage met with leases outstanding before and behind it holds nothing up", async () => {
    const world = await World.start({ options: { ...OPTIONS, visibilityTimeoutMs: 1000 } });
    publish(world, 12);
    const peer = subscribe(world, "g", WITH_GAP_MARKERS);
    peer.send(flow(12));
    const first = peer.received();
    expect(told(first)).toEqual(numbersTo(12));
    damage(world, 5);
    // Windows that were read before the damage are gone with the other groups' reads.
    for (let round = 0; round < 4; round++) publish(world, 10);
    drain(subscribe(world, "other"));
    // Nobody acks in time: everything is delivered again but what is lost meanwhile.
    world.advance(1500);
    peer.send(flow(64));
    const second = told(peer.received());
    expect(second.slice(0, 12)).toEqual([0, 1, 2, 3, 4, "gap 5-6 reason 200", 6, 7, 8, 9, 10, 11]);
  });

  it("a segment that is gone is a gap that every group crosses, before and after a restart", async () => {
    const world = await World.start({ options: OPTIONS });
    publish(world, 20);
    const before = subscribe(world, "before", WITH_GAP_MARKERS);
    before.send(flow(3));
    const held = before.received();
    before.send(...held.slice(0, 3).map((deliver) => ackOf(deliver)));
    before.received();
    await world.stop();
    world.files.remove(segmentPath(1));
    world.files.remove(segmentPath(2));
    const again = await World.start({ files: world.files, options: OPTIONS });
    expect(again.frozen).toBeUndefined();
    expect(again.warnings.join("\n")).toContain("sequence_gap");
    const peer = subscribe(again, "before", WITH_GAP_MARKERS);
    expect(drain(peer)).toEqual([3, "gap 4-12 reason 200", 12, 13, 14, 15, 16, 17, 18, 19]);
    const fresh = subscribe(again, "fresh");
    expect(drain(fresh)).toEqual([0, 1, 2, 3, "truncated 4-12", 12, 13, 14, 15, 16, 17, 18, 19]);
    publish(again, 2);
    expect(drain(peer)).toEqual([20, 21]);
    await again.stop();
    const third = await World.start({ files: world.files, options: OPTIONS });
    expect(drain(subscribe(third, "before", WITH_GAP_MARKERS))).toEqual([]);
    publish(third, 1);
    expect(drain(subscribe(third, "before", WITH_GAP_MARKERS))).toEqual([22]);
  });

  it("a group whose position lies inside a gap is told of the rest of it", async () => {
    const world = await World.start({ options: OPTIONS });
    publish(world, 12);
    const peer = subscribe(world, "g");
    peer.send(flow(6));
    peer.send(
      ...peer
        .received()
        .slice(0, 6)
        .map((deliver) => ackOf(deliver)),
    );
    peer.received();
    await world.stop();
    world.files.remove(segmentPath(1));
    const again = await World.start({ files: world.files, options: OPTIONS });
    expect(drain(subscribe(again, "g", WITH_GAP_MARKERS))).toEqual(["gap 6-8 reason 200", 8, 9, 10, 11]);
  });

  it("a group that has everything but the lost records does not hold retention", async () => {
    const options = { ...OPTIONS, retention: { maxRetainedBytes: 1, maxAgeMs: 0, maxMessages: 0 } };
    const world = await World.start({ options: OPTIONS });
    publish(world, 12);
    await world.stop();
    world.files.remove(segmentPath(1));
    const again = await World.start({ files: world.files, options });
    drain(subscribe(again, "g"));
    publish(again, 4);
    again.advance(1000);
    expect(again.files.list("/data").filter(({ name }) => name.startsWith("seg-"))).toHaveLength(1);
  });
});
