import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Gap } from "../../src/log/gap.ts";

import { parseLossReport } from "../../src/log/loss-report.ts";
import { readLog } from "../../src/log/offline-reader.ts";

import { encodeSegmentFooter, encodeSegmentHeader } from "../../src/log/segment.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";

import {
  ascii,
  codec,
  flip,
  frame,
  get,
  hex,
  join,
  lcg,
  newFiles,
  put,
  putSegment,
  ROOT,
  segmentBytes,
  segmentPath,
  tree,
} from "./fixtures.ts";

import { ALL, at, FRAME, healthy, recover, salvaged, texts, unchanged, without } from "./salvage-fixtures.ts";

describe("damage in a sealed segment", () => {
  it("storage.md 26.39, salvage: any flipped byte costs at most its own record, and no offset changes", () => {
    for (let position = 0; position < at(3) + 32; position++) {
      const files = healthy();
      flip(files, segmentPath(1), position, position % 8);
      const before = tree(files);
      const recovered = salvaged(files);
      unchanged(files, before);
      const record = position < 64 || position >= at(3) ? undefined : Math.floor((position - 64) / FRAME);
      expect(texts(files), `byte ${position}`).toEqual(record === undefined ? ALL : without(3 + record));
      expect(recovered).toMatchObject({ nextOffset: 11, nextSegmentId: 4, resumable: true, readOnly: undefined });
      const gaps: Gap[] = record === undefined ? [] : [{ start: 3 + record, end: 4 + record }];
      expect(recovered.gaps).toEqual(gaps);
      expect(recovered.losses.length).toBe(1);
      const [loss] = recovered.losses;
      expect(loss.segmentId).toBe(1);
      if (position < 64) {
        expect(loss).toMatchObject({ start: 0, end: 64, recordsLostEstimate: 0, reason: "CorruptSegmentHeader" });
      } else if (record === undefined) {
        expect(loss).toMatchObject({ start: at(3), recordsLostEstimate: 0, reason: "CorruptRecordHeader" });
      } else {
        expect(loss).toMatchObject({ start: at(record), end: at(record + 1), recordsLostEstimate: 1 });
        const inHeader = position < at(record) + 36;
        expect(loss.reason).toBe(inHeader ? "CorruptRecordHeader" : "CorruptRecordBody");
      }
      const label = loss.reason.replace(/(?<!^)([A-Z])/g, "_$1").toLowerCase();
      const blob = `${ROOT}/quarantine/q-0000000000000001-${label}-${loss.start}-${loss.end}.bin`;
      expect(hex(get(files, blob))).toBe(hex(get(files, segmentPath(1)).subarray(loss.start, loss.end)));
      expect(parseLossReport(new TextDecoder().decode(get(files, `${ROOT}/recovery-report.json`)))).toEqual(
        recovered.losses,
      );
    }
  });

  it("is reported again by every start that reads it, the copy is made once, and nothing else changes", () => {
    const files = healthy();
    flip(files, segmentPath(1), at(1) + 37);
    const first = recover(files);
    const after = tree(files);
    expect(first.repairs).toBe(1);
    // The report on the disk names it by now.
    expect(recover(files)).toEqual({ ...first, repairs: 0 });
    expect(tree(files)).toEqual(after);
  });

  it("a destroyed header: the frames behind it are found from the segment's end", () => {
    const files = healthy();
    const bytes = get(files, segmentPath(1));
    put(files, segmentPath(1), bytes.fill(0xa5, at(1), at(1) + 36));
    expect(salvaged(files).losses).toMatchObject([{ start: at(1), end: at(2), reason: "CorruptRecordHeader" }]);
    expect(texts(files)).toEqual(without(4));
  });

  it("two destroyed headers: what lies between them is found too", () => {
    const payloads = Array.from({ length: 9 }, (_, i) => `p${i}`);
    const files = newFiles();
    const bytes = putSegment(files, { id: 0, base: 0, payloads, sealed: true });
    for (const i of [2, 6]) bytes.fill(0x5a, at(i), at(i) + 36);
    put(files, segmentPath(0), bytes);
    putSegment(files, { id: 1, base: 9, payloads: ["end"] });
    const recovered = salvaged(files);
    expect(recovered.gaps).toEqual([
      { start: 2, end: 3 },
      { start: 6, end: 7 },
    ]);
    expect(texts(files).length).toBe(8);
  });

  it("zeroed pages: what overlaps them is lost, all the rest is served", () => {
    const payloads = Array.from({ length: 400 }, (_, i) => lcg(i, 100));
    const files = newFiles();
    const bytes = putSegment(files, { id: 0, base: 0, payloads, sealed: true });
    bytes.fill(0, 8192, 12_288);
    bytes.fill(0, 40_960, 45_056);
    put(files, segmentPath(0), bytes);
    putSegment(files, { id: 1, base: 400, payloads: ["end"] });
    const { gaps, losses } = salvaged(files);
    const hit = (from: number, to: number): Gap => ({
      start: Math.floor((from - 64) / 144),
      end: Math.ceil((to - 64) / 144),
    });
    // What lies between two spans without framing cannot be reached from either end.
    expect(gaps).toEqual([{ start: hit(8192, 0).start, end: hit(0, 45_056).end }]);
    expect(losses[0].start).toBe(64 + gaps[0].start * 144);
    expect(losses.at(-1)?.end).toBe(64 + gaps[0].end * 144);
    for (const record of readLog(files, codec, ROOT)) {
      if (record.offset < 400) expect(record.payload).toEqual(payloads[record.offset]);
    }
  });

  it("a cut file: the records whose bytes are gone are lost, under their offsets", () => {
    for (let length = 0; length < at(3) + 32; length += 7) {
      const files = healthy();
      put(files, segmentPath(1), get(files, segmentPath(1)).subarray(0, length));
      const whole = length < 64 ? 0 : Math.floor((length - 64) / FRAME);
      const { gaps, nextOffset } = salvaged(files);
      const lost = [0, 1, 2].filter((i) => i >= whole).map((i) => 3 + i);
      expect(texts(files), `length ${length}`).toEqual(without(...lost));
      expect(gaps).toEqual(lost.length === 0 ? [] : [{ start: lost[0], end: 6 }]);
      expect(nextOffset).toBe(11);
    }
  });

  it("a segment that was never sealed, or whose footer is followed by something, keeps its records", () => {
    for (const fields of [{}, { tail: new Uint8Array(900) }, { sealed: true, tail: new Uint8Array(9) }]) {
      const files = healthy();
      putSegment(files, { id: 1, base: 3, payloads: ["m3", "m4", "m5"], ...fields });
      expect(salvaged(files).gaps).toEqual([]);
      expect(texts(files)).toEqual(ALL);
    }
  });
});

describe("frames inside of a payload", () => {
  /** Frames of plausible sequences, up to the payload's end; `forge` may add to them. */
  function trap(sequence: number, forge: (frames: Uint8Array) => Uint8Array = (frames) => frames): Uint8Array {
    const frames = Array.from({ length: 5 }, (_, i) =>
      frame({ sequence: BigInt(sequence + i), payload: ascii(`trap${i}`) }),
    );
    return forge(join(...frames));
  }

  function withTrap(payload: Uint8Array, sealed = true): { files: FileSystem; bytes: Uint8Array; start: number } {
    const files = newFiles();
    const payloads = ["m0", "m1", payload, "m3", "m4"];
    const bytes = putSegment(files, { id: 0, base: 0, payloads, sealed });
    putSegment(files, { id: 1, base: 5, payloads: ["m5"] });
    return { files, bytes, start: at(2) };
  }

  function honest(files: FileSystem): number {
    salvaged(files);
    let read = 0;
    for (const { offset, payload } of readLog(files, codec, ROOT)) {
      const text = new TextDecoder().decode(payload);
      if (offset !== 2) expect(text).toBe(`m${offset}`);
      else expect(text.length).toBeGreaterThan(100);
      read++;
    }
    return read;
  }

  it("are never taken for records, whatever of the record around them is destroyed", () => {
    for (const first of [1, 2, 3]) {
      const { bytes, start } = withTrap(trap(first));
      const end = start + 44 + trap(first).length;
      for (const [from, to] of [
        [start, start + 36],
        [start, start + 60],
        [start - 20, start + 36],
        [end - 8, end],
        [end - 4, end],
        [end - 8, end + 36],
        [start, end],
      ]) {
        for (const fill of [0, 0xff, 0x42]) {
          const { files } = withTrap(trap(first));
          put(files, segmentPath(0), bytes.slice().fill(fill, from, to));
          // The records m1 and m3 go with the trap when bytes of theirs are destroyed.
          expect(honest(files)).toBeGreaterThanOrEqual(3);
        }
      }
    }
  });

  it("a forged trailer at the payload's end does not lead into it", () => {
    // Says that a frame begins where the trap's third frame does.
    const forged = trap(2, (frames) => {
      const trailer = new Uint8Array(8);
      new DataView(trailer.buffer).setUint32(4, frames.length - 2 * 49 + 8, true);
      return join(frames, trailer);
    });
    const { files, bytes, start } = withTrap(forged);
    put(files, segmentPath(0), bytes.slice().fill(0, start, start + 36));
    expect(honest(files)).toBe(5);
  });

  it("two faults that fit each other: a wrong length behind a record whose neighbour lost its header", () => {
    // The planted frame has the record's own sequence and ends where it ends; the flipped length points at it.
    for (const planted of [60, 76, 108, 172]) {
      const inner = new Uint8Array(planted);
      inner.set(frame({ sequence: 2n, payload: new Uint8Array(planted - 44 + 8) }).subarray(0, 36));
      const { files, bytes, start } = withTrap(join(lcg(9, 130), inner));
      const length = 44 + 130 + planted;
      const view = new DataView(bytes.buffer, bytes.byteOffset);
      expect(view.getUint32(start + length - 4, true)).toBe(length);
      view.setUint32(start + length - 4, planted + 8, true);
      bytes.fill(0x11, at(1), at(1) + 36);
      put(files, segmentPath(0), bytes);
      for (const { offset, payload } of readLog(files, codec, ROOT)) {
        expect(new TextDecoder().decode(payload)).toBe(`m${offset}`);
      }
    }
  });

  it("a file cut right behind a planted footer: the footer counts for nothing", () => {
    const footer = encodeSegmentFooter({ segmentId: 0, lastSequence: 4, recordCount: 5 }, codec);
    const forged = join(trap(2).subarray(0, 3 * 49), footer, lcg(1, 300));
    const { files, bytes, start } = withTrap(forged);
    put(files, segmentPath(0), bytes.slice(0, start + 36 + 3 * 49 + 32));
    expect(honest(files)).toBe(3);
    put(files, segmentPath(0), bytes.slice(0, start + 36 + 3 * 49 + 32).fill(0, at(1), at(1) + 36));
    for (const { offset } of readLog(files, codec, ROOT)) expect([0, 1, 5]).toContain(offset);
  });
});

describe("any damage", () => {
  interface Damage {
    segment: number;
    kind: "flip" | "cut" | "noise" | "zero" | "remove" | "swap";
    position: number;
    length: number;
    noise: Uint8Array;
  }
  const damage: fc.Arbitrary<Damage> = fc.record({
    segment: fc.nat(3),
    kind: fc.constantFrom("flip", "flip", "flip", "cut", "noise", "zero", "remove", "swap"),
    position: fc.nat(),
    length: fc.integer({ min: 1, max: 300 }),
    noise: fc.uint8Array({ minLength: 300, maxLength: 300 }),
  });

  it("what is read was written under that offset; what is not read lies in a gap or behind the end; starts agree", () => {
    const payloads = Array.from({ length: 40 }, (_, i) => {
      // Some payloads are frames with sequences that could come next.
      if (i % 7 !== 3) return lcg(i, (i * 37) % 190);
      return join(...[0, 1, 2].map((k) => frame({ sequence: BigInt(i + k), payload: lcg(k, 20) })));
    });
    const shift = 1000;
    const image = [0, 1, 2, 3].map((id) => {
      const base = id * 10;
      const fields = { segmentId: id, baseSequence: base, baseOffset: base + shift, createdUnixMs: 0 };
      const body = segmentBytes({ id, base, payloads: payloads.slice(base, base + 10), sealed: id < 3 });
      body.set(encodeSegmentHeader(fields, codec));
      return id < 3 ? body : join(body, new Uint8Array(200));
    });
    fc.assert(
      fc.property(fc.array(damage, { minLength: 1, maxLength: 4 }), (damages) => {
        const files = newFiles();
        for (const [id, bytes] of image.entries()) put(files, segmentPath(id), bytes);
        for (const { segment, kind, position, length, noise } of damages) {
          const path = segmentPath(segment);
          if (files.stat(path) === undefined) continue;
          const bytes = get(files, path);
          const from = bytes.length === 0 ? 0 : position % bytes.length;
          if (kind === "remove") files.remove(path);
          else if (kind === "cut") put(files, path, bytes.subarray(0, from));
          else if (kind === "swap") {
            const other = segmentPath((segment + 1) % 4);
            if (files.stat(other) === undefined) continue;
            const theirs = get(files, other);
            put(files, other, bytes);
            put(files, path, theirs);
          } else if (bytes.length > 0) {
            if (kind === "flip") bytes[from] ^= 1 << (length % 8);
            else if (kind === "zero") bytes.fill(0, from, from + length);
            else bytes.set(noise.subarray(0, Math.min(length, bytes.length - from)), from);
            put(files, path, bytes);
          }
        }
        // Without any header nothing says by how much offsets are ahead of sequences.
        const headers = image.map((bytes) => hex(bytes.subarray(0, 64)));
        const left = [0, 1, 2, 3].filter((id) => files.stat(segmentPath(id)) !== undefined);
        fc.pre(left.some((id) => headers.includes(hex(get(files, segmentPath(id)).subarray(0, 64)))));
        const before = recoverable(files, payloads, shift);
        const recovered = recover(files);
        expect(recovered.readOnly).toBeUndefined();
        expect(recoverable(files, payloads, shift)).toEqual(before);
        const again = recover(files);
        expect(again.gaps).toEqual(recovered.gaps);
        expect(again.nextOffset).toBe(recovered.nextOffset);
        // Everything between the ends is either read or in a gap.
        const inGaps = recovered.gaps.reduce((sum, { start, end }) => sum + end - start, 0);
        expect(before.length + inGaps).toBe(recovered.nextOffset - recovered.earliestOffset);
      }),
      { numRuns: 800 },
    );
  });

  /** The offsets read, each of them checked. */
  function recoverable(files: FileSystem, payloads: readonly Uint8Array[], shift: number): number[] {
    const offsets: number[] = [];
    for (const { offset, payload } of readLog(files, codec, ROOT)) {
      expect(payloads.length).toBeGreaterThan(offset - shift);
      expect(hex(payload)).toBe(hex(payloads[offset - shift]));
      offsets.push(offset);
    }
    return offsets;
  }
});
