import { readdirSync, readFileSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { connect } from "../../src/client/index.ts";
import { cleanUp, TestBroker } from "../e2e/harness.ts";
import { contentsOf } from "./audit.ts";
import { Ledger } from "./ledger.ts";
import { mountExt4, mountMemory, newImage, unmountAll, whyNoMounts } from "./mounts.ts";
import { payloadOf } from "./payloads.ts";

const obstacle = whyNoMounts();

afterEach(async () => {
  await cleanUp();
  unmountAll();
});

const MEBIBYTE = 1024 * 1024;
const RECORDS = 2000;
const TIMESTAMP_MS = 1_700_000_000_000;
const HEADER_BYTES = 64;

/** Publishes the same records as ever, the second half after a crash, and gives what the broker said at the start. */
async function publish(dataDir: string, mode: string): Promise<string> {
  const flags = ["--io-mode", mode, "--max-segment-bytes", "131072"];
  const ledger = new Ledger();
  let broker = await TestBroker.start(flags, dataDir);
  for (const first of [0, RECORDS / 2]) {
    const client = await connect(broker.address);
    const records = Array.from({ length: RECORDS / 2 }, (_, at) => ({
      payload: payloadOf(0, first + at),
      timestampMs: TIMESTAMP_MS,
    }));
    await client.produceAll(records, { onAck: (at, offset) => ledger.acknowledged(offset, 0, first + at) });
    await client.close();
    if (first > 0) break;
    await broker.kill();
    broker = await broker.restart(flags);
  }
  expect(ledger.size).toBe(RECORDS);
  expect(ledger.compare(await contentsOf(broker.address, "audit"))).toEqual([]);
  expect((await broker.stop()).code).toBe(0);
  return broker.process.stderr;
}

/** Sealed segments without their headers, which tell when they were made. */
function sealed(dataDir: string): Map<string, Buffer> {
  const names = readdirSync(dataDir).filter((name) => name.startsWith("seg-"));
  names.sort().pop();
  return new Map(names.map((name) => [name, readFileSync(join(dataDir, name)).subarray(HEADER_BYTES)]));
}

const warningsOf = (stderr: string) => stderr.match(/^WARN: (?!config).*/gm) ?? [];

describe.skipIf(obstacle !== undefined)(`I/O modes on real file systems ${obstacle ?? ""}`, () => {
  it("storage.md 16, 26.14: on ext4 direct writes work, are warned of, and make the files that buffered ones make", async () => {
    const path = mountExt4(newImage(32 * MEBIBYTE));
    expect(warningsOf(await publish(join(path, "buffered"), "buffered"))).toEqual([]);
    const warnings = warningsOf(await publish(join(path, "direct"), "direct"));
    expect(warnings).toEqual([expect.stringContaining("not confirmed to be network-durable storage; writing direct")]);
    const [buffered, direct] = [sealed(join(path, "buffered")), sealed(join(path, "direct"))];
    expect(buffered.size).toBeGreaterThan(4);
    expect([...direct.keys()]).toEqual([...buffered.keys()]);
    for (const [name, bytes] of buffered) expect(Buffer.compare(bytes, direct.get(name) as Buffer), name).toBe(0);
  });

  it("storage.md 16: a file system without direct writes (ramfs) is written buffered, with the table's warning", async () => {
    const dataDir = join(mountMemory("ramfs", 0), "data");
    const warnings = warningsOf(await publish(dataDir, "direct"));
    expect(warnings).toEqual([`WARN: --io-mode direct: ${dataDir} takes no direct writes (EINVAL); writing buffered`]);
    // It does not know how much is free either: a start is not refused for that.
    expect(statfsSync(dataDir).blocks).toBe(0);
  });

  it("storage.md 16: tmpfs, which takes direct writes since Linux 6.6, works either way", async () => {
    const warnings = warningsOf(await publish(join(mountMemory("tmpfs", 32 * MEBIBYTE), "data"), "direct"));
    expect(warnings).toEqual([expect.stringMatching(/; writing (direct all the same|buffered)$/)]);
  });
});
