import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { segmentName } from "../../src/log/names.ts";
import { encodeSegmentFooter } from "../../src/log/segment.ts";
import { codec, frame, header } from "../log/fixtures.ts";
import { cleanUp, FULL, Process, temporaryDirectory } from "./harness.ts";

afterEach(cleanUp);

const MIB = 1024 * 1024;
const SEGMENT_RECORDS = 63;
const LARGE_MIB = FULL ? 1024 : 192;
/** What a verb may need more for a large directory than for a small one: garbage that was not collected yet. */
const SLACK_BYTES = 64 * MIB;

/** A log of about so many MiB in sealed segments of 63 records of one MiB. */
function log(mebibytes: number): string {
  const directory = join(temporaryDirectory(), "data");
  mkdirSync(directory);
  const payload = new Uint8Array(MIB).fill(0x41);
  let sequence = 0;
  for (let id = 0; id * 64 < mebibytes; id++) {
    const base = sequence;
    const file = openSync(join(directory, segmentName(id)), "wx");
    writeSync(file, header(id, base));
    for (; sequence < base + SEGMENT_RECORDS; sequence++)
      writeSync(file, frame({ sequence: BigInt(sequence), payload }));
    writeSync(
      file,
      encodeSegmentFooter({ segmentId: id, lastSequence: sequence - 1, recordCount: SEGMENT_RECORDS }, codec),
    );
    closeSync(file);
  }
  return directory;
}

/** Runs a verb to its end and returns the most memory it was seen with. */
async function peakBytes(args: readonly string[]): Promise<number> {
  const process = new Process(args);
  let peak = 0;
  const sample = setInterval(() => {
    try {
      peak = Math.max(peak, process.peakResidentBytes() || 0);
    } catch {
      // It has ended.
    }
  }, 5);
  const result = await process.done;
  clearInterval(sample);
  expect(result.code, result.stderr).toBe(0);
  expect(peak).toBeGreaterThan(0);
  return peak;
}

describe("memory of the offline verbs", () => {
  it(`does not grow with the directory, of ${LARGE_MIB} MiB here`, async () => {
    const small = log(64);
    const large = log(LARGE_MIB);
    const scratch = temporaryDirectory();
    for (const verb of ["scrub", "verify", "dump"]) {
      const few = await peakBytes([verb, "--data-dir", small]);
      expect(await peakBytes([verb, "--data-dir", large]), verb).toBeLessThan(few + SLACK_BYTES);
    }
    const few = await peakBytes(["backup", "--data-dir", small, "--out", join(scratch, "small")]);
    const many = await peakBytes(["backup", "--data-dir", large, "--out", join(scratch, "large")]);
    expect(many).toBeLessThan(few + SLACK_BYTES);
    const back = ["restore", "--from", join(scratch, "small"), "--data-dir", join(scratch, "a")];
    const fewBack = await peakBytes(back);
    const manyBack = await peakBytes(["restore", "--from", join(scratch, "large"), "--data-dir", join(scratch, "b")]);
    expect(manyBack).toBeLessThan(fewBack + SLACK_BYTES);
  }, 600_000);
});
