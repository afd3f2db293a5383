import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DataDirectoryError } from "../../src/log/data-directory.ts";
import { type OfflineRecord, readLog } from "../../src/log/offline-reader.ts";
import { RecordError } from "../../src/log/record.ts";
import { recoverLog } from "../../src/log/recovery.ts";
import { StorageError } from "../../src/log/storage-error.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import {
  ascii,
  codec,
  flip,
  frame,
  get,
  header,
  join,
  lcg,
  newFiles,
  OPTIONS,
  put,
  putSegment,
  ROOT,
  segmentBytes,
  segmentPath,
  thrown,
  tree,
} from "./fixtures.ts";

function texts(records: Iterable<OfflineRecord>): string[] {
  const found: string[] = [];
  for (const record of records) found.push(`${record.offset}:${new TextDecoder().decode(record.payload)}`);
  return found;
}

/** Two sealed segments and an active one with preallocation. */
function healthy(): FileSystem {
  const files = newFiles();
  putSegment(files, { id: 0, base: 0, payloads: ["a", "b"], sealed: true });
  putSegment(files, { id: 1, base: 2, payloads: ["c", "d", "e"], sealed: true });
  putSegment(files, { id: 2, base: 5, payloads: ["f"], tail: new Uint8Array(10_000) });
  return files;
}

interface Damage {
  inLast: boolean;
  kind: "flip" | "cut" | "noise" | "zero";
  position: number;
  length: number;
  noise: Uint8Array;
}

describe("offline reader", () => {
  it("storage.md 26.50: reads all records in order and changes nothing", () => {
    const files = healthy();
    const before = tree(files);
    const log = readLog(files, codec, ROOT);
    expect([log.segmentCount, log.earliestOffset]).toEqual([3, 0]);
    expect(texts(log)).toEqual(["0:a", "1:b", "2:c", "3:d", "4:e", "5:f"]);
    expect(log.losses()).toEqual([]);
    expect(tree(files)).toEqual(before);
  });

  it("gives every field of a record", () => {
    const files = newFiles();
    const stored = frame({
      sequence: 7n,
      timestampMs: (1n << 64n) - 1n,
      flags: 1,
      key: ascii("key"),
      headers: ascii("hd"),
      payload: ascii("payload"),
      subject: ascii("a.b"),
    });
    put(files, segmentPath(0), join(header(0, 7), stored));
    const [record] = [...readLog(files, codec, ROOT)];
    expect(record).toMatchObject({
      offset: 7,
      sequence: 7,
      timestampMs: (1n << 64n) - 1n,
      flags: 0x0b,
      keyLength: 3,
      headersLength: 2,
      storedPayloadLength: 7,
      key: ascii("key"),
      headers: ascii("hd"),
      payload: ascii("payload"),
    });
  });

  it("starts at any offset without reading the segments before it", () => {
    const files = healthy();
    flip(files, segmentPath(0), 64 + 36);
    const log = readLog(files, codec, ROOT);
    const all = ["2:c", "3:d", "4:e", "5:f"];
    for (let from = 2; from < 8; from++) expect(texts(log.records(from))).toEqual(all.slice(from - 2));
  });

  it("tells what is behind the records, also when they were not read to the end", () => {
    const files = healthy();
    flip(files, segmentPath(2), 64 + 36);
    const log = readLog(files, codec, ROOT);
    const iterator = log[Symbol.iterator]();
    expect(iterator.next().value?.offset).toBe(0);
    iterator.return?.();
    const expected = [{ segmentId: 2, start: 64, end: 64 + 42, recordsLostEstimate: 1, reason: "CorruptRecordBody" }];
    expect(log.losses()).toEqual(expected);
    expect(texts(log)).toEqual(["0:a", "1:b", "2:c", "3:d", "4:e"]);
    expect(log.losses()).toEqual(expected);
  });

  it("storage.md 18.4: reports what recovery would, without a cap", () => {
    const files = newFiles();
    putSegment(files, { id: 0, base: 0, payloads: ["a"], tail: new Uint8Array(90_000_000).fill(1) });
    expect(readLog(files, codec, ROOT).losses()).toMatchObject([
      { start: 109, end: 90_000_109, reason: "CorruptRecordHeader" },
    ]);
    expect(thrown(() => recoverLog(files, codec, ROOT, { ...OPTIONS, recovery: "strict" })).kind).toBe(
      "ExcessiveRecoveryLoss",
    );
  });

  it("an unborn last segment is an event of zero bytes", () => {
    const files = healthy();
    put(files, segmentPath(2), new Uint8Array(100));
    const log = readLog(files, codec, ROOT);
    expect(texts(log).length).toBe(5);
    expect(log.losses()).toMatchObject([{ segmentId: 2, start: 0, end: 0, reason: "CorruptSegmentHeader" }]);
    expect(files.stat(segmentPath(2))?.size).toBe(100);
  });

  it("a directory without segments has no records", () => {
    const log = readLog(newFiles(), codec, ROOT);
    expect([texts(log), log.losses(), log.segmentCount]).toEqual([[], [], 0]);
  });

  it("a missing directory and one that is a file", () => {
    const files = newFiles();
    put(files, `${ROOT}/file`, ascii("x"));
    for (const [path, kind] of [
      ["/none", "NotFound"],
      [`${ROOT}/file`, "NotADirectory"],
    ] as const) {
      const error = thrown(() => readLog(files, codec, path));
      expect(error).toBeInstanceOf(DataDirectoryError);
      expect(error.kind).toBe(kind);
    }
  });

  it("storage.md 26.39, 26.40, strict: a broken chain is a typed error before the first record", () => {
    const missing = healthy();
    missing.remove(segmentPath(1));
    expect(thrown(() => readLog(missing, codec, ROOT, "strict")).kind).toBe("SegmentChainBroken");
    const unsealed = healthy();
    putSegment(unsealed, { id: 1, base: 2, payloads: ["c", "d", "e"] });
    expect(thrown(() => readLog(unsealed, codec, ROOT, "strict")).kind).toBe("UnsealedPredecessor");
  });

  it("strict: damage in the body of a sealed segment: the records before it, then a typed error", () => {
    const files = healthy();
    flip(files, segmentPath(1), 64 + 45 + 36);
    const found: number[] = [];
    const error = thrown(() => {
      for (const record of readLog(files, codec, ROOT, "strict")) found.push(record.offset);
    });
    expect(error).toBeInstanceOf(StorageError);
    expect(error.kind).toBe("UnsealedPredecessor");
    expect(found).toEqual([0, 1, 2]);
  });

  it("a sealed last segment of which the footer is wrong is read as an unsealed one", () => {
    const files = newFiles();
    const bytes = putSegment(files, { id: 0, base: 0, payloads: ["a", "b"], sealed: true });
    flip(files, segmentPath(0), 64 + 45 + 40);
    const log = readLog(files, codec, ROOT);
    expect(texts(log)).toEqual(["0:a"]);
    expect(log.losses()).toMatchObject([{ start: 109, end: bytes.length, reason: "CorruptRecordBody" }]);
  });

  it("closes its files, also when the iteration is left early", () => {
    const files = healthy();
    let open = 0;
    const counting: FileSystem = Object.create(files, {
      open: {
        value: (...parts: Parameters<FileSystem["open"]>) => {
          const file = files.open(...parts);
          const close = file.close.bind(file);
          open++;
          file.close = () => {
            open--;
            close();
          };
          return file;
        },
      },
    });
    for (const name of ["list", "stat"] as const) Object.assign(counting, { [name]: files[name].bind(files) });
    const log = readLog(counting, codec, ROOT);
    for (const record of log) if (record.offset === 3) break;
    log.losses();
    expect(open).toBe(0);
  });

  it("strict: a file that got shorter is an error", () => {
    const files = new SimulatedFileSystem();
    files.makeDirectory(ROOT);
    putSegment(files, { id: 0, base: 0, payloads: ["a", "b"] });
    const log = readLog(files, codec, ROOT, "strict");
    put(files, segmentPath(0), get(files, segmentPath(0)).subarray(0, 100));
    expect(thrown(() => texts(log))).toMatchObject({ name: "FileSystemError", code: "EIO" });
  });

  it("strict: whatever happened to the bytes: what is read was written, or a typed error; recovery agrees", () => {
    const payloads = Array.from({ length: 12 }, (_, i) => lcg(i, (i * 37) % 90));
    const first = segmentBytes({ id: 0, base: 0, payloads: payloads.slice(0, 6), sealed: true });
    const last = segmentBytes({ id: 1, base: 6, payloads: payloads.slice(6), tail: new Uint8Array(200) });
    const damage: fc.Arbitrary<Damage> = fc.record({
      inLast: fc.boolean(),
      kind: fc.constantFrom("flip", "cut", "noise", "zero"),
      position: fc.nat(),
      length: fc.integer({ min: 1, max: 80 }),
      noise: fc.uint8Array({ minLength: 80, maxLength: 80 }),
    });
    const damagedBytes = (bytes: Uint8Array, { kind, position, length, noise }: Damage): Uint8Array => {
      const copy = bytes.slice();
      const at = position % copy.length;
      if (kind === "cut") return copy.subarray(0, at);
      if (kind === "flip") copy[at] ^= 1 << (length % 8);
      else if (kind === "zero") copy.fill(0, at, at + length);
      else copy.set(noise.subarray(0, Math.min(length, copy.length - at)), at);
      return copy;
    };
    const typed = (error: unknown): boolean => error instanceof StorageError || error instanceof RecordError;
    fc.assert(
      fc.property(fc.array(damage, { minLength: 1, maxLength: 3 }), (damages) => {
        let [one, two] = [first, last];
        for (const each of damages) {
          if (each.inLast) two = two.length === 0 ? two : damagedBytes(two, each);
          else one = one.length === 0 ? one : damagedBytes(one, each);
        }
        const files = newFiles();
        put(files, segmentPath(0), one);
        put(files, segmentPath(1), two);
        let read: number | undefined;
        try {
          let expected = 0;
          for (const record of readLog(files, codec, ROOT, "strict")) {
            expect(record.offset).toBe(expected);
            expect(record.payload).toEqual(payloads[expected]);
            expected++;
          }
          read = expected;
        } catch (error) {
          if (!typed(error)) throw error;
        }
        let recovered: number | undefined;
        try {
          recovered = recoverLog(files, codec, ROOT, { ...OPTIONS, fullScan: true, recovery: "strict" }).nextOffset;
        } catch (error) {
          if (!typed(error)) throw error;
        }
        expect(recovered).toBe(read);
        if (recovered !== undefined) expect(texts(readLog(files, codec, ROOT, "strict")).length).toBe(recovered);
      }),
      { numRuns: 1500 },
    );
  });
});
