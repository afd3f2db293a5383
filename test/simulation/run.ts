import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import type { Codec } from "../../src/runtime/codec.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { ContentMaker } from "./contents.ts";
import { type Examiner, examine } from "./examination.ts";
import { Model } from "./model.ts";
import { BrokerProcess, type End, GROUPS } from "./process.ts";
import { drawFate, drawSetup, type Setup } from "./setup.ts";
import { digestOf } from "./tree.ts";

export interface RunOptions {
  readonly codec: Codec;
  /** Puts something between the broker and its disk. Default: nothing. */
  readonly wrap?: (files: SimulatedFileSystem) => FileSystem;
  /** Told each line of the journal as it is written. */
  readonly onEvent?: (line: string) => void;
}

export interface RunResult {
  readonly setup: Setup;
  /** Every operation of the disk and everything that was observed, in order. */
  readonly journal: readonly string[];
  readonly acknowledged: number;
  readonly recordsLostByPowerCut: number;
  readonly cuts: number;
}

/** A seed under which something broke, with the way to see it again. */
export class FailedSeed extends Error {
  override readonly name = "FailedSeed";
  readonly seed: number;

  constructor(seed: number, setup: Setup, journal: readonly string[], cause: unknown) {
    const what = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
    const lines = journal.slice(-12).map((line) => `    ${line}`);
    super(
      [
        `seed ${seed}: ${what}`,
        `  setup ${JSON.stringify(setup)}`,
        `  last of ${journal.length} events:`,
        ...lines,
        `  replay: node scripts/simulate.mjs --seed ${seed}`,
      ].join("\n"),
      { cause },
    );
    this.seed = seed;
  }
}

/**
 * One run: processes on one disk, each cut off, killed or stopped, the disk examined in between, and at the end everything
 * that was not settled comes to a consumer. The same seed gives the same journal. Throws FailedSeed.
 */
export async function runSeed(seed: number, options: RunOptions): Promise<RunResult> {
  const random = new SeededRandom(seed);
  const setup = drawSetup(seed, random);
  const journal: string[] = [];
  try {
    return await run(setup, random, journal, options);
  } catch (error) {
    throw new FailedSeed(seed, setup, journal, error);
  }
}

async function run(
  setup: Setup,
  random: SeededRandom,
  journal: string[],
  { codec, wrap = (files) => files, onEvent }: RunOptions,
): Promise<RunResult> {
  const model = new Model(setup.durability.level);
  const contents = new ContentMaker(random.fork(), setup.maxSegmentBytes - 100);
  const examiner: Examiner = { setup, codec, seenBy: wrap };
  const clock = new SimulatedClock();
  const record = (line: string): void => {
    journal.push(line);
    onEvent?.(line);
  };
  let cuts = 0;
  const processOn = (files: SimulatedFileSystem, fate = drawFate(random)): BrokerProcess => {
    record(`fate ${JSON.stringify(fate)}`);
    const world = { files, seen: wrap(files), codec, clock, random, record };
    return new BrokerProcess(world, setup, fate, model, contents);
  };

  let files = new SimulatedFileSystem({ seed: random.word(), turns: "manual" });
  for (let life = 0; life < setup.lives; life++) {
    const end: End = await processOn(files).live();
    if (end.kind === "cut") cuts += 1;
    files = end.files;
    examine(end, model, examiner);
    record(`left ${digestOf(files)}`);
    clock.advance(1 + random.below(5000));
  }
  for (const name of GROUPS) {
    const last = processOn(files, { end: "kill", endAfter: 0, cutAtRest: false, steps: 0, fault: undefined });
    last.drain(name);
    files = files.kill({ seed: 1, turns: "manual" });
  }
  record(`left ${digestOf(files)}`);
  return {
    setup,
    journal,
    acknowledged: model.acknowledgedCount,
    recordsLostByPowerCut: model.recordsLostByPowerCut,
    cuts,
  };
}
