import { describe, expect, it } from "vitest";
import { loadCodec } from "../../src/runtime/native/codec.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { drawFlips, makeArchive, rot } from "./bit-rot.ts";

const { codec } = loadCodec();

const ARCHIVES = 4;
const FLIPPED_EACH = 500;

describe("a log whose bits flip", () => {
  it(`is never delivered changed, and loses no more than what was hit, over ${ARCHIVES * FLIPPED_EACH} damaged copies`, async () => {
    let missing = 0;
    let readOnly = 0;
    let compressed = 0;
    for (let seed = 1; seed <= ARCHIVES; seed++) {
      const archive = await makeArchive(codec, seed);
      expect(archive.segments.length).toBeGreaterThan(3);
      compressed += archive.spans.filter(({ start, end }, offset) => {
        return end - start < archive.contents[offset].payload.length;
      }).length;
      const random = new SeededRandom(seed);
      for (let copy = 0; copy < FLIPPED_EACH; copy++) {
        const flips = drawFlips(archive, random);
        const result = await rot(archive, flips, codec, copy % 2 === 0).catch((error: unknown) => {
          throw new Error(`archive ${seed}, flips ${JSON.stringify(flips)}: ${(error as Error).message}`, {
            cause: error,
          });
        });
        missing += result.missing.length;
        readOnly += result.readOnly ? 1 : 0;
      }
    }
    expect(missing).toBeGreaterThan(ARCHIVES * FLIPPED_EACH);
    expect(compressed).toBeGreaterThan(ARCHIVES * 20);
    expect(readOnly).toBeGreaterThan(0);
  }, 600_000);
});
