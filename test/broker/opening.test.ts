import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { BrokerOptions } from "../../src/broker/options.ts";
import { groupCheckpointName } from "../../src/log/names.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { Tag } from "../../src/wire/tags.ts";
import { ackOf, type Frame, flow, frame, numbersTo, offsetOf, type Peer, pub, textOf, World } from "./world.ts";

/** One record is a frame of 1044 bytes, so four fill a segment. */
const PAYLOAD = "x".repeat(1000);
const OPTIONS: Partial<BrokerOptions> = { maxSegmentBytes: 4096, checkpointInterval: 1 };

function publish(world: World, count: number): void {
  const peer = world.client();
  peer.send(...numbersTo(count).map(() => pub(PAYLOAD)));
  expect(peer.received().map(({ tag }) => tag)).toEqual(numbersTo(count).map(() => Tag.PubAck));
}

function subscribe(world: World, group: string): Peer {
  const peer = world.client();
  peer.send(frame(Tag.Sub, new TextEncoder().encode(group)));
  peer.expectTags(Tag.Ok);
  return peer;
}

/** Fetches so many and acks them. */
function consume(peer: Peer, credit: number): number[] {
  peer.send(flow(credit));
  const delivered: Frame[] = peer.received().filter(({ tag }) => tag === Tag.Deliver);
  peer.send(...delivered.map((deliver) => ackOf(deliver)));
  expect(peer.received().map(({ body }) => body[0])).toEqual(delivered.map(() => 1));
  return delivered.map(offsetOf);
}

/** Names and contents of everything below the data directory. */
function treeHash(files: SimulatedFileSystem): string {
  const hash = createHash("sha256");
  const walk = (path: string): void => {
    for (const { name, kind } of files.list(path)) {
      const at = `${path}/${name}`;
      hash.update(`${at} ${kind}\n`);
      if (kind === "directory") {
        walk(at);
        continue;
      }
      const file = files.open(at, "read");
      const bytes = new Uint8Array(file.status().size);
      file.read(bytes, 0, bytes.length, 0);
      file.close();
      hash.update(bytes);
    }
  };
  walk("/data");
  return hash.digest("hex");
}

/** A stopped directory of three segments and a group `g` at offset 6, with far too much of segment 0 gone. */
async function beyondTheCap(): Promise<World> {
  const world = await World.start({ options: { ...OPTIONS, maxSegmentBytes: 8192 } });
  publish(world, 24);
  consume(subscribe(world, "g"), 2);
  await world.stop();
  const path = "/data/seg-0000000000000001.log";
  const length = world.files.stat(path)?.size as number;
  const file = world.files.open(path, "write");
  const garbage = new Uint8Array(length - 64 - 1100).fill(0x5a);
  file.write(garbage, 0, garbage.length, 64 + 500);
  file.close();
  return world;
}

describe("a loss above a cap (README ruling 1)", () => {
  // The roll size of this start is what one event may lose.
  const options = OPTIONS;

  it("opens read-only: reads and acks are served, publishing is refused, nothing on the disk changes", async () => {
    const { files } = await beyondTheCap();
    const before = treeHash(files);
    const world = await World.start({ files, options: { ...options, fullScan: true } });
    expect(world.broker.readOnly).toBe(true);
    expect(world.frozen?.message).toContain("over the per-event cap 4096");
    expect(world.broker.health.frozen).toBe(world.frozen);
    const peer = subscribe(world, "g");
    expect(consume(peer, 3)).toEqual([2, 3, 4]);
    expect(consume(subscribe(world, "new"), 2)).toEqual([0, 1]);
    const publisher = world.client();
    publisher.send(pub("no"));
    expect(textOf(publisher.expectTags(Tag.Err)[0])).toBe("fatal storage error");
    expect(publisher.endpoint.ended).toBe(true);
    world.advance(30_000);
    expect(treeHash(files)).toBe(before);
    await world.stop();
    expect(treeHash(files)).toBe(before);
  });

  it("is refused in mode strict, and nothing on the disk changes either", async () => {
    const { files } = await beyondTheCap();
    const before = treeHash(files);
    const start = World.start({ files, options: { ...options, recovery: "strict", fullScan: true } });
    const steps = setInterval(() => files.runAll(), 1);
    await expect(start).rejects.toThrow("predecessor segment 1 is not sealed");
    clearInterval(steps);
    expect(treeHash(files)).toBe(before);
  });
});

describe("a start on a full disk (README ruling 11)", () => {
  it("serves reads and acks, says so in one line, keeps positions until they fit, and heals by itself", async () => {
    const first = await World.start({ options: OPTIONS });
    publish(first, 8);
    consume(subscribe(first, "old"), 2);
    await first.stop();
    const { files } = first;
    files.limitSpace(0);
    const world = await World.start({ files, options: OPTIONS });
    const full = () => world.warnings.filter((warning) => /ENOSPC|full/.test(warning));
    expect(world.frozen).toBeUndefined();
    const old = subscribe(world, "old");
    expect(consume(old, 2)).toEqual([2, 3]);
    const fresh = subscribe(world, "fresh");
    expect(consume(fresh, 3)).toEqual([0, 1, 2]);
    const publisher = world.client();
    publisher.send(pub(PAYLOAD), frame(Tag.Ping));
    expect(textOf(publisher.expectTags(Tag.Err, Tag.Pong)[0])).toContain("at capacity");
    world.advance(8_000);
    expect(files.stat(`/data/${groupCheckpointName("cursor", "fresh")}`)?.size ?? 0).toBe(0);
    expect(world.warnings).toHaveLength(1);
    expect(full()[0]).toMatch(
      /^the disk is full .*: publishing may be refused until there is room; reading and acknowledging go on/,
    );

    files.limitSpace(Number.POSITIVE_INFINITY);
    world.advance(8_000);
    publisher.send(pub(PAYLOAD));
    expect(offsetOf(publisher.expectTags(Tag.PubAck)[0])).toBe(8);
    expect(full()).toHaveLength(1);
    world.kill();
    const third = await World.start({ files: files.imageAfterPowerCut({ style: "kept" }), options: OPTIONS });
    expect(consume(subscribe(third, "fresh"), 1)).toEqual([3]);
    expect(consume(subscribe(third, "old"), 1)).toEqual([4]);
  });

  it("an empty directory on a full disk starts as well, and takes its first record once there is room", async () => {
    const files = new SimulatedFileSystem();
    files.makeDirectory("/data");
    files.limitSpace(0);
    const world = await World.start({ files, options: OPTIONS });
    const peer = world.client();
    peer.send(pub("a"), flow(1));
    const frames = peer.expectTags(Tag.Err, Tag.FlowEnd);
    expect(textOf(frames[0])).toContain("at capacity");
    files.limitSpace(Number.POSITIVE_INFINITY);
    world.advance(2_000);
    peer.send(pub("b"));
    expect(offsetOf(peer.expectTags(Tag.PubAck)[0])).toBe(0);
    await world.stop();
  });

  it("a stop while the disk is still full says whose acks are forgotten", async () => {
    const first = await World.start({ options: OPTIONS });
    publish(first, 8);
    consume(subscribe(first, "old"), 2);
    await first.stop();
    const { files } = first;
    expect(first.warnings).toEqual([]);
    files.limitSpace(0);
    const world = await World.start({ files, options: OPTIONS });
    expect(consume(subscribe(world, "fresh"), 3)).toEqual([0, 1, 2]);
    await world.stop();
    expect(world.warnings.at(-1)).toMatch(/^the position of 1 group\(s\) could not be written: .* delivered again/);
    files.limitSpace(Number.POSITIVE_INFINITY);
    const third = await World.start({ files, options: OPTIONS });
    expect(consume(subscribe(third, "fresh"), 3)).toEqual([0, 1, 2]);
    await third.stop();
    expect(third.warnings).toEqual([]);
  });

  it("any other error of the write probe refuses", async () => {
    const files = new SimulatedFileSystem();
    files.makeDirectory("/data");
    files.fail({ operation: "write", path: /data/, code: "EROFS" });
    await expect(World.start({ files, options: OPTIONS })).rejects.toThrow("is not writable");
  });
});

describe("a damaged checkpoint (README ruling 13)", () => {
  it("of zeros or of noise is told of once, and what was settled is delivered again", async () => {
    for (const fill of [0, 0x5a]) {
      const world = await World.start({ options: OPTIONS });
      publish(world, 4);
      consume(subscribe(world, "g"), 2);
      await world.stop();
      const path = `/data/${groupCheckpointName("cursor", "g")}`;
      const length = world.files.stat(path)?.size as number;
      const file = world.files.open(path, "write");
      file.write(new Uint8Array(length).fill(fill), 0, length, 0);
      file.close();
      const again = await World.start({ files: world.files, options: OPTIONS });
      expect(again.warnings).toEqual([`checkpoint ${path} is damaged: what was settled is delivered again`]);
      expect(consume(subscribe(again, "g"), 1)).toEqual([0]);
      await again.stop();
      const third = await World.start({ files: world.files, options: OPTIONS });
      expect(third.warnings).toEqual([]);
      expect(consume(subscribe(third, "g"), 1)).toEqual([1]);
    }
  });

  it("a file that is named as a segment and cannot be one is told of, and the log goes on without it", async () => {
    const first = await World.start();
    await first.stop();
    const path = "/data/seg-ffffffffffffffff.log";
    first.files.open(path, "create").close();
    const world = await World.start({ files: first.files });
    expect(world.warnings).toEqual([`${path} is named as a segment and is none; it is left alone`]);
    const peer = world.client();
    peer.send(...numbersTo(3).map((n) => pub(`${n}`)));
    expect(peer.received().map(offsetOf)).toEqual([0, 1, 2]);
  });
});
