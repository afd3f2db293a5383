import { cpSync, existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { cleanUp, TestBroker, temporaryDirectory } from "../e2e/harness.ts";
import { contentsOf } from "./audit.ts";
import { Ledger } from "./ledger.ts";
import { drain, GroupRecord, Load, Writers } from "./load.ts";

afterEach(cleanUp);

/** `scripts/crash.mjs` asks for more. */
const ROUNDS = Number(process.env.IRONBUS_CRASH_ROUNDS ?? 50);
const SEED = Number(process.env.IRONBUS_CRASH_SEED ?? 20_261);
/** A safety net against hanging. */
const ROUND_LIMIT_MS = 15_000;

interface Scenario {
  readonly name: string;
  readonly flags: readonly string[];
  /** Segments that all groups are done with are removed. */
  readonly retains?: boolean;
}

const SCENARIOS: readonly Scenario[] = [
  { name: "sync, buffered, lz4", flags: ["--max-segment-bytes", "65536"] },
  { name: "sync, direct", flags: ["--max-segment-bytes", "131072", "--io-mode", "direct"] },
  {
    name: "interval, uncompressed",
    flags: ["--max-segment-bytes", "40000", "--durability-level", "interval", "--flush-interval-ms", "50"].concat(
      "--compression",
      "none",
    ),
  },
  {
    name: "sync, uncompressed, retention by bytes",
    flags: ["--max-segment-bytes", "65536", "--compression", "none", "--max-retained-bytes", "262144"],
    retains: true,
  },
  {
    name: "none, direct, retention by count",
    flags: ["--max-segment-bytes", "65536", "--io-mode", "direct", "--max-messages", "500"].concat(
      "--durability-level",
      "none",
      "--async-loss-ack",
    ),
    retains: true,
  },
];

const pause = (delayMs: number) => new Promise((resolve) => setTimeout(resolve, delayMs));

function newestSegment({ dataDir }: TestBroker): number {
  return Math.max(...readdirSync(dataDir).map((name) => Number.parseInt(/^seg-(.*)\.log$/.exec(name)?.[1] ?? "0", 16)));
}

/** The groups become known to the broker's disk: one that never settled anything holds no retention over a crash. */
async function introduce(broker: TestBroker, groups: readonly GroupRecord[], ledger: Ledger, writers: Writers) {
  const load = new Load(broker.address, new SeededRandom(0), ledger, writers);
  load.publisher();
  while (ledger.size === 0) await pause(5);
  await load.end();
  for (const group of groups) {
    await drain(broker.address, group);
    while (
      !readdirSync(broker.dataDir).some((name) => name === `cursor-${Buffer.from(group.name).toString("hex")}.ckpt`)
    ) {
      await pause(5);
    }
  }
}

/** Checks what a start makes of a copy of the directory: where a group that takes everything would hold retention. */
async function auditCopy(dataDir: string, ledger: Ledger): Promise<void> {
  const copy = join(temporaryDirectory(), "data");
  cpSync(dataDir, copy, { recursive: true });
  const broker = await TestBroker.start([], copy);
  const contents = await contentsOf(broker.address, "audit");
  expect(ledger.compare(contents, contents.start)).toEqual([]);
  await broker.kill();
  rmSync(copy, { recursive: true });
}

describe(`kill -9 under load, seed ${SEED}`, () => {
  it.for(SCENARIOS.map((scenario, at) => ({ ...scenario, at })))(
    "$name: nothing acknowledged is missing, twice or changed, and no group skips",
    { timeout: Math.max(4, ROUNDS / SCENARIOS.length) * ROUND_LIMIT_MS },
    async ({ flags, retains = false, at }) => {
      const rounds = Math.floor((ROUNDS + at) / SCENARIOS.length);
      const random = new SeededRandom(SEED + at);
      const ledger = new Ledger();
      const writers = new Writers();
      const groups = [new GroupRecord("workers"), new GroupRecord("auditors")];
      let broker = await TestBroker.start(flags);
      const first = join(broker.dataDir, "seg-0000000000000000.log");
      await introduce(broker, groups, ledger, writers);
      for (let round = 0; round < rounds; round++) {
        const before = ledger.size;
        const load = new Load(broker.address, random.fork(), ledger, writers);
        for (let each = 0; each < 3; each++) load.publisher();
        for (const group of groups) load.consumer(group);
        load.consumer(groups[0]);
        load.singlePublishes();
        if (round % 3 === 0) load.lines();
        // Never before there is something to lose.
        while (ledger.size <= before) await pause(1);
        await pause(random.below(350));
        // However short this run is: segments were rolled, and there are more than retention keeps.
        while (round === rounds - 1 && newestSegment(broker) < (retains ? 6 : 2)) await pause(20);
        await broker.kill();
        await load.end();
        if (retains) await auditCopy(broker.dataDir, ledger);
        broker = await broker.restart(flags);
        if (!retains) expect(ledger.compare(await contentsOf(broker.address, `audit-${round}`))).toEqual([]);
      }
      for (const group of groups) {
        await drain(broker.address, group);
        expect(group.advisories).toEqual([]);
      }
      // Now that all groups are done with it, retention takes it; else nothing does.
      while (retains && existsSync(first)) await pause(20);
      expect(existsSync(first)).toBe(!retains);
      const contents = await contentsOf(broker.address, "final");
      const head = contents.start + contents.identities.length;
      expect(ledger.compare(contents, retains ? contents.start : 0)).toEqual([]);
      expect(ledger.size).toBeGreaterThan(rounds);
      // A record that a position passed over without its acknowledgement would never have come again.
      for (const group of groups) expect(group.unsettledBelow(head)).toEqual([]);
      expect((await broker.stop()).code).toBe(0);
    },
  );
});
