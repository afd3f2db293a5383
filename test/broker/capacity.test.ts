import { describe, expect, it } from "vitest";
import type { BrokerOptions } from "../../src/broker/options.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { decodeErrorBody } from "../../src/wire/error-body.ts";
import { Reader } from "../../src/wire/reader.ts";
import { Tag } from "../../src/wire/tags.ts";
import { ackOf, everyRecord, type Frame, flow, frame, numbersTo, offsetOf, type Peer, pub, World } from "./world.ts";

const PING = frame(Tag.Ping);
/** One record of it is a frame of 1044 bytes, so four fill a segment. */
const PAYLOAD = "x".repeat(1000);
const SMALL: Partial<BrokerOptions> = { maxSegmentBytes: 4096 };

function expectAtCapacity(answer: Frame): void {
  expect(answer.tag).toBe(Tag.Err);
  expect(decodeErrorBody(new Reader(answer.body, 0, answer.body.length))).toEqual({
    code: "ERR_AT_CAPACITY",
    message: "at capacity",
  });
}

function segments(world: World): string[] {
  const names = world.files.list("/data").map(({ name }) => name);
  return names.filter((name) => name.startsWith("seg-")).map((name) => name.slice(-6, -4));
}

/** Publishes so many records and expects all of them to be taken. */
function publish(world: World, peer: Peer, count: number): void {
  peer.send(...numbersTo(count).map(() => pub(PAYLOAD)));
  expect(peer.received().map(({ tag }) => tag)).toEqual(numbersTo(count).map(() => Tag.PubAck));
  world.advance(300);
}

/** Fetches and acks until nothing comes any more; returns what was not a Deliver or FlowEnd. */
function drain(peer: Peer): { offsets: number[]; notices: Frame[] } {
  const offsets: number[] = [];
  const notices: Frame[] = [];
  for (;;) {
    peer.send(flow(64));
    const frames = peer.received();
    const delivered = frames.filter(({ tag }) => tag === Tag.Deliver);
    notices.push(...frames.filter(({ tag }) => tag !== Tag.Deliver && tag !== Tag.FlowEnd));
    offsets.push(...delivered.map(offsetOf));
    if (frames.length === 1) return { offsets, notices };
    peer.send(...delivered.map((deliver) => ackOf(deliver)));
    peer.received();
  }
}

/** Time for a position to be saved, and for what it held to be removed. */
function ticks(world: World): void {
  for (let tick = 0; tick < 3; tick++) world.advance(300);
}

function subscribe(world: World, group: string, connect = frame(Tag.Connect)): Peer {
  const peer = world.connect();
  peer.send(connect, frame(Tag.Sub, new TextEncoder().encode(group)));
  peer.expectTags(Tag.Info, Tag.Ok);
  return peer;
}

/** A Connect that asks for gap markers. */
const WITH_GAP_MARKERS = frame(Tag.Connect, new Uint8Array([1, 13, 0, 0x04, ...new Array(12).fill(0)]));

describe("a byte cap with drop-new", () => {
  it("wire.md 22.32, storage.md 26.47: refuses by its code, mints nothing, and the connection goes on", async () => {
    const world = await World.start({ options: { maxTotalBytes: 2000 } });
    const peer = world.client();
    peer.send(...numbersTo(5).map(() => pub(PAYLOAD)), PING, pub("silent", 0x40), PING);
    const frames = peer.expectTags(Tag.PubAck, Tag.PubAck, Tag.Err, Tag.Err, Tag.Err, Tag.Pong, Tag.Pong);
    frames.slice(2, 5).forEach(expectAtCapacity);
    expect(world.broker.nextOffset).toBe(2);
    expect(drain(world.client()).offsets).toEqual([0, 1]);
  });

  it("answers every publisher in its own order while many of them meet the cap", async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const world = await World.start({ seed, options: { ...SMALL, maxTotalBytes: 60_000 }, chunkBytes: 7000 });
      const peers = numbersTo(4).map(() => world.client());
      for (const peer of peers) peer.send(...numbersTo(40).map(() => pub(PAYLOAD)), PING);
      const offsets: number[] = [];
      for (const peer of peers) {
        const frames = peer.received();
        expect(frames).toHaveLength(41);
        expect(frames[40].tag).toBe(Tag.Pong);
        const refused = frames.findIndex(({ tag }) => tag === Tag.Err);
        for (const [index, answer] of frames.slice(0, 40).entries()) {
          if (refused >= 0 && index >= refused) expectAtCapacity(answer);
          else offsets.push(offsetOf(answer));
        }
      }
      // At or over the cap is where it stops, one record may cross it.
      expect(offsets.sort((a, b) => a - b)).toEqual(numbersTo(Math.ceil(60_000 / 1044)));
      expect(world.broker.nextOffset).toBe(offsets.length);
    }
  });
});

describe("a byte cap with drop-oldest", () => {
  const options: Partial<BrokerOptions> = { ...SMALL, maxTotalBytes: 16_000, diskFullPolicy: "drop-oldest" };

  it("storage.md 26.47: takes the publish; a group that lagged is told once, with the right numbers", async () => {
    const world = await World.start({ options });
    const producer = world.client();
    const lagging = subscribe(world, "lagging");
    publish(world, producer, 4);
    expect(drain(lagging).offsets).toEqual([0, 1, 2, 3]);
    publish(world, producer, 40);
    const first = Number.parseInt(segments(world)[0], 16);
    const earliest = first * 4;
    expect(earliest).toBeGreaterThan(4);
    const { offsets, notices } = drain(lagging);
    expect(notices.map(({ tag }) => tag)).toEqual([Tag.Truncated]);
    const view = new DataView(notices[0].body.buffer, notices[0].body.byteOffset);
    expect(Number(view.getBigUint64(0, true))).toBe(earliest);
    expect(Number(view.getBigUint64(8, true))).toBe(earliest - 4);
    expect(offsets).toEqual(numbersTo(44).slice(earliest));
    expect(drain(lagging)).toEqual({ offsets: [], notices: [] });
  });

  it("wire.md 22.41: with gap markers it is one of reason 1 over the same span, and no Truncated", async () => {
    const world = await World.start({ options });
    const lagging = subscribe(world, "lagging", WITH_GAP_MARKERS);
    publish(world, world.client(), 44);
    const earliest = Number.parseInt(segments(world)[0], 16) * 4;
    const { offsets, notices } = drain(lagging);
    expect(notices.map(({ tag }) => tag)).toEqual([Tag.GapMarker]);
    const view = new DataView(notices[0].body.buffer, notices[0].body.byteOffset);
    expect([0, 8, 16].map((at) => Number(view.getBigUint64(at, true)))).toEqual([0, earliest, 0]);
    expect(notices[0].body[24]).toBe(1);
    expect(offsets[0]).toBe(earliest);
  });

  it("removes no more than makes room, and everything stays in order over many publishers and seeds", async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const world = await World.start({ seed, options, chunkBytes: 7000 });
      const peers = numbersTo(3).map(() => world.client());
      for (const peer of peers) peer.send(...numbersTo(50).map(() => pub(PAYLOAD)), PING);
      const offsets = peers.flatMap((peer) => {
        const frames = peer.received();
        expect(
          frames.map(({ tag }) => tag),
          `seed ${seed}`,
        ).toEqual([...numbersTo(50).map(() => Tag.PubAck), Tag.Pong]);
        return frames.slice(0, 50).map(offsetOf);
      });
      expect(offsets.sort((a, b) => a - b)).toEqual(numbersTo(150));
      const kept = drain(world.client()).offsets;
      expect(kept).toEqual(numbersTo(150).slice(kept[0]));
      expect(kept.length).toBeGreaterThanOrEqual(10);
      expect(kept.length).toBeLessThanOrEqual(16);
    }
  });

  it("storage.md 20.2: with only the active segment left it refuses, and removes nothing for nothing", async () => {
    const world = await World.start({ options: { ...options, maxSegmentBytes: 65_536, maxTotalBytes: 3000 } });
    const peer = world.client();
    peer.send(...numbersTo(4).map(() => pub(PAYLOAD)));
    expectAtCapacity(peer.expectTags(Tag.PubAck, Tag.PubAck, Tag.PubAck, Tag.Err)[3]);
    expect(segments(world)).toEqual(["00"]);
  });

  it("a removal that fails refuses the publish instead of keeping it waiting, and is tried again", async () => {
    const world = await World.start({ options });
    const peer = world.client();
    publish(world, peer, 15);
    world.files.fail({ operation: "remove", path: /seg-/, code: "EIO", times: Number.POSITIVE_INFINITY });
    peer.send(pub(PAYLOAD), pub(PAYLOAD));
    const answers = peer.received();
    expectAtCapacity(answers[1]);
    expect(world.warnings.filter((warning) => warning.startsWith("segments not removed: "))).toHaveLength(1);
    world.files.clearFaults();
    world.advance(300);
    publish(world, peer, 4);
  });
});

describe("the daily budget", () => {
  it("storage.md 26.47: refuses under both policies and removes nothing; the next day takes again", async () => {
    for (const diskFullPolicy of ["drop-new", "drop-oldest"] as const) {
      const world = await World.start({
        options: { ...SMALL, maxTotalBytes: 1_000_000, dailyWriteBudgetBytes: 10_000, diskFullPolicy },
      });
      const peer = world.client();
      peer.send(...numbersTo(12).map(() => pub(PAYLOAD)));
      const answers = peer.received();
      const taken = answers.filter(({ tag }) => tag === Tag.PubAck).length;
      expect(taken).toBeGreaterThan(7);
      expect(taken).toBeLessThan(11);
      answers.slice(taken).forEach(expectAtCapacity);
      expect(segments(world)[0]).toBe("00");
      world.clock.stepWall(24 * 3_600_000);
      peer.send(pub(PAYLOAD));
      peer.expectTags(Tag.PubAck);
    }
  });
});

describe("a disk that fills up", () => {
  it("answers what was pending, goes on reading, and takes publishes again once there is room", async () => {
    const world = await World.start();
    const [peer, other] = [world.client(), world.client()];
    publish(world, peer, 1);
    world.files.limitSpace(0);
    peer.send(pub(PAYLOAD.repeat(90)), pub("small"), PING);
    other.send(pub(PAYLOAD.repeat(10)), pub("silent", 0x40));
    const answers = peer.expectTags(Tag.Err, Tag.Err, Tag.Pong);
    answers.slice(0, 2).forEach(expectAtCapacity);
    expectAtCapacity(other.expectTags(Tag.Err)[0]);
    expect(world.frozen).toBeUndefined();
    expect(drain(other).offsets).toEqual([0]);
    world.files.limitSpace(Number.POSITIVE_INFINITY);
    world.advance(1500);
    peer.send(pub("again"));
    expect(offsetOf(peer.expectTags(Tag.PubAck)[0])).toBe(1);
  });
});

describe("a disk that fills up while many publish", () => {
  it("what was refused is not stored, what was acknowledged is, and every publish has one answer", async () => {
    let refused = 0;
    for (let seed = 1; seed <= 30; seed++) {
      const random = new SeededRandom(seed);
      const world = await World.start({
        seed,
        options: { maxSegmentBytes: 65_536, maxPendingBytes: 128 * 1024 },
        chunkBytes: 20_000,
      });
      const peers = numbersTo(4).map((index) => ({ index, peer: world.client() }));
      const stored = new Map<number, string>();
      const payload = (index: number, number: number) => `${index}/${number}`.padEnd(3000, ".");
      for (let round = 0; round < 6; round++) {
        world.files.limitSpace(random.below(3) === 0 ? Number.POSITIVE_INFINITY : random.below(200_000));
        for (const { index, peer } of peers) {
          peer.send(...numbersTo(20).map((number) => pub(payload(index, round * 20 + number))));
        }
        for (let turns = random.below(200); turns > 0; turns--) if (!world.turns.step()) break;
        if (random.below(2) === 0) world.advance(random.below(1500));
      }
      world.settle();
      world.files.limitSpace(Number.POSITIVE_INFINITY);
      world.advance(2000);
      expect(world.frozen, `seed ${seed}`).toBeUndefined();
      for (const { index, peer } of peers) {
        const answers = peer.received();
        expect(answers, `seed ${seed}`).toHaveLength(120);
        for (const [number, answer] of answers.entries()) {
          if (answer.tag === Tag.PubAck) stored.set(offsetOf(answer), payload(index, number));
          else expectAtCapacity(answer);
        }
      }
      refused += 480 - stored.size;
      const publisher = world.client();
      publisher.send(pub("the last one"));
      stored.set(offsetOf(publisher.expectTags(Tag.PubAck)[0]), "the last one");
      world.kill();
      const again = await World.start({ killed: world, options: { maxSegmentBytes: 65_536 } });
      expect(everyRecord(again), `seed ${seed}`).toEqual(stored);
      expect(again.warnings, `seed ${seed}`).toEqual([]);
    }
    expect(refused).toBeGreaterThan(1000);
  });
});

describe("retention", () => {
  const options: Partial<BrokerOptions> = {
    ...SMALL,
    retention: { maxRetainedBytes: 1, maxAgeMs: 0, maxMessages: 0 },
  };

  it("storage.md 26.46: removes what the slowest group has, never more, never the active segment", async () => {
    const world = await World.start({ options });
    const slow = subscribe(world, "slow");
    slow.send(flow(1));
    expect(slow.expectTags(Tag.FlowEnd)).toHaveLength(1);
    publish(world, world.client(), 18);
    expect(segments(world)).toEqual(["00", "01", "02", "03", "04"]);
    // Committed in the middle of segment 2.
    slow.send(flow(10));
    const delivered = slow.received().filter(({ tag }) => tag === Tag.Deliver);
    slow.send(...delivered.map((deliver) => ackOf(deliver)));
    slow.received();
    ticks(world);
    expect(segments(world)).toEqual(["02", "03", "04"]);
    drain(slow);
    ticks(world);
    expect(segments(world)).toEqual(["04"]);
  });

  it("a power cut after a removal tells no group that it missed something: its position was on disk before", async () => {
    for (const style of ["lost", "kept", "scattered"] as const) {
      const world = await World.start({ options });
      const group = subscribe(world, "g");
      drain(group);
      publish(world, world.client(), 18);
      expect(drain(group).offsets).toEqual(numbersTo(18));
      ticks(world);
      expect(segments(world)).toEqual(["04"]);
      const again = await World.start({ files: world.files.cutPower({ style }), options });
      expect(drain(subscribe(again, "g")).notices).toEqual([]);
    }
  });

  it("storage.md 26.46: the default group holds nothing until it was used, a named one from its first poll on", async () => {
    const world = await World.start({ options });
    publish(world, world.client(), 10);
    expect(segments(world)).toEqual(["02"]);
    const consumer = world.client();
    consumer.send(flow(1));
    expect(consumer.expectTags(Tag.Truncated, Tag.FlowEnd)).toHaveLength(2);
    publish(world, world.client(), 10);
    expect(segments(world)).toEqual(["02", "03", "04"]);
  });

  it("a group that was left behind by a stop holds what it has not settled after the next start", async () => {
    const world = await World.start({ options: { ...options, checkpointInterval: 1 } });
    const consumer = world.client();
    publish(world, world.client(), 2);
    consumer.send(flow(1));
    consumer.send(ackOf(consumer.expectTags(Tag.Deliver, Tag.FlowEnd)[0]));
    consumer.expectTags(Tag.AckStatus);
    await world.stop();
    const again = await World.start({ files: world.files, options });
    publish(again, again.client(), 10);
    expect(segments(again)).toEqual(["00", "01", "02"]);
  });

  it("README ruling 10: a segment ages from the arrival of its last record, whatever producers stamp", async () => {
    const hour = 3_600_000;
    const world = await World.start({
      options: { ...SMALL, retention: { maxRetainedBytes: 0, maxAgeMs: hour, maxMessages: 0 } },
      limits: { idleTimeoutMs: 100 * hour },
    });
    const peer = world.client();
    publish(world, peer, 6);
    world.advance(hour / 2);
    expect(segments(world)).toEqual(["00", "01"]);
    publish(world, peer, 4);
    world.advance(hour / 2);
    expect(segments(world)).toEqual(["01", "02"]);
    world.advance(hour);
    expect(segments(world)).toEqual(["02"]);
  });
});
