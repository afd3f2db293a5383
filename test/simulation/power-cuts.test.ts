import { describe, expect, it } from "vitest";
import { loadCodec } from "../../src/runtime/native/codec.ts";
import { type RunResult, runSeed } from "./run.ts";

const SEEDS = Number(process.env.IRONBUS_SIMULATION_SEEDS ?? 384);
const FIRST_SEED = Number(process.env.IRONBUS_SIMULATION_FIRST_SEED ?? 1);

const { codec } = loadCodec();

describe("the storage engine on a disk whose power fails", () => {
  it(
    `storage.md 26.31: keeps I1 to I8 through cuts, kills, faults and restarts, over ${SEEDS} seeds from ${FIRST_SEED}`,
    async () => {
      const levels = new Map<string, number>();
      const events = new Map<string, number>();
      let acknowledged = 0;
      let cuts = 0;
      let lost = 0;
      for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
        const result = await runSeed(seed, { codec });
        acknowledged += result.acknowledged;
        cuts += result.cuts;
        lost += result.recordsLostByPowerCut;
        count(levels, result.setup.durability.level);
        for (const event of eventsOf(result)) count(events, event);
      }
      // A run that never got to what it is about would pass as well.
      expect(acknowledged).toBeGreaterThan(SEEDS * 40);
      expect(cuts).toBeGreaterThan(SEEDS * 2);
      expect(lost).toBeGreaterThan(SEEDS * 2);
      if (SEEDS < 384) return;
      expect([...levels.keys()].sort()).toEqual(["async", "interval", "none", "sync"]);
      for (const event of ["opened", "kill", "stop", "removed", "rejected", "froze", "failed", "cut in recovery"]) {
        expect(events.get(event) ?? 0, event).toBeGreaterThan(10);
      }
    },
    SEEDS * 10_000,
  );

  it("gives the same run for the same seed, operation by operation", async () => {
    const journals = new Set<string>();
    for (let seed = FIRST_SEED; seed < FIRST_SEED + 12; seed++) {
      const first = await runSeed(seed, { codec });
      const second = await runSeed(seed, { codec });
      expect(second.journal).toEqual(first.journal);
      journals.add(first.journal.join("\n"));
    }
    expect(journals.size).toBe(12);
  });
});

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

/** The kinds of events in a journal, one for each time it happened. */
function* eventsOf({ journal }: RunResult): Generator<string> {
  let opened = false;
  for (const line of journal) {
    const [word] = line.split(" ", 1);
    if (word === "fate") opened = false;
    if (word === "opened") opened = true;
    if (word === "cut" && !opened) yield "cut in recovery";
    yield word;
  }
}
