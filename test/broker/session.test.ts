import { describe, expect, it, vi } from "vitest";
import { Session } from "../../src/broker/session.ts";
import { FileSystemError } from "../../src/runtime/file-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { Tag } from "../../src/wire/tags.ts";
import { ROW_CHECK } from "./row-check.ts";
import {
  ackOf,
  everyRecord,
  type Frame,
  flow,
  frame,
  numbersTo,
  offsetOf,
  payloadOf,
  pub,
  textOf,
  World,
} from "./world.ts";

const PING = frame(Tag.Ping);

/** The file operation, failing for paths that match. */
function failingFor<Result>(path: RegExp, operation: (path: string) => Result): (path: string) => Result {
  return (at) => {
    if (path.test(at)) throw new FileSystemError("EIO", "stat", at);
    return operation(at);
  };
}

describe("publishing", () => {
  it("the publish table's rows are laid out as the codec reads them", () => {
    expect(ROW_CHECK.wire).toEqual(ROW_CHECK.codec);
  });

  it("answers in the order of the requests, whatever waits for the disk", async () => {
    const world = await World.start();
    const peer = world.client();
    peer.send(PING, pub("a"), pub("b"), PING, pub("c"), flow(2), PING);
    const frames = peer.received();
    expect(frames.map(({ tag }) => tag)).toEqual([
      Tag.Pong,
      Tag.PubAck,
      Tag.PubAck,
      Tag.Pong,
      Tag.PubAck,
      Tag.Deliver,
      Tag.Deliver,
      Tag.FlowEnd,
      Tag.Pong,
    ]);
  });

  it("gives every connection its own acknowledgements while many publish through one bounded log", async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const world = await World.start({ seed, options: { maxPendingBytes: 128 * 1024 }, chunkBytes: 20_000 });
      const peers = numbersTo(8).map(() => world.client());
      const payload = "x".repeat(3000);
      for (const peer of peers) peer.send(...numbersTo(120).map(() => pub(payload)), PING);
      const offsets = peers.flatMap((peer) => {
        const frames = peer.received();
        expect(frames.map(({ tag }) => tag)).toEqual([...numbersTo(120).map(() => Tag.PubAck), Tag.Pong]);
        const own = frames.slice(0, 120).map(offsetOf);
        expect(own).toEqual([...own].sort((a, b) => a - b));
        return own;
      });
      expect(offsets.sort((a, b) => a - b)).toEqual(numbersTo(960));
    }
  });

  it("level 0 is silent, in both encodings, and a later frame waits for it", async () => {
    const world = await World.start();
    const peer = world.client();
    peer.send(pub("silent", 0x40), pub("acked"), pub("silent too", 0x08), PING, flow(3));
    const frames = peer.received();
    expect(frames.map(({ tag }) => tag)).toEqual([
      Tag.PubAck,
      Tag.Pong,
      Tag.Deliver,
      Tag.Deliver,
      Tag.Deliver,
      Tag.FlowEnd,
    ]);
    expect(offsetOf(frames[0])).toBe(1);
    expect(frames.slice(2, 5).map(payloadOf)).toEqual(["silent", "acked", "silent too"]);
    expect(frames.slice(2, 5).map(({ body }) => body[16] & 0xf8)).toEqual([0, 0, 0]);
  });

  it("refuses what this version does not do, without appending it", async () => {
    const world = await World.start();
    const peer = world.client();
    const dedup = new Uint8Array(13 + 13);
    dedup[0] = 0x80;
    peer.send(pub("confirmed", 0x10), frame(Tag.Pub, dedup), pub("plain"));
    const frames = peer.expectTags(Tag.Err, Tag.Err, Tag.PubAck);
    expect(textOf(frames[0])).toMatch(/level 2/);
    expect(textOf(frames[1])).toMatch(/deduplicated/);
    expect(offsetOf(frames[2])).toBe(0);
  });

  it("a body above the record cap is refused, its neighbours are not", async () => {
    const world = await World.start({ options: { maxSegmentBytes: 4096 } });
    const peer = world.client();
    peer.send(pub("a"), pub(new Uint8Array(5000)), pub(new Uint8Array(5000), 0x40), pub("b"));
    const frames = peer.expectTags(Tag.PubAck, Tag.Err, Tag.PubAck);
    expect(textOf(frames[1])).toBe("produce failed");
    expect(offsetOf(frames[2])).toBe(1);
  });

  it("a failed barrier: every publisher of the batch gets the fatal error and its end, readers go on", async () => {
    const world = await World.start();
    const reader = world.client();
    const [first, second, silent] = numbersTo(3).map(() => world.client());
    first.send(pub("kept"));
    first.expectTags(Tag.PubAck);
    world.files.fail({ operation: "sync", path: /seg-/, code: "EIO" });
    first.send(pub("x"), pub("y"));
    second.send(pub("z"));
    silent.send(pub("w", 0x40));
    for (const peer of [first, second]) {
      expect(textOf(peer.expectTags(Tag.Err)[0])).toBe("fatal storage error");
      expect(peer.endpoint.ended).toBe(true);
    }
    silent.expectTags();
    expect(world.frozen?.message).toMatch(/EIO/);
    const late = world.client();
    late.send(pub("late"));
    expect(textOf(late.expectTags(Tag.Err)[0])).toBe("fatal storage error");
    expect(late.endpoint.ended).toBe(true);
    reader.send(flow(10));
    expect(payloadOf(reader.expectTags(Tag.Deliver, Tag.FlowEnd)[0])).toBe("kept");
  });

  it("README ruling 12: whoever is owed nothing when the log freezes hears of it with the next publish", async () => {
    let acknowledgedOnly = 0;
    for (let seed = 1; seed <= 20; seed++) {
      const world = await World.start({ seed, options: { maxSegmentBytes: 4096 } });
      const peers = numbersTo(3).map(() => world.client());
      world.files.rename("/data", "/aside");
      world.files.makeDirectory("/data");
      for (const peer of peers) peer.send(pub("x".repeat(1500)), pub("x".repeat(1500)));
      world.settle();
      for (const peer of peers) {
        const frames = peer.received();
        const last = frames.at(-1) as Frame;
        if (last.tag === Tag.PubAck) {
          acknowledgedOnly += 1;
          expect(peer.endpoint.ended).toBe(false);
          peer.send(pub("late"));
          expect(textOf(peer.expectTags(Tag.Err)[0])).toBe("fatal storage error");
        } else {
          expect(textOf(last)).toBe("fatal storage error");
        }
        expect(peer.endpoint.ended).toBe(true);
      }
      expect(world.frozen?.message).toMatch(/was replaced/);
    }
    expect(acknowledgedOnly).toBeGreaterThan(0);
  });

  it("storage.md 26.33: a segment that cannot be created is one refusal, then publishing goes on without a gap", async () => {
    const world = await World.start({ options: { maxSegmentBytes: 4096 } });
    const peer = world.client();
    const payload = "x".repeat(2000);
    peer.send(pub(payload), pub(payload));
    peer.expectTags(Tag.PubAck, Tag.PubAck);
    world.files.fail({ operation: "open", path: /seg-.*1\.log/, code: "EMFILE", times: 2 });
    peer.send(pub("refused"));
    expect(textOf(peer.expectTags(Tag.Err)[0])).toBe("produce failed");
    world.files.clearFaults();
    peer.send(pub("taken"));
    expect(offsetOf(peer.expectTags(Tag.PubAck)[0])).toBe(2);
  });
});

describe("segments that cannot be created while many publish", () => {
  it("what was refused is not stored, what was acknowledged is, and every publish has one answer", async () => {
    let refused = 0;
    const size = 3000;
    for (let seed = 1; seed <= 40; seed++) {
      const world = await World.start({
        seed,
        options: { maxSegmentBytes: 65_536, maxPendingBytes: 128 * 1024 },
        chunkBytes: 20_000,
      });
      const peers = numbersTo(4).map((index) => ({ index, peer: world.client() }));
      const stored = new Map<number, string>();
      for (let round = 0; round < 6; round++) {
        world.files.fail({ operation: "open", path: /seg-/, code: "EMFILE", skip: seed % 3, times: 1 + (seed % 5) });
        for (const { index, peer } of peers) {
          peer.send(...numbersTo(20).map((number) => pub(`${index}/${round * 20 + number}`.padEnd(size, "."))));
        }
        for (let turns = (seed * 7) % 200; turns > 0; turns--) if (!world.turns.step()) break;
      }
      world.settle();
      world.files.clearFaults();
      for (const { index, peer } of peers) {
        const answers = peer.received();
        expect(answers, `seed ${seed}`).toHaveLength(120);
        for (const [number, answer] of answers.entries()) {
          if (answer.tag === Tag.PubAck) stored.set(offsetOf(answer), `${index}/${number}`.padEnd(size, "."));
          else expect(textOf(answer)).toBe("produce failed");
        }
      }
      refused += 480 - stored.size;
      expect(everyRecord(world), `seed ${seed}`).toEqual(stored);
    }
    expect(refused).toBeGreaterThan(100);
  });
});

describe("the end of a connection", () => {
  it("wire.md 22.72: fifty publishes and a FIN are fifty acknowledgements and a FIN", async () => {
    const world = await World.start();
    const peer = world.client();
    peer.send(...numbersTo(50).map((index) => pub(`${index}`)));
    peer.endpoint.end();
    expect(peer.received().map(offsetOf)).toEqual(numbersTo(50));
    expect(peer.endpoint.ended).toBe(true);
    expect(world.broker.connections).toBe(0);
  });

  it("wire.md 6.3: a peer that sent its FIN gets ours behind everything owed, never a close that may lose some of it", async () => {
    const closes: string[] = [];
    const peerEnded = Session.prototype.peerEnded;
    const spy = vi.spyOn(Session.prototype, "peerEnded").mockImplementation(function (this: Session) {
      const { connection } = this;
      const shutdown = connection.shutdown.bind(connection);
      vi.spyOn(connection, "shutdown").mockImplementation(() => {
        closes.push("shutdown");
        vi.spyOn(connection, "close").mockRestore();
        shutdown();
      });
      vi.spyOn(connection, "close").mockImplementation(() => void closes.push("close"));
      peerEnded.call(this);
    });
    const world = await World.start();
    const peer = world.client();
    peer.send(pub("a"), PING);
    peer.endpoint.end();
    peer.expectTags(Tag.PubAck, Tag.Pong);
    spy.mockRestore();
    expect(closes).toEqual(["shutdown"]);
    expect(peer.endpoint.ended).toBe(true);
    expect(world.broker.connections).toBe(0);
  });

  it("a malformed envelope ends it after what was owed", async () => {
    const world = await World.start();
    const peer = world.client();
    peer.send(pub("a"), pub("b"), new Uint8Array([0, 0, 0, 0]), pub("never"));
    peer.expectTags(Tag.PubAck, Tag.PubAck);
    expect(peer.endpoint.ended).toBe(true);
    world.advance(3000);
    expect(world.broker.connections).toBe(0);
    expect(world.broker.nextOffset).toBe(2);
  });

  it("wire.md 6.3: publishes before a malformed envelope are answered although the log had no room for them at first", async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const world = await World.start({ seed, options: { maxPendingBytes: 128 * 1024 } });
      const [filling, peer] = [world.client(), world.client()];
      world.files.holdBarriers(/seg-/);
      filling.send(...numbersTo(100).map(() => pub("x".repeat(3000))));
      world.settle();
      peer.send(pub("a"), pub("b"), new Uint8Array([0, 0, 0, 0]), pub("never"));
      world.settle();
      world.files.releaseBarriers();
      peer.expectTags(Tag.PubAck, Tag.PubAck);
      expect(peer.endpoint.ended).toBe(true);
      expect(filling.received()).toHaveLength(100);
      expect(world.broker.nextOffset).toBe(102);
    }
  });

  it("wire.md 22.73: a response that is still being read is not idleness, and neither is what was sent meanwhile", async () => {
    const world = await World.start({ windowBytes: 5000 });
    const peer = world.client();
    peer.send(...numbersTo(64).map((index) => pub(`${index}`.padEnd(1000, "."))));
    expect(peer.received()).toHaveLength(64);
    peer.endpoint.pauseReading();
    peer.send(flow(64));
    world.settle();
    peer.send(PING);
    const frames: Frame[] = [];
    for (let seconds = 0; seconds < 100; seconds += 5) {
      world.advance(5000);
      // A little at a time.
      peer.endpoint.resumeReading();
      world.turns.step();
      peer.endpoint.pauseReading();
      frames.push(...peer.arrived());
    }
    expect(peer.endpoint.closed).toBe(false);
    peer.endpoint.resumeReading();
    frames.push(...peer.received());
    expect(frames.map(({ tag }) => tag)).toEqual([...numbersTo(64).map(() => Tag.Deliver), Tag.FlowEnd, Tag.Pong]);
    world.advance(20_000);
    expect(peer.endpoint.closed).toBe(false);
    world.advance(11_000);
    expect(peer.endpoint.closed).toBe(true);
  });

  it("wire.md 22.73: thirty silent seconds end it; a Ping in between does not", async () => {
    const world = await World.start();
    const silent = world.client();
    const pinging = world.client();
    for (let seconds = 0; seconds < 40; seconds += 10) {
      world.advance(10_000);
      pinging.send(PING);
      pinging.expectTags(Tag.Pong);
    }
    expect(silent.endpoint.closed).toBe(true);
    expect(silent.received()).toEqual([]);
    expect(pinging.endpoint.closed).toBe(false);
  });

  it("is not idle while a publish is unsettled", async () => {
    const world = await World.start();
    const peer = world.client();
    world.files.holdBarriers(/seg-/);
    peer.send(pub("slow"));
    world.advance(60_000);
    expect(peer.endpoint.closed).toBe(false);
    world.files.releaseBarriers();
    peer.expectTags(Tag.PubAck);
  });

  it("a reader that does not read is left with what its window holds, costs no more, and is dropped in time", async () => {
    const world = await World.start({ windowBytes: 10_000 });
    const producer = world.client();
    const stuck = world.client();
    for (let round = 0; round < 10; round++) {
      producer.send(...numbersTo(40).map(() => pub("y".repeat(1000))));
      expect(producer.received()).toHaveLength(40);
    }
    stuck.endpoint.pauseReading();
    stuck.send(flow(1000), ...numbersTo(2000).map(() => PING));
    world.settle();
    const other = world.client();
    other.send(PING);
    other.expectTags(Tag.Pong);
    world.advance(31_000);
    expect(stuck.endpoint.closed || stuck.endpoint.wasReset).toBe(true);
    expect(world.broker.connections).toBe(0);
  });

  it("a reader that reads slowly gets everything", async () => {
    const world = await World.start({ windowBytes: 5000 });
    const peer = world.client();
    peer.send(...numbersTo(64).map((index) => pub(`${index}`.padEnd(1000, "."))));
    expect(peer.received()).toHaveLength(64);
    peer.endpoint.pauseReading();
    peer.send(flow(64), PING);
    world.settle();
    peer.endpoint.resumeReading();
    const frames = peer.received();
    expect(frames.slice(0, 64).map(offsetOf)).toEqual(numbersTo(64));
    expect(frames.slice(64).map(({ tag }) => tag)).toEqual([Tag.FlowEnd, Tag.Pong]);
  });

  it("wire.md 22.74: a connection over the cap is closed without a byte", async () => {
    const world = await World.start({ options: { maxConnections: 2 } });
    const [first] = [world.client(), world.client()];
    const third = world.connect();
    third.send(frame(Tag.Connect));
    expect(third.received()).toEqual([]);
    expect(third.endpoint.closed).toBe(true);
    first.endpoint.end();
    world.settle();
    world.client();
  });
});

describe("consuming across restarts", () => {
  it("semantics.md 24.25: a clean disconnect keeps every ack; a graceful stop too", async () => {
    const world = await World.start();
    const producer = world.client();
    producer.send(...numbersTo(1500).map((index) => pub(`${index}`)));
    expect(producer.received()).toHaveLength(1500);
    const consumer = world.client();
    for (let settled = 0; settled < 1500; ) {
      consumer.send(flow(1500 - settled));
      const delivered = consumer.received().filter(({ tag }) => tag === Tag.Deliver);
      consumer.send(...delivered.map((deliver) => ackOf(deliver)));
      expect(consumer.received().every(({ tag, body }) => tag === Tag.AckStatus && body[0] === 1)).toBe(true);
      settled += delivered.length;
    }
    consumer.endpoint.end();
    world.settle();
    const after = await World.start({ files: world.files.cutPower({ style: "lost" }) });
    const again = after.client();
    again.send(flow(10));
    again.expectTags(Tag.FlowEnd);
    expect(after.broker.nextOffset).toBe(1500);
  });

  it("a cursor ahead of a log that lost its end never skips what is published later, whatever happens then", async () => {
    const options = { durability: { level: "none", flushIntervalMs: 0, flushMaxBytes: 0 } } as const;
    const world = await World.start({ options });
    const peer = world.client();
    peer.send(...numbersTo(10).map((index) => pub(`old ${index}`)), flow(10));
    const delivered = peer.received().filter(({ tag }) => tag === Tag.Deliver);
    // A run above the committed offset is kept too.
    peer.send(...delivered.filter((_, index) => index !== 3).map((deliver) => ackOf(deliver)));
    peer.received();
    peer.endpoint.end();
    world.settle();
    const second = await World.start({ files: world.files.cutPower({ style: "lost" }), options });
    expect(second.broker.nextOffset).toBe(0);
    // A log without its end shows nothing of that; the position that is ahead of it does.
    expect(second.warnings).toContainEqual(
      "group (default) had settled records up to offset 10, and the log ends at 0: at least 10 record(s) are lost, and " +
        "their offsets are given to new records",
    );
    const producer = second.client();
    producer.send(...numbersTo(10).map((index) => pub(`new ${index}`)));
    expect(producer.received()).toHaveLength(10);
    const third = await World.start({ files: second.files.cutPower({ style: "kept" }), options });
    const consumer = third.client();
    consumer.send(flow(20));
    const frames = consumer.received();
    expect(frames.slice(0, -1).map(payloadOf)).toEqual(numbersTo(10).map((index) => `new ${index}`));
  });

  it("README ruling 13: a damaged cursor is told about, and the group starts again", async () => {
    const world = await World.start();
    const peer = world.client();
    peer.send(pub("again"), flow(1));
    peer.send(ackOf(peer.received()[1]));
    peer.received();
    await world.stop();
    expect(world.warnings).toEqual([]);
    const image = world.files.cutPower({ style: "kept" });
    for (const slot of [0, 78]) image.flipBit("/data/cursor.ckpt", slot + 10, 0);
    const after = await World.start({ files: image });
    expect(after.warnings).toEqual([expect.stringMatching(/cursor\.ckpt is damaged/)]);
    const consumer = after.client();
    consumer.send(flow(1));
    expect(payloadOf(consumer.expectTags(Tag.Deliver, Tag.FlowEnd)[0])).toBe("again");
  });

  it("a cursor whose save failed is saved by the graceful stop", async () => {
    const world = await World.start({ options: { checkpointInterval: 1 } });
    const peer = world.client();
    peer.send(pub("once"), flow(1));
    const [, deliver] = peer.received();
    world.files.fail({ operation: "write", path: /cursor/, code: "ENOSPC" });
    peer.send(ackOf(deliver));
    peer.received();
    expect(world.warnings).toHaveLength(1);
    await world.stop();
    const after = await World.start({ files: world.files.cutPower({ style: "lost" }) });
    const consumer = after.client();
    consumer.send(flow(1));
    consumer.expectTags(Tag.FlowEnd);
  });

  it("consumers that leave while a graceful stop saves their groups do not disturb it", async () => {
    const world = await World.start();
    const peers = numbersTo(6).map(() => world.client());
    peers[0].send(...numbersTo(12).map((index) => pub(`${index}`)));
    peers[0].received();
    for (const peer of peers) {
      peer.send(flow(2));
      // The second of two, so that every consumer leaves a run ahead of the cursor.
      peer.send(ackOf(peer.received().filter(({ tag }) => tag === Tag.Deliver)[1]));
      peer.received();
    }
    world.files.holdBarriers(/attempts/);
    const errors: unknown[] = [];
    const stopped = world.broker.stop().catch((error: unknown) => errors.push(error));
    const settle = async () => {
      for (let round = 0; round < 10; round++) {
        world.settle();
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    // The cursor is saved and the attempts are under way when the consumers leave.
    await settle();
    for (const peer of peers) peer.endpoint.end();
    await settle();
    world.files.releaseBarriers();
    // What follows a step of the disk comes before the next one.
    do await new Promise((resolve) => setImmediate(resolve));
    while (world.files.step());
    await world.stop();
    await stopped;
    expect(errors).toEqual([]);
    expect(world.broker.connections).toBe(0);
  });

  it("a group whose files cannot be reached is refused; nothing of it reaches another connection", async () => {
    const world = await World.start();
    const [peer, other] = [world.client(), world.client()];
    world.files.stat = failingFor(/cursor-/, world.files.stat.bind(world.files));
    peer.send(frame(Tag.Sub, new TextEncoder().encode("unreachable")), PING, flow(1), PING);
    const frames = peer.expectTags(Tag.Ok, Tag.Pong, Tag.Err, Tag.Pong);
    expect(textOf(frames[2])).toBe("fetch failed");
    other.send(PING);
    other.expectTags(Tag.Pong);
  });

  it("what a slow consumer settled is on disk after a few seconds, without its leaving", async () => {
    const world = await World.start();
    const peer = world.client();
    peer.send(...numbersTo(5).map((index) => pub(`${index}`)), flow(5));
    const delivered = peer.received().filter(({ tag }) => tag === Tag.Deliver);
    peer.send(...delivered.slice(0, 3).map((deliver) => ackOf(deliver)));
    expect(peer.received()).toHaveLength(3);
    for (let seconds = 0; seconds < 7; seconds++) world.advance(1000);
    const after = await World.start({ files: world.files.cutPower({ style: "lost" }) });
    const again = after.client();
    again.send(flow(5));
    expect(again.expectTags(Tag.Deliver, Tag.Deliver, Tag.FlowEnd).slice(0, 2).map(offsetOf)).toEqual([3, 4]);
  });

  it("semantics.md 24.24: attempts are counted across a restart", async () => {
    const world = await World.start({ options: { visibilityTimeoutMs: 1000 } });
    const peer = world.client();
    peer.send(pub("again"), flow(1));
    expect(peer.received()).toHaveLength(3);
    world.advance(1000);
    peer.send(flow(1));
    peer.expectTags(Tag.Deliver, Tag.FlowEnd);
    world.settle();
    const image = world.files.cutPower({ style: "lost" });
    const bytes = new Uint8Array(65564);
    image.open("/data/attempts.ckpt", "read").read(bytes, 0, bytes.length, 0);
    // Offset 0 with 2 deliveries, in whichever slot is newer (storage.md 8.3).
    expect(Buffer.from(bytes).toString("hex")).toContain(`0101000000${"00".repeat(8)}02000000`);
    const after = await World.start({ files: image, options: { visibilityTimeoutMs: 1000 } });
    const consumer = after.client();
    consumer.send(flow(1));
    consumer.expectTags(Tag.Deliver, Tag.FlowEnd);
    await after.stop();
    after.files.open("/data/attempts.ckpt", "read").read(bytes, 0, bytes.length, 0);
    expect(Buffer.from(bytes).toString("hex")).toContain(`0101000000${"00".repeat(8)}03000000`);
  });

  it("a graceful stop acknowledges what was appended, and the next start finds it", async () => {
    const world = await World.start({
      options: { durability: { level: "none", flushIntervalMs: 0, flushMaxBytes: 0 } },
    });
    const peer = world.client();
    peer.send(...numbersTo(20).map((index) => pub(`${index}`)));
    expect(peer.received()).toHaveLength(20);
    await world.stop();
    expect(peer.endpoint.closed || peer.endpoint.ended).toBe(true);
    const after = await World.start({ files: world.files.cutPower({ style: "lost" }) });
    expect(after.broker.nextOffset).toBe(20);
  });

  it("a log whose first records are gone tells each group once", async () => {
    const world = await World.start({ options: { maxSegmentBytes: 4096 } });
    const peer = world.client();
    for (const index of numbersTo(12)) peer.send(pub(`${index}`.padEnd(1000, ".")));
    expect(peer.received()).toHaveLength(12);
    await world.stop();
    const { files } = world;
    const earliest = 4;
    files.remove("/data/seg-0000000000000000.log");
    const after = await World.start({ files, options: { maxSegmentBytes: 4096 } });
    const consumer = after.client();
    consumer.send(flow(3));
    const [truncated, ...delivered] = consumer.expectTags(Tag.Truncated, Tag.Deliver, Tag.Deliver, Tag.FlowEnd);
    expect(offsetOf(truncated)).toBe(earliest);
    expect(delivered.slice(0, 2).map(offsetOf)).toEqual([4, 5]);
    const gap = after.connect();
    gap.send(frame(Tag.Connect, new Uint8Array([1, 13, 0, 0x04, ...numbersTo(12).map(() => 0)])));
    gap.expectTags(Tag.Info);
    gap.send(frame(Tag.Sub, new TextEncoder().encode("other")), flow(2));
    const [, marker] = gap.expectTags(Tag.Ok, Tag.GapMarker, Tag.Deliver, Tag.FlowEnd);
    expect([...marker.body]).toEqual([...numbersTo(8).map(() => 0), 4, ...numbersTo(15).map(() => 0), 1]);
  });
});

describe("start", () => {
  it("says what recovery had to cut off, a line for each loss", async () => {
    const world = await World.start();
    const peer = world.client();
    peer.send(pub("kept"), pub("torn"));
    peer.expectTags(Tag.PubAck, Tag.PubAck);
    await world.stop();
    expect(world.warnings).toEqual([]);
    // A byte in the payload of the second record: 64 bytes of header, 48 of the first record, 36 of its own header.
    // The span ends at its last byte that is not zero (storage.md 18.1).
    world.files.flipBit("/data/seg-0000000000000000.log", 64 + 48 + 36, 0);
    const after = await World.start({ files: world.files });
    expect(after.broker.nextOffset).toBe(1);
    expect(after.warnings).toEqual([
      "recovery of /data: segment 0 bytes [112, 157): 45 byte(s) lost, at least 1 record(s), " +
        "reason=corrupt_record_body",
    ]);
  });

  it("refuses a directory that another broker holds, and leaves nothing open after a failed bind", async () => {
    const files = new SimulatedFileSystem({ turns: "manual" });
    const world = await World.start({ files });
    await expect(World.start({ files })).rejects.toThrow(/already running/);
    await world.stop();
    const next = await World.start({ files });
    next.client();
  });
});
