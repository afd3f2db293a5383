import { readdirSync, rmSync, statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { BrokerError, type Client, connect } from "../../src/client/index.ts";
import { cleanUp, TestBroker } from "../e2e/harness.ts";
import { contentsOf } from "./audit.ts";
import { Ledger } from "./ledger.ts";
import { drain, GroupRecord } from "./load.ts";
import { fill, mountExt4, mountMemory, newImage, unmountAll, whyNoMounts } from "./mounts.ts";
import { payloadOf } from "./payloads.ts";

const obstacle = whyNoMounts();

afterEach(async () => {
  await cleanUp();
  unmountAll();
});

const MEBIBYTE = 1024 * 1024;
const SMALL_SEGMENTS = ["--max-segment-bytes", "131072"];

/** One writer on one connection, which goes on after refusals. */
class Publishing {
  readonly #client: Client;
  readonly #ledger: Ledger;
  #next = 0;
  acknowledged = 0;
  refused = 0;

  constructor(client: Client, ledger: Ledger) {
    this.#client = client;
    this.#ledger = ledger;
  }

  async batch(count: number): Promise<void> {
    const first = this.#next;
    this.#next += count;
    const payloads = Array.from({ length: count }, (_, at) => payloadOf(0, first + at));
    await this.#client.produceAll(payloads, {
      onAck: (at, offset) => {
        this.acknowledged++;
        this.#ledger.acknowledged(offset, 0, first + at);
      },
      onReject: (_, error) => {
        this.refused++;
        expect([error.code, error.retryable]).toEqual(["ERR_AT_CAPACITY", true]);
      },
    });
  }
}

describe.skipIf(obstacle !== undefined)(`a disk that fills up ${obstacle ?? ""}`, () => {
  it.for([
    { name: "ext4", mount: () => mountExt4(newImage(32 * MEBIBYTE)), mode: "buffered" },
    { name: "ext4, direct writes", mount: () => mountExt4(newImage(32 * MEBIBYTE)), mode: "direct" },
    { name: "tmpfs", mount: () => mountMemory("tmpfs", 16 * MEBIBYTE), mode: "buffered" },
  ])(
    "$name: refuses publishes, serves the rest, loses nothing, heals; also when it starts full (README ruling 11)",
    {
      timeout: 120_000,
    },
    async ({ mount, mode }) => {
      const path = mount();
      const flags = [...SMALL_SEGMENTS, "--io-mode", mode];
      const ledger = new Ledger();
      const first = await TestBroker.start(flags, join(path, "data"));
      const client = await connect(first.address);
      const publishing = new Publishing(client, ledger);
      await publishing.batch(500);
      const filling = fill(path);
      while (publishing.refused === 0) await publishing.batch(50);
      const ballast = await filling;
      // What a refused roll gave back is taken as well, and then there is not a byte left.
      while (publishing.refused < 200) await publishing.batch(50);
      expect(ledger.compare(await contentsOf(first.address, "while-full"))).toEqual([]);
      rmSync(ballast);
      const before = publishing.acknowledged;
      while (publishing.acknowledged < before + 1000) await publishing.batch(50);
      expect(client.connected).toBe(true);
      await client.close();

      await fill(path);
      await first.kill();
      await fill(path);
      expect(statfsSync(path).bavail).toBe(0);
      const full = await TestBroker.start(flags, first.dataDir);
      expect(ledger.compare(await contentsOf(full.address, "started-full"))).toEqual([]);
      const again = await connect(full.address);
      const more = new Publishing(again, new Ledger());
      while (more.refused === 0) await more.batch(50);
      const told = full.process.stderr.match(/^WARN: (?!config|--io-mode).*/gm);
      expect(told).toEqual([expect.stringContaining("the disk is full")]);
      rmSync(ballast);
      const taken = more.acknowledged;
      while (more.acknowledged === taken) await more.batch(1);
      await again.close();
      expect((await full.stop()).code).toBe(0);
      const last = await full.restart(flags);
      const contents = await contentsOf(last.address, "at-last");
      expect(ledger.compare({ ...contents, identities: contents.identities.slice(0, -more.acknowledged) })).toEqual([]);
      // What the group settled while nothing could be written was kept in memory, and written once there was room.
      const group = new GroupRecord("started-full");
      await drain(last.address, group);
      expect(Math.min(...group.settled)).toBe(contents.identities.length - more.acknowledged);
      expect((await last.stop()).code).toBe(0);
    },
  );
});

describe("bounds of the log", () => {
  /** A publish of a payload of 1000 bytes, uncompressed; true when it was taken. */
  async function publish(client: Client): Promise<boolean> {
    try {
      await client.produce(Buffer.alloc(1000, "x"));
      return true;
    } catch (error) {
      expect((error as BrokerError).code).toBe("ERR_AT_CAPACITY");
      expect(error).toBeInstanceOf(BrokerError);
      return false;
    }
  }

  async function publishes(broker: TestBroker, count: number): Promise<number> {
    await using client = await connect(broker.address);
    let taken = 0;
    for (let index = 0; index < count; index++) if (await publish(client)) taken++;
    return taken;
  }

  it("config.md 13: --max-total-bytes counts what is there already, once, after a stop and after a crash", async () => {
    const flags = ["--compression", "none", "--max-segment-bytes", "8192"];
    const frameBytes = 1000 + 44;
    const first = await TestBroker.start(flags);
    expect(await publishes(first, 20)).toBe(20);
    await first.stop();
    const capped = [...flags, "--max-total-bytes", String(25 * frameBytes)];
    const second = await first.restart(capped);
    expect(await publishes(second, 3)).toBe(3);
    await second.kill();
    const third = await second.restart(capped);
    expect(await publishes(third, 10)).toBe(2);
    await third.kill();
    const fourth = await third.restart([...capped, "--full-scan"]);
    expect(await publishes(fourth, 2)).toBe(0);
    expect((await fourth.stop()).code).toBe(0);
  });

  it("storage.md 20.2: --disk-full-policy drop-oldest makes room, stays below the cap, and tells who lags", async () => {
    const cap = 512 * 1024;
    const flags = ["--compression", "none", ...SMALL_SEGMENTS, "--max-total-bytes", String(cap)];
    const broker = await TestBroker.start([...flags, "--disk-full-policy", "drop-oldest"]);
    const client = await connect(broker.address);
    const ledger = new Ledger();
    const publishing = new Publishing(client, ledger);
    await publishing.batch(100);
    await client.subscribe("slow");
    await client.ackAll((await client.fetch({ max: 10 })).messages);
    while (publishing.acknowledged < 5000) await publishing.batch(100);
    expect(publishing.refused).toBe(0);
    const stored = readdirSync(broker.dataDir).filter((name) => name.startsWith("seg-"));
    const bytes = stored.reduce((sum, name) => sum + statSync(join(broker.dataDir, name)).size, 0);
    expect(bytes).toBeLessThan(cap + 131_072 + MEBIBYTE);
    const contents = await contentsOf(broker.address, "late");
    expect(contents.start).toBeGreaterThan(0);
    expect(ledger.compare(contents, contents.start)).toEqual([]);
    const { messages, advisories } = await client.fetch({ max: 5 });
    expect(advisories).toEqual([{ kind: "gap", from: 10, to: contents.start, bytesSkipped: 0, reason: 1 }]);
    expect(messages[0].offset).toBe(contents.start);
    expect((await client.fetch({ max: 5 })).advisories).toEqual([]);
    await client.close();
    expect((await broker.stop()).code).toBe(0);
    // The stop changes nothing of that, nor does a crash.
    const again = await TestBroker.start(flags, broker.dataDir);
    expect(ledger.compare(await contentsOf(again.address, "later"), contents.start)).toEqual([]);
    await again.kill();
  });
});
