import type { Durability } from "../../src/log/durability.ts";
import type { SeededRandom } from "../../src/runtime/random-seeded.ts";

/** What a seed makes of a run. */
export interface Setup {
  readonly seed: number;
  readonly durability: Durability;
  readonly maxSegmentBytes: number;
  readonly maxPendingBytes: number;
  readonly checkpointInterval: number;
  readonly compressed: boolean;
  readonly directWrites: boolean;
  /** Byte cap of the log, 0 = none. */
  readonly maxTotalBytes: number;
  /** Processes that work on the disk, one after the other. */
  readonly lives: number;
}

export const ROOT = "/data";

export function drawSetup(seed: number, random: SeededRandom): Setup {
  const pick = <T>(...choices: readonly T[]): T => choices[random.below(choices.length)];
  return {
    seed,
    durability: {
      level: pick("sync", "sync", "sync", "interval", "async", "none"),
      flushIntervalMs: pick(0, 200, 1000),
      flushMaxBytes: pick(500, 4000, 20_000),
    },
    maxSegmentBytes: pick(400, 1500, 1500, 6000, 6000, 20_000),
    maxPendingBytes: pick(2000, 20_000, 200_000),
    checkpointInterval: pick(1, 4, 16),
    compressed: random.chance(0.5),
    directWrites: random.chance(0.4),
    maxTotalBytes: pick(0, 0, 0, 20_000),
    lives: 4 + random.below(5),
  };
}

/** How a process is going to end, and what goes wrong on its disk before. */
export interface Fate {
  readonly end: "cut" | "kill" | "stop";
  /** Operations of the disk after which the cut or kill comes; if there are fewer, it comes after the last step. */
  readonly endAfter: number;
  /** With `stop`: the power goes off right afterwards. */
  readonly cutAtRest: boolean;
  readonly steps: number;
  readonly fault: Fault | undefined;
}

export type Fault =
  | { readonly kind: "fail"; readonly operation: "sync" | "sync-directory" | "write" | "open" | "read" | "remove" }
  | { readonly kind: "short-writes" }
  | { readonly kind: "full-disk" };

const FAULTS: readonly Fault[] = [
  { kind: "fail", operation: "sync" },
  { kind: "fail", operation: "sync" },
  { kind: "fail", operation: "sync-directory" },
  { kind: "fail", operation: "write" },
  { kind: "fail", operation: "open" },
  { kind: "fail", operation: "read" },
  { kind: "short-writes" },
  { kind: "short-writes" },
  { kind: "full-disk" },
];

export function drawFate(random: SeededRandom): Fate {
  const choice = random.below(10);
  // Often within the start of the process, so that recovery itself is interrupted, and often soon after it.
  const ends = [1 + random.below(12), 8 + random.below(30), 8 + random.below(30), 10 + random.below(220)];
  return {
    end: choice < 7 ? "cut" : choice < 8 ? "kill" : "stop",
    endAfter: ends[random.below(ends.length)],
    cutAtRest: random.chance(0.7),
    steps: 10 + random.below(70),
    fault: random.chance(0.35) ? FAULTS[random.below(FAULTS.length)] : undefined,
  };
}
