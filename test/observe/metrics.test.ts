import { describe, expect, it } from "vitest";
import { renderMetrics } from "../../src/observe/metrics.ts";
import { Tag } from "../../src/wire/tags.ts";
import { ackOf, flow, frame, numbersTo, pub, World, type WorldOptions } from "../broker/world.ts";

/** The frozen families of observability.md 2.2 that have a source today, in their order. */
const FAMILIES = `
ironbus_committed_offset gauge
ironbus_flushed_offset gauge
ironbus_consumer_lag gauge
ironbus_in_flight gauge
ironbus_writer_healthy gauge
ironbus_recovery_truncated_bytes gauge
ironbus_quarantine_bytes gauge
ironbus_produced_total counter
ironbus_produced_bytes_total counter
ironbus_produce_rejected_total counter
ironbus_delivered_total counter
ironbus_redelivered_total counter
ironbus_acks_total counter
ironbus_segments_reaped_total counter
ironbus_segments_force_reaped_total counter
ironbus_truncations_total counter
ironbus_truncated_records_total counter
ironbus_counter_checkpoint_repair_total counter
ironbus_records_skipped gauge
ironbus_bytes_skipped gauge
ironbus_last_skip_offset gauge
ironbus_recovery_loss_bytes gauge
ironbus_recovery_loss_records gauge
ironbus_recovery_data_loss_bytes gauge
ironbus_recovery_runs_total counter
ironbus_torn_tail_repairs_total counter
ironbus_corruption_repairs_total counter
ironbus_fsync_seconds histogram
ironbus_fsync_duration_seconds histogram
ironbus_logical_bytes_written counter
ironbus_physical_bytes_written counter
ironbus_write_amp_ratio gauge
ironbus_ram_headroom_bytes gauge
ironbus_ram_headroom_ratio gauge
ironbus_rss_over_cap_ratio gauge
ironbus_disk_free_bytes gauge
ironbus_durable_record_bytes gauge
ironbus_segment_count gauge
ironbus_produce_saturated gauge
ironbus_daily_physical_write_budget_bytes gauge
ironbus_physical_bytes_written_today gauge
ironbus_daily_write_budget_over gauge
ironbus_daily_write_budget_sheds_total counter
ironbus_durability_level_info gauge
ironbus_durability_power_loss_unsafe gauge
ironbus_durability_unsynced_bytes gauge
ironbus_fire_and_forget_shed_total counter
ironbus_connections_total counter
ironbus_connections_open gauge
ironbus_health_shed_total counter
ironbus_group_committed_offset gauge
ironbus_group_consumer_lag gauge
ironbus_group_in_flight gauge
ironbus_stream_produced_total counter
ironbus_group_consumed_total counter
ironbus_throughput_labels_dropped_total counter
ironbus_produce_ack_level_total counter
ironbus_build_info gauge
ironbus_start_time_seconds gauge
ironbus_uptime_seconds gauge`
  .trim()
  .split("\n");

const LABELS = /^(consumer|group|stream|level|side|state|artifact|outcome|reason|le|version)$/;

interface Scrape {
  readonly text: string;
  /** Name and type, in order. */
  readonly families: string[];
  /** Series as written, to their values. */
  readonly samples: Map<string, string>;
}

/** A parser as strict as the format: HELP, TYPE, then that family's samples, no family twice. */
function parse(text: string): Scrape {
  expect(text.endsWith("\n")).toBe(true);
  const families: string[] = [];
  const samples = new Map<string, string>();
  const lines = text.slice(0, -1).split("\n");
  let family = "";
  let type = "";
  for (let at = 0; at < lines.length; at++) {
    const help = /^# HELP ([a-z_]+) .+$/.exec(lines[at]);
    if (help !== null) {
      const typed = /^# TYPE ([a-z_]+) (counter|gauge|histogram)$/.exec(lines[++at]);
      if (typed === null) throw new Error(`no TYPE after ${lines[at - 1]}`);
      [, family, type] = typed;
      expect(family).toBe(help[1]);
      families.push(`${family} ${type}`);
      continue;
    }
    const sample = /^([a-z_]+)(?:\{([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"\})? (-?[0-9.]+)$/.exec(lines[at]);
    if (sample === null) throw new Error(`not a sample: ${lines[at]}`);
    const [, name, label, labelValue, value] = sample;
    const suffix = type === "histogram" ? name.replace(/_(bucket|sum|count)$/, "") : name;
    expect(suffix, lines[at]).toBe(family);
    if (label !== undefined) expect(label).toMatch(LABELS);
    const series = label === undefined ? name : `${name}{${label}="${labelValue}"}`;
    expect(samples.has(series), series).toBe(false);
    samples.set(series, value);
  }
  return { text, families, samples };
}

function scrape(world: World, extra: { ramCeilingBytes?: number; residentBytes?: number; healthShed?: number } = {}) {
  const source = { ramCeilingBytes: 0, residentBytes: 1, healthShed: 0, version: "1.2.3", ...extra };
  const { samples } = parse(renderMetrics({ ...source, broker: world.broker.observed }));
  return (series: string): string | undefined => samples.get(`ironbus_${series}`);
}

async function startedWith(options: WorldOptions["options"]): Promise<World> {
  return await World.start({ options });
}

const subscribe = (group: string) => frame(Tag.Sub, new TextEncoder().encode(group));

describe("format", () => {
  it("observability.md 13.14, 13.16, 13.17: known families, each once, in their order, strictly parsed", async () => {
    const world = await World.start();
    const source = { ramCeilingBytes: 0, residentBytes: 1, healthShed: 0, version: "1.2.3" };
    const { families } = parse(renderMetrics({ ...source, broker: world.broker.observed }));
    expect(families).toEqual(FAMILIES);
  });

  it("observability.md 13.18: a fresh broker's values", async () => {
    const of = scrape(await World.start());
    expect(of("write_amp_ratio")).toBe("0.000");
    expect(of("ram_headroom_bytes")).toBe("-1");
    expect(of("ram_headroom_ratio")).toBe("-1");
    expect(of("rss_over_cap_ratio")).toBe("-1");
    expect(of('durability_level_info{level="sync"}')).toBe("1");
    expect(of('durability_level_info{level="none"}')).toBeUndefined();
    expect(of("durability_power_loss_unsafe")).toBe("0");
    expect(of("writer_healthy")).toBe("1");
    expect(of('recovery_runs_total{outcome="clean"}')).toBe("1");
    expect(of('build_info{version="1.2.3"}')).toBe("1");
    expect(of('group_committed_offset{group=""}')).toBe("0");
  });

  it("observability.md 13.21: label values are escaped", async () => {
    const world = await World.start();
    const peer = world.client();
    peer.send(subscribe('a"b\\c'), flow(1));
    peer.received();
    expect(scrape(world)('group_committed_offset{group="a\\"b\\\\c"}')).toBe("0");
  });

  it("config.md 11.4: headroom in thousandths of the ceiling", async () => {
    const world = await World.start();
    const of = scrape(world, { ramCeilingBytes: 1000, residentBytes: 400, healthShed: 3 });
    expect([of("ram_headroom_bytes"), of("ram_headroom_ratio"), of("rss_over_cap_ratio")]).toEqual([
      "600",
      "0.600",
      "0.400",
    ]);
    const over = scrape(world, { ramCeilingBytes: 1000, residentBytes: 4000 });
    expect([over("ram_headroom_bytes"), over("ram_headroom_ratio"), over("rss_over_cap_ratio")]).toEqual([
      "0",
      "0.000",
      "1.000",
    ]);
    expect(of('health_shed_total{reason="at_cap"}')).toBe("3");
  });
});

describe("what moves", () => {
  it("observability.md 13.19: bytes as published, as stored and as written", async () => {
    const world = await World.start();
    const peer = world.client();
    peer.send(...numbersTo(4).map(() => pub("x".repeat(20))));
    peer.received();
    const of = scrape(world);
    expect(of("produced_total")).toBe("4");
    expect(of("produced_bytes_total")).toBe("80");
    expect(of("logical_bytes_written")).toBe("80");
    // A header of 64 bytes, and 44 of frame for each record.
    expect(of("physical_bytes_written")).toBe(String(64 + 4 * 64));
    expect(of("write_amp_ratio")).toBe("4.000");
    expect(of("durable_record_bytes")).toBe(String(4 * 64));
    expect(of("segment_count")).toBe("1");
    expect(of("flushed_offset")).toBe("4");
    expect(of('stream_produced_total{stream=""}')).toBe("4");
    expect(Number(of("fsync_seconds_count"))).toBeGreaterThan(0);
  });

  it("the levels of acknowledgement that publishes ask for", async () => {
    const world = await World.start();
    const peer = world.client();
    peer.send(pub("a", 0x40), pub("b"), pub("c", 0x08));
    peer.received();
    const of = scrape(world);
    expect(of('produce_ack_level_total{level="c0"}')).toBe("2");
    expect(of('produce_ack_level_total{level="c1"}')).toBe("1");
    expect(of('produce_ack_level_total{level="c2"}')).toBe("0");
  });

  it("observability.md 13.20: positions of groups", async () => {
    const world = await World.start();
    const peers = ["orders", "billing"].map((group) => {
      const peer = world.client();
      peer.send(subscribe(group));
      peer.received();
      return peer;
    });
    peers[0].send(pub("a"), pub("b"), pub("c"));
    peers[0].received();
    for (const peer of peers) peer.send(flow(1));
    const delivered = peers[0].received().filter(({ tag }) => tag === Tag.Deliver);
    peers[1].received();
    peers[0].send(ackOf(delivered[0]));
    peers[0].received();
    const of = scrape(world);
    const group = (name: string) =>
      ["group_committed_offset", "group_consumer_lag", "group_in_flight", "group_consumed_total"].map((family) =>
        of(`${family}{group="${name}"}`),
      );
    expect(group("orders")).toEqual(["1", "2", "0", "1"]);
    expect(group("billing")).toEqual(["0", "3", "1", "0"]);
    expect(group("")).toEqual(["0", "3", "0", "0"]);
    expect([of("delivered_total"), of("redelivered_total"), of("acks_total")]).toEqual(["2", "0", "1"]);
    expect([of("committed_offset"), of("consumer_lag"), of("in_flight")]).toEqual(["0", "3", "0"]);
  });

  it("redeliveries and connections", async () => {
    const world = await World.start({ options: { maxConnections: 1, visibilityTimeoutMs: 1000, backoffMs: [0] } });
    const peer = world.client();
    peer.send(pub("a"), flow(1));
    peer.received();
    world.advance(1_500);
    peer.send(flow(1));
    peer.received();
    world.connect();
    world.settle();
    let of = scrape(world);
    expect([of("delivered_total"), of("redelivered_total"), of("in_flight")]).toEqual(["2", "1", "1"]);
    const states = (value: typeof of) =>
      ["accepted", "closed", "refused", "authenticated"].map((state) => value(`connections_total{state="${state}"}`));
    expect(states(of)).toEqual(["1", "0", "1", "0"]);
    expect(of("connections_open")).toBe("1");
    peer.endpoint.reset();
    world.settle();
    of = scrape(world);
    expect(states(of)).toEqual(["1", "1", "1", "0"]);
    expect(of("connections_open")).toBe("0");
  });

  it("observability.md 13.23: a relaxed level shows what a power cut would take", async () => {
    const world = await startedWith({ durability: { level: "async", flushIntervalMs: 0, flushMaxBytes: 0 } });
    const peer = world.client();
    peer.send(pub("a"));
    peer.received();
    const of = scrape(world);
    expect(of('durability_level_info{level="async"}')).toBe("1");
    expect(of("durability_power_loss_unsafe")).toBe("1");
    expect(Number(of("durability_unsynced_bytes"))).toBeGreaterThan(0);
  });

  it("observability.md 13.24: a publish that is refused at the cap", async () => {
    const world = await startedWith({ maxTotalBytes: 100 });
    const peer = world.client();
    peer.send(pub("x".repeat(100)));
    peer.expectTags(Tag.PubAck);
    peer.send(pub("y"), pub("z", 0x40));
    peer.received();
    const of = scrape(world);
    expect(of("produce_rejected_total")).toBe("1");
    expect(of("fire_and_forget_shed_total")).toBe("1");
    expect(of("produce_saturated")).toBe("1");
    expect(of("produced_total")).toBe("1");
  });

  it("observability.md 13.25: the daily budget refuses and removes nothing", async () => {
    const options = { dailyWriteBudgetBytes: 300, maxSegmentBytes: 4096, diskFullPolicy: "drop-oldest" as const };
    const world = await startedWith(options);
    const peer = world.client();
    peer.send(pub("x".repeat(300)));
    peer.expectTags(Tag.PubAck);
    peer.send(pub("y"));
    peer.received();
    const of = scrape(world);
    expect(of("daily_physical_write_budget_bytes")).toBe("300");
    expect(Number(of("physical_bytes_written_today"))).toBeGreaterThan(300);
    expect(of("daily_write_budget_over")).toBe("1");
    expect(of("daily_write_budget_sheds_total")).toBe("1");
    expect(of("produce_rejected_total")).toBe("1");
    expect(of("segments_force_reaped_total")).toBe("0");
  });

  it("observability.md 13.28: a consumer that a removal overtook is counted once", async () => {
    const world = await startedWith({ maxTotalBytes: 8192, maxSegmentBytes: 4096, diskFullPolicy: "drop-oldest" });
    const peer = world.client();
    for (let index = 0; index < 40; index++) {
      peer.send(pub("x".repeat(956)));
      peer.expectTags(Tag.PubAck);
    }
    peer.send(flow(1));
    peer.received();
    const earliest = world.broker.observed.stream.log.earliestOffset;
    expect(earliest).toBeGreaterThan(0);
    const of = scrape(world);
    expect(Number(of("segments_force_reaped_total"))).toBeGreaterThan(0);
    expect([of("truncations_total"), of("truncated_records_total"), of("last_skip_offset")]).toEqual([
      "1",
      String(earliest),
      String(earliest),
    ]);
    peer.send(flow(1));
    peer.received();
    expect(scrape(world)("truncations_total")).toBe("1");
  });

  it("observability.md 13.9: a frozen writer", async () => {
    const world = await World.start();
    const peer = world.client();
    world.files.fail({ operation: "sync", code: "EIO" });
    peer.send(pub("a"));
    peer.received();
    expect(world.frozen).toBeDefined();
    const of = scrape(world);
    expect(of("writer_healthy")).toBe("0");
    expect(of("produced_total")).toBe("0");
  });

  it("observability.md 13.36: uptime does not follow the wall clock", async () => {
    const world = await World.start();
    world.advance(10_000);
    world.clock.stepWall(-1_000_000_000);
    const of = scrape(world);
    expect(of("uptime_seconds")).toBe("10");
    expect(Number(of("start_time_seconds"))).toBe(Date.UTC(2024, 5, 1) / 1000);
  });

  it("more groups than series: the rest is one sum", async () => {
    const world = await startedWith({ maxGroups: 0 });
    const peer = world.client();
    for (let index = 0; index < 1030; index++) peer.send(subscribe(`g${index}`), flow(1));
    peer.received();
    const { text } = parse(
      renderMetrics({
        broker: world.broker.observed,
        ramCeilingBytes: 0,
        residentBytes: 1,
        healthShed: 0,
        version: "1",
      }),
    );
    for (const family of ["group_committed_offset", "group_consumed_total"]) {
      const lines = text.split("\n").filter((line) => line.startsWith(`ironbus_${family}{`));
      expect(lines.length).toBeLessThanOrEqual(1025);
    }
    expect(scrape(world)("throughput_labels_dropped_total")).toBe("7");
    expect(scrape(world)('group_consumed_total{group="__overflow__"}')).toBe("0");
  });
});
