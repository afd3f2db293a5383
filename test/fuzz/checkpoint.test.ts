import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CheckpointFile } from "../../src/log/checkpoint-file.ts";
import {
  ATTEMPTS_CAPACITY,
  CURSOR_CAPACITY,
  decodeAttempts,
  decodeCounters,
  decodeCursor,
  decodeLayoutMarker,
  encodeAttempts,
  encodeCounters,
  encodeCursor,
  encodeLayoutMarker,
  LAYOUT_CAPACITY,
  MAX_ATTEMPTS,
} from "../../src/log/checkpoint-payloads.ts";
import { encodeSlot, readCheckpoint, slotLength } from "../../src/log/checkpoint-slots.ts";
import { Counters } from "../../src/log/counters.ts";
import { layoutNeedsMarker } from "../../src/log/layout-marker.ts";
import { StorageError } from "../../src/log/storage-error.ts";
import { checkpoint } from "../corpus/healthy.ts";
import { codec, get, hex, newFiles, put, ROOT } from "../log/fixtures.ts";
import { bounded, fuzz, hostile, outcome } from "./fuzzing.ts";

const KIB = 1024;
const PATH = `${ROOT}/cursor.ckpt`;

const run = fc.tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 9 }));
const cursorState = fc.tuple(fc.nat(2 ** 40), fc.array(run, { maxLength: 3 })).map(([committed, steps]) => {
  let at = committed;
  const runs = steps.map(([gap, length]) => {
    const start = at + gap;
    at = start + length;
    return { start, end: at };
  });
  return { committed, runs };
});
const attempts = fc
  .uniqueArray(fc.nat(2 ** 40), { maxLength: 40 })
  .chain((offsets) =>
    fc
      .array(fc.nat(0xffff_ffff), { minLength: offsets.length, maxLength: offsets.length })
      .map((deliveries) => offsets.sort((a, b) => a - b).map((offset, i) => ({ offset, deliveries: deliveries[i] }))),
  );

/** Puts the checksum at a payload's end right. */
function signPayload(bytes: Uint8Array): void {
  const end = bytes.length - 4;
  if (end >= 0) new DataView(bytes.buffer, bytes.byteOffset).setUint32(end, codec.crc32c(bytes, 0, end), true);
}

/** Puts the checksums of both slots right, as far as their lengths allow. */
const signSlots = (capacity: number) => (bytes: Uint8Array) => {
  const length = slotLength(capacity);
  for (const start of [0, length]) {
    if (start + length > bytes.length) continue;
    const view = new DataView(bytes.buffer, bytes.byteOffset + start);
    const used = 10 + Math.min(view.getUint16(8, true), capacity);
    view.setUint32(length - 4, codec.crc32c(bytes, start, start + used), true);
  }
};

describe("checkpoint payloads", () => {
  it("round trip", () => {
    fuzz(cursorState, (state) => expect(decodeCursor(encodeCursor(state, codec), codec)).toEqual(state));
    fuzz(attempts, (entries) => expect(decodeAttempts(encodeAttempts(entries, codec), codec)).toEqual(entries));
    fuzz(fc.nat(0xffff_ffff), (version) => expect(decodeLayoutMarker(encodeLayoutMarker(version))).toBe(version));
    fuzz(fc.array(fc.maxSafeNat(), { maxLength: 31 }), (counters) =>
      expect(decodeCounters(encodeCounters(counters), counters.length)).toEqual(counters),
    );
  });

  it("whatever a cursor payload holds, its runs ascend behind what is committed", () => {
    const valid = cursorState.map((state) => encodeCursor(state, codec));
    fuzz(hostile(valid, signPayload, 80), (bytes) => {
      const state = bounded(64 * KIB, () => decodeCursor(bytes, codec));
      if (state === undefined) return;
      expect(Number.isSafeInteger(state.committed)).toBe(true);
      let floor = state.committed;
      for (const { start, end } of state.runs) {
        expect(start).toBeGreaterThanOrEqual(floor);
        expect(start).toBeGreaterThan(state.committed);
        expect(end).toBeGreaterThan(start);
        expect(Number.isSafeInteger(end)).toBe(true);
        floor = end;
      }
    });
  });

  it("whatever an attempts payload holds, its offsets ascend and are no more than it has room for", () => {
    const valid = attempts.map((entries) => encodeAttempts(entries, codec));
    fuzz(hostile(valid, signPayload, 600), (bytes) => {
      const entries = bounded(64 * KIB, () => decodeAttempts(bytes, codec));
      expect(entries.length).toBeLessThanOrEqual(Math.min(MAX_ATTEMPTS, bytes.length / 12));
      for (const [i, { offset }] of entries.entries())
        expect(offset).toBeGreaterThan(i === 0 ? -1 : entries[i - 1].offset);
    });
  });

  it("whatever a counters payload holds, the counters are whole numbers, and are saved as what they are", () => {
    const valid = fc.array(fc.maxSafeNat(), { maxLength: 31 }).map(encodeCounters);
    fuzz(hostile(valid), (bytes) => {
      const counters = new Counters();
      bounded(64 * KIB, () => counters.restore(bytes));
      const saved = counters.encode();
      const values = decodeCounters(saved, (saved.length - 1) / 8);
      expect(values.every((value) => Number.isSafeInteger(value) && value >= 0)).toBe(true);
      const again = new Counters();
      again.restore(saved);
      expect(hex(again.encode())).toBe(hex(saved));
    });
  });
});

describe("checkpoint files", () => {
  const file = fc.array(cursorState, { maxLength: 4 }).map((states) =>
    checkpoint(
      CURSOR_CAPACITY,
      states.map((state) => encodeCursor(state, codec)),
    ),
  );

  it("whatever is in one: a value that one of its slots holds, or none; and it can be saved to", () => {
    fuzz(hostile(file, signSlots(CURSOR_CAPACITY)), (bytes) => {
      const files = newFiles();
      put(files, PATH, bytes);
      const content = bounded(64 * KIB, () => readCheckpoint(files, PATH, CURSOR_CAPACITY, codec));
      expect(content?.state === "valid").toBe(content?.payload !== undefined);
      if (content?.payload !== undefined) {
        expect(content.payload.length).toBeLessThanOrEqual(CURSOR_CAPACITY);
        const slot = new Uint8Array(slotLength(CURSOR_CAPACITY));
        encodeSlot(slot, content.writeNumber, content.payload, codec);
        const used = hex(slot.subarray(0, 10 + content.payload.length));
        expect(hex(bytes)).toContain(used);
      }
      expect(hex(get(files, PATH))).toBe(hex(bytes));
      const opened = CheckpointFile.open({
        files,
        codec,
        queue: files.createQueue(),
        root: ROOT,
        name: "cursor.ckpt",
        capacity: CURSOR_CAPACITY,
        initialPayload: encodeCursor({ committed: 0, runs: [] }, codec),
        onError(error) {
          throw error;
        },
      });
      expect(opened.payload).toEqual(content?.payload);
      const later = encodeCursor({ committed: 77, runs: [] }, codec);
      opened.saveNow(later);
      opened.close();
      expect(readCheckpoint(files, PATH, CURSOR_CAPACITY, codec)?.payload).toEqual(later);
    });
  });

  it("a file as large as that of the attempts is read within its size", () => {
    const large = attempts.map((entries) => checkpoint(ATTEMPTS_CAPACITY, [encodeAttempts(entries, codec)]));
    fuzz(
      hostile(large, signSlots(ATTEMPTS_CAPACITY)),
      (bytes) => {
        const files = newFiles();
        put(files, PATH, bytes);
        const content = bounded(2 * slotLength(ATTEMPTS_CAPACITY), () =>
          readCheckpoint(files, PATH, ATTEMPTS_CAPACITY, codec),
        );
        if (content?.payload !== undefined) decodeAttempts(content.payload, codec);
      },
      10,
    );
  });

  it("a layout marker is refused when it is intact and of a later layout, and for nothing else", () => {
    const marker = fc
      .array(fc.constantFrom(0, 1, 2, 0xffff_ffff), { maxLength: 3 })
      .map((versions) => checkpoint(LAYOUT_CAPACITY, versions.map(encodeLayoutMarker)));
    fuzz(hostile(marker, signSlots(LAYOUT_CAPACITY)), (bytes) => {
      const files = newFiles();
      put(files, `${ROOT}/layout.meta`, bytes);
      const { value, error } = bounded(64 * KIB, () =>
        outcome(StorageError, () => layoutNeedsMarker(files, ROOT, codec)),
      );
      const payload = readCheckpoint(files, `${ROOT}/layout.meta`, LAYOUT_CAPACITY, codec)?.payload;
      const version = payload === undefined ? undefined : decodeLayoutMarker(payload);
      expect(error?.kind).toBe(version !== undefined && version > 1 ? "IncompatibleLayoutVersion" : undefined);
      if (error === undefined) expect(value).toBe(version !== 1);
    });
  });
});
