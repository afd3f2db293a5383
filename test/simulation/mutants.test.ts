import { describe, expect, it } from "vitest";
import { StorageError } from "../../src/log/storage-error.ts";
import { loadCodec } from "../../src/runtime/native/codec.ts";
import { MUTANTS, type Mutant } from "./mutants.ts";
import { FailedSeed, runSeed } from "./run.ts";
import { Violation } from "./violation.ts";

/** As many as the run that has to catch them. */
const SEEDS = 384;

const { codec } = loadCodec();

/** The first seed under which the mutant breaks a promise, and which. */
async function firstCatch(mutant: Mutant): Promise<{ readonly seed: number; readonly cause: unknown } | undefined> {
  for (let seed = 1; seed <= SEEDS; seed++) {
    try {
      await runSeed(seed, { codec, wrap: (files) => mutant.wrap(files, codec) });
    } catch (error) {
      if (!(error instanceof FailedSeed)) throw error;
      return { seed, cause: error.cause };
    }
  }
  return undefined;
}

describe("the simulation catches a storage engine", () => {
  // storage.md 26.34: the test has teeth.
  for (const mutant of MUTANTS) {
    it(`storage.md 26.34: with this fault: ${mutant.name}`, async () => {
      const caught = await firstCatch(mutant);
      expect(caught, `not within ${SEEDS} seeds`).toBeDefined();
      // By what is on the disk afterwards, not because the mutant itself fell over.
      const { cause } = caught!;
      if (!(cause instanceof Violation) && !(cause instanceof StorageError)) throw cause;
      expect(cause.message).not.toMatch(/healthy disk/);
    }, 600_000);
  }
});
