import { describe, expect, it } from "vitest";
import { inspectLog } from "../../src/log/inspection.ts";
import { skippedBytes } from "../../src/log/loss-report.ts";
import { readLog } from "../../src/log/offline-reader.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { codec, frame, get, hex, join, lcg, newFiles, put, putSegment, ROOT, segmentPath } from "./fixtures.ts";

const SEGMENTS = 4;
const PER_SEGMENT = 40;
const FLIPS = 2000;

/** Payloads of all sizes; every fifth is frames with sequences that could come next, some with an xxh3. */
const PAYLOADS = Array.from({ length: SEGMENTS * PER_SEGMENT }, (_, i) => {
  if (i % 5 === 2) return join(...[1, 2, 3].map((k) => frame({ sequence: BigInt(i + k), payload: lcg(k, 30) })));
  return lcg(i, i % 37 === 11 ? 66_000 : (i * 53) % 400);
});
const TEXT = PAYLOADS.map(hex);
const SPAN = PAYLOADS.map((payload, i) => frame({ sequence: BigInt(i), payload }).length);

/** All sealed but for the last one, which holds one record. */
function image(): Uint8Array[] {
  const files = newFiles();
  return [...Array(SEGMENTS).keys()].map((id) => {
    const base = id * PER_SEGMENT;
    return putSegment(files, { id, base, payloads: PAYLOADS.slice(base, base + PER_SEGMENT), sealed: true });
  });
}

describe("bit rot", () => {
  it(`${FLIPS} single flips: nothing changed is read, at most the record that was hit is lost, and it is reported`, () => {
    const random = new SeededRandom(20_260_730);
    const bytes = image();
    const files = newFiles();
    for (const [id, each] of bytes.entries()) put(files, segmentPath(id), each);
    putSegment(files, { id: SEGMENTS, base: TEXT.length, payloads: ["end"] });
    for (let flip = 0; flip < FLIPS; flip++) {
      const id = random.word() % SEGMENTS;
      const position = random.word() % bytes[id].length;
      const changed = bytes[id].slice();
      changed[position] ^= 1 << (random.word() % 8);
      put(files, segmentPath(id), changed);

      let start = 64;
      let hit = id * PER_SEGMENT;
      while (hit < (id + 1) * PER_SEGMENT && position >= start + SPAN[hit]) start += SPAN[hit++];
      const isRecord = position >= 64 && hit < (id + 1) * PER_SEGMENT;

      const { losses, gaps } = inspectLog(files, codec, ROOT, { fullScan: true });
      expect(losses.length, `byte ${position} of segment ${id}`).toBe(1);
      expect(gaps).toEqual(isRecord ? [{ start: hit, end: hit + 1 }] : []);
      expect(skippedBytes(losses[0])).toBeLessThanOrEqual(isRecord ? SPAN[hit] : 64);
      // Reading all of it each time would say the same: the other segments are as they were.
      for (const { offset, payload } of readLog(files, codec, ROOT).records(id * PER_SEGMENT)) {
        if (offset >= (id + 1) * PER_SEGMENT) break;
        expect(hex(payload) === TEXT[offset], `offset ${offset}`).toBe(true);
        expect(offset === hit && isRecord).toBe(false);
      }
      put(files, segmentPath(id), bytes[id]);
    }
  });

  it("flips that add up: what is read was written, and what is not read is reported", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = new SeededRandom(seed);
      const files = newFiles();
      for (const [id, each] of image().entries()) put(files, segmentPath(id), each);
      putSegment(files, { id: SEGMENTS, base: TEXT.length, payloads: ["end"] });
      for (let round = 0; round < 8; round++) {
        for (let flip = 0; flip < 5; flip++) {
          const path = segmentPath(random.word() % SEGMENTS);
          const changed = get(files, path);
          changed[random.word() % changed.length] ^= 1 << (random.word() % 8);
          put(files, path, changed);
        }
        const { gaps, earliestOffset, nextOffset } = inspectLog(files, codec, ROOT, { fullScan: true });
        const lost = gaps.reduce((sum, { start, end }) => sum + end - start, 0);
        let read = 0;
        for (const { offset, payload } of readLog(files, codec, ROOT)) {
          if (offset < TEXT.length) expect(hex(payload) === TEXT[offset]).toBe(true);
          read++;
        }
        expect(read + lost).toBe(nextOffset - earliestOffset);
        // Single bits never lose the framing unless two meet in one record: no more records go than were hit.
        expect(lost).toBeLessThanOrEqual((round + 1) * 5 * 2);
      }
    }
  });
});
