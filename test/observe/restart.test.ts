import { describe, expect, it } from "vitest";
import { renderMetrics } from "../../src/observe/metrics.ts";
import { Tag } from "../../src/wire/tags.ts";
import { ackOf, flow, pub, World } from "../broker/world.ts";
import { frame } from "../log/fixtures.ts";

const SEGMENT = "/data/seg-0000000000000000.log";

function scrape(world: World): (series: string) => number {
  const source = { ramCeilingBytes: 0, residentBytes: 1, healthShed: 0, version: "1" };
  const lines = renderMetrics({ ...source, broker: world.broker.observed }).split("\n");
  return (series) => Number(lines.find((line) => line.startsWith(`ironbus_${series} `))?.split(" ")[1]);
}

/** A broker with some records published, one of them settled. */
async function worked(options: Parameters<typeof World.start>[0] = {}): Promise<World> {
  const world = await World.start(options);
  const peer = world.client();
  for (const payload of ["a".repeat(1000), "b".repeat(1000), "c".repeat(1000), "d".repeat(1000), "e"]) {
    peer.send(pub(payload));
    peer.expectTags(Tag.PubAck);
  }
  peer.send(flow(1));
  const deliver = peer.received().find(({ tag }) => tag === Tag.Deliver);
  if (deliver === undefined) throw new Error("nothing was delivered");
  peer.send(ackOf(deliver));
  peer.received();
  return world;
}

describe("counters over restarts", () => {
  it("observability.md 13.30: what is saved goes on, what belongs to a process begins anew", async () => {
    const first = await worked();
    await first.stop();
    const world = await World.start({ killed: first });
    const of = scrape(world);
    expect([of("produced_total"), of("acks_total"), of("delivered_total")]).toEqual([5, 1, 1]);
    expect(of("produced_bytes_total")).toBe(4001);
    expect([of("physical_bytes_written"), of("logical_bytes_written"), of("fsync_seconds_count")]).toEqual([0, 0, 0]);
    expect(of('recovery_runs_total{outcome="clean"}')).toBe(2);
    expect(of("durable_record_bytes")).toBe(4001 + 5 * 44);
    const peer = world.client();
    peer.send(pub("f"));
    peer.received();
    expect(scrape(world)("produced_total")).toBe(6);
  });

  it("a crash takes what was counted in the last seconds, not more", async () => {
    const first = await worked();
    first.advance(6_000);
    const peer = first.client();
    peer.send(pub("f"));
    peer.received();
    first.kill();
    const of = scrape(await World.start({ killed: first }));
    expect([of("produced_total"), of("acks_total"), of("flushed_offset")]).toEqual([5, 1, 6]);
  });

  it("observability.md 13.31: a torn end", async () => {
    const first = await worked();
    await first.stop();
    const size = 64 + 4001 + 5 * 44;
    const file = first.files.open(SEGMENT, "write");
    const torn = frame({ sequence: 5n, payload: new Uint8Array(100).fill(1) });
    file.write(torn, 0, 90, size);
    file.truncate(size + 90);
    file.close();
    const of = scrape(await World.start({ killed: first }));
    expect(of("recovery_truncated_bytes")).toBe(90);
    expect(of("recovery_data_loss_bytes")).toBe(0);
    expect(of('recovery_loss_bytes{reason="torn_tail"}')).toBe(of("recovery_truncated_bytes"));
    expect(of("torn_tail_repairs_total")).toBe(1);
    expect(of('recovery_runs_total{outcome="torn_tail_truncated"}')).toBe(1);
    expect(of('recovery_runs_total{outcome="clean"}')).toBe(1);
    expect(of("quarantine_bytes")).toBe(0);
  });

  it("observability.md 13.32: a flipped byte in a sealed segment", async () => {
    const options = { maxSegmentBytes: 4096, fullScan: true };
    let world = await worked({ options });
    await world.stop();
    // The body of the first record.
    world.files.flipBit(SEGMENT, 64 + 40, 3);
    world = await World.start({ killed: world, options });
    const of = scrape(world);
    expect(of('recovery_loss_bytes{reason="corrupt_record_body"}')).toBe(1044);
    expect(of("recovery_data_loss_bytes")).toBe(1044);
    expect(of('recovery_runs_total{outcome="quarantined"}')).toBe(1);
    expect(of('corruption_repairs_total{artifact="segment"}')).toBe(1);
    expect(of("records_skipped")).toBe(1);
    expect(of("quarantine_bytes")).toBe(1044);
    await world.stop();
    world = await World.start({ killed: world, options: { maxSegmentBytes: 4096 } });
    expect(scrape(world)("quarantine_bytes")).toBe(1044);
    expect(scrape(world)("records_skipped")).toBe(1);
  });

  it("damage that stays where it is counts as one repair, however often it is met", async () => {
    const options = { maxSegmentBytes: 4096, fullScan: true };
    let world = await worked({ options });
    const damaged = async (record: number | undefined): Promise<number[]> => {
      await world.stop();
      if (record !== undefined) world.files.flipBit(SEGMENT, 64 + record * 1044 + 40, 3);
      world = await World.start({ killed: world, options });
      const of = scrape(world);
      return [of('corruption_repairs_total{artifact="segment"}'), of('recovery_runs_total{outcome="quarantined"}')];
    };
    expect(await damaged(0)).toEqual([1, 1]);
    expect(await damaged(undefined)).toEqual([1, 2]);
    expect(await damaged(2)).toEqual([2, 3]);
    expect(await damaged(undefined)).toEqual([2, 4]);
    await world.stop();
  });

  it("README ruling 13: a damaged position counts as a repair", async () => {
    const first = await worked();
    await first.stop();
    const file = first.files.open("/data/cursor.ckpt", "write");
    file.write(new Uint8Array(156), 0, 156, 0);
    file.close();
    const world = await World.start({ killed: first });
    expect(scrape(world)('corruption_repairs_total{artifact="cursor"}')).toBe(1);
    expect(world.warnings.join()).toContain("cursor.ckpt is damaged");
  });
});
