import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CheckpointFile } from "../../src/log/checkpoint-file.ts";
import { encodeCursor } from "../../src/log/checkpoint-payloads.ts";
import { readCheckpoint, slotLength } from "../../src/log/checkpoint-slots.ts";
import type { FileSystem, FileSystemError } from "../../src/runtime/file-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { ascii, codec, EMPTY, get, hex, newFiles, put, ROOT, thrown } from "./fixtures.ts";

const CAPACITY = 64;
const NAME = "cursor.ckpt";
const PATH = `${ROOT}/${NAME}`;
const SLOT = 78;

interface Opened {
  checkpoint: CheckpointFile;
  errors: FileSystemError[];
}

function open(files: FileSystem, initial: Uint8Array = EMPTY, capacity = CAPACITY): Opened {
  const errors: FileSystemError[] = [];
  const checkpoint = CheckpointFile.open({
    files,
    codec,
    queue: files.createQueue(),
    root: ROOT,
    name: NAME,
    capacity,
    initialPayload: initial,
    onError: (error) => errors.push(error),
  });
  return { checkpoint, errors };
}

function simulated(turns: "auto" | "manual" = "manual"): SimulatedFileSystem {
  const files = new SimulatedFileSystem({ seed: 7, turns });
  files.makeDirectory(ROOT);
  files.syncDirectory("/");
  return files;
}

function stored(files: FileSystem, capacity = CAPACITY): string | undefined {
  const payload = readCheckpoint(files, PATH, capacity, codec)?.payload;
  return payload === undefined ? undefined : new TextDecoder().decode(payload);
}

/** A file whose last two writes were `older` and `newer`. */
function twoWrites(older: string, newer: string): { files: FileSystem; bytes: Uint8Array } {
  const files = newFiles();
  const { checkpoint } = open(files, ascii(older));
  checkpoint.saveNow(ascii(newer));
  return { files, bytes: get(files, PATH) };
}

describe("checkpoint container", () => {
  it("storage.md 26.17: the first write fills slot 1, the second changes slot 0 only", () => {
    const files = newFiles();
    const { checkpoint } = open(files, encodeCursor({ committed: 5, runs: [] }, codec));
    expect(checkpoint.state).toBe("empty");
    const first = get(files, PATH);
    expect(first.length).toBe(156);
    expect(hex(first)).toBe(
      `${"00".repeat(78)}01000000000000000d00010500000000000000a141fa27${"00".repeat(51)}11abf608`,
    );
    checkpoint.saveNow(encodeCursor({ committed: 6, runs: [] }, codec));
    const second = get(files, PATH);
    expect(hex(second.subarray(SLOT))).toBe(hex(first.subarray(SLOT)));
    expect(hex(second.subarray(0, 10))).toBe("02000000000000000d00");
  });

  it("gives back the newest payload and goes on from its number", () => {
    const { files } = twoWrites("a", "b");
    const { checkpoint } = open(files);
    expect(checkpoint.state).toBe("valid");
    expect(checkpoint.payload).toEqual(ascii("b"));
    checkpoint.saveNow(ascii("c"));
    expect(hex(get(files, PATH).subarray(SLOT, SLOT + 8))).toBe("0300000000000000");
    expect(stored(files)).toBe("c");
  });

  it("storage.md 26.19: the newest slot corrupt gives the one before, both corrupt are damage", () => {
    const { files, bytes } = twoWrites("older", "newer");
    const corrupt = bytes.slice();
    corrupt[12] ^= 1;
    put(files, PATH, corrupt);
    const previous = open(files).checkpoint;
    expect([previous.state, previous.payload]).toEqual(["valid", ascii("older")]);
    corrupt[SLOT + 12] ^= 1;
    put(files, PATH, corrupt);
    const { checkpoint } = open(files, ascii("new"));
    expect([checkpoint.state, checkpoint.payload]).toEqual(["damaged", undefined]);
    expect(stored(files)).toBe("new");
  });

  it("storage.md 26.19: one corrupt and one never written are empty", () => {
    const files = newFiles();
    open(files, ascii("first"));
    const bytes = get(files, PATH);
    bytes[SLOT + 12] ^= 1;
    put(files, PATH, bytes);
    expect(open(files).checkpoint.state).toBe("empty");
  });

  it("README ruling 13: a file of zeros is damage, and so is a short one; an empty one is what a cut creation leaves", () => {
    for (const [length, state] of [
      [2 * SLOT, "damaged"],
      [4096, "damaged"],
      [2 * SLOT - 1, "damaged"],
      [1, "damaged"],
      [0, "empty"],
    ] as const) {
      const files = newFiles();
      put(files, PATH, new Uint8Array(length));
      expect(open(files, ascii("x")).checkpoint.state, `${length} bytes`).toBe(state);
      expect(stored(files)).toBe("x");
    }
  });

  it("storage.md 2 rule 7: bytes behind the two slots are ignored", () => {
    const { files, bytes } = twoWrites("a", "b");
    const padded = new Uint8Array(4096).fill(0xee);
    padded.set(bytes);
    put(files, PATH, padded);
    expect(open(files).checkpoint.payload).toEqual(ascii("b"));
  });

  it("a length above the capacity is corrupt", () => {
    const { files, bytes } = twoWrites("a", "b");
    new DataView(bytes.buffer).setUint16(8, 65, true);
    put(files, PATH, bytes);
    expect(stored(files)).toBe("a");
  });

  it("storage.md 26.20: any flipped byte leaves a value that was written, or none", () => {
    const { files, bytes } = twoWrites("older", "newer");
    for (let at = 0; at < bytes.length; at++) {
      for (const mask of [1, 0x80, 0xff]) {
        const damaged = bytes.slice();
        damaged[at] ^= mask;
        put(files, PATH, damaged);
        expect(["older", "newer"], `byte ${at}`).toContain(stored(files));
      }
    }
    const any = fc.oneof(
      fc.uint8Array({ maxLength: 400 }),
      fc.tuple(fc.nat({ max: 155 }), fc.uint8Array({ maxLength: 156 })).map(([at, noise]) => {
        const damaged = bytes.slice();
        damaged.set(noise.subarray(0, damaged.length - at), at);
        return damaged;
      }),
      fc.nat({ max: 155 }).map((length) => bytes.slice(0, length)),
    );
    fc.assert(
      fc.property(any, (damaged) => {
        put(files, PATH, damaged);
        expect(["older", "newer", undefined]).toContain(stored(files));
      }),
      { numRuns: 500 },
    );
  });

  it("slots are capacity + 14 bytes", () => {
    expect([64, 256, 32_768].map((capacity) => 2 * slotLength(capacity))).toEqual([156, 540, 65_564]);
  });

  it("reading changes nothing, also when there is no file", () => {
    const files = newFiles();
    expect(readCheckpoint(files, PATH, CAPACITY, codec)).toBeUndefined();
    expect(files.list(ROOT)).toEqual([]);
  });
});

describe("saving", () => {
  it("storage.md 8.1: a new file is durable with its first payload", () => {
    const files = simulated();
    open(files, ascii("first"));
    expect(stored(files.imageAfterPowerCut({ style: "lost" }))).toBe("first");
  });

  it("a payload above the capacity is refused before anything is written", () => {
    const files = newFiles();
    const { checkpoint } = open(files, ascii("x"));
    const before = hex(get(files, PATH));
    expect(thrown(() => checkpoint.save(new Uint8Array(65)))).toBeInstanceOf(RangeError);
    expect(thrown(() => checkpoint.saveNow(new Uint8Array(65)))).toBeInstanceOf(RangeError);
    expect(hex(get(files, PATH))).toBe(before);
    expect(checkpoint.busy).toBe(false);
  });

  it("is in the page cache at once, durable after the barrier; only the newest waits", async () => {
    const files = simulated();
    const { checkpoint, errors } = open(files, ascii("0"));
    checkpoint.save(ascii("1"));
    expect(stored(files)).toBe("1");
    expect(stored(files.imageAfterPowerCut({ style: "lost" }))).toBe("0");
    checkpoint.save(ascii("2"));
    checkpoint.save(ascii("3"));
    expect(stored(files)).toBe("1");
    const syncs: string[] = [];
    files.onOperation = (operation) => void syncs.push(operation);
    files.runAll();
    await checkpoint.idle();
    expect(syncs).toEqual(["sync", "write", "sync"]);
    expect(stored(files.imageAfterPowerCut({ style: "lost" }))).toBe("3");
    expect(errors).toEqual([]);
  });

  it("two slots are never unsynced together: a cut at any moment leaves a value that was saved", () => {
    // Slots of several sectors, so that a cut can tear one.
    const capacity = 3000;
    const value = (i: number): string => `v${i} `.repeat(700).slice(0, 2500);
    for (let seed = 1; seed <= 40; seed++) {
      const files = simulated();
      const seen: { image: SimulatedFileSystem; allowed: string[] }[] = [];
      let durable = 0;
      let newest = 0;
      const { checkpoint } = open(files, ascii(value(0)), capacity);
      files.onOperation = () => {
        const allowed: string[] = [];
        for (let i = durable; i <= newest; i++) allowed.push(value(i));
        seen.push({ image: files.imageAfterPowerCut({ seed: seed * 1000 + seen.length }), allowed });
      };
      for (let i = 1; i <= 12; i++) {
        newest = i;
        if (i % 3 === 0) {
          checkpoint.saveNow(ascii(value(i)));
          durable = i;
        } else {
          checkpoint.save(ascii(value(i)));
        }
        for (let steps = (i * seed) % 4; steps > 0; steps--) files.step();
      }
      files.runAll();
      expect(stored(files, capacity)).toBe(value(12));
      expect(seen.length).toBeGreaterThan(6);
      for (const { image, allowed } of seen) expect(allowed).toContain(stored(image, capacity));
    }
  });

  it("what a killed process had not synced is synced before the next save overwrites the value before it", () => {
    for (let seed = 1; seed <= 40; seed++) {
      const files = simulated();
      open(files, ascii("durable")).checkpoint.save(ascii("in the cache"));
      const { checkpoint } = open(files);
      expect(new TextDecoder().decode(checkpoint.payload)).toBe("in the cache");
      checkpoint.save(ascii("next"));
      expect(["in the cache", "next"]).toContain(stored(files.imageAfterPowerCut({ style: "scattered", seed })));
      expect(stored(files.imageAfterPowerCut({ style: "lost" }))).toBe("in the cache");
    }
  });

  it("storage.md 17: a failed barrier is told, and the value before stays whole whatever follows", async () => {
    const files = simulated("auto");
    const { checkpoint, errors } = open(files, ascii("good"));
    files.fail({ operation: "sync", code: "EIO" });
    checkpoint.save(ascii("bad"));
    await checkpoint.idle();
    expect(errors.map((error) => error.code)).toEqual(["EIO"]);
    checkpoint.save(ascii("next"));
    expect(["good", "next"]).toContain(stored(files.imageAfterPowerCut({ style: "scattered" })));
    expect(stored(files.imageAfterPowerCut({ style: "lost" }))).not.toBeUndefined();
    await checkpoint.idle();
    expect(stored(files.imageAfterPowerCut({ style: "lost" }))).toBe("next");
    expect(errors.length).toBe(1);
  });

  it("storage.md 17: what a failed barrier lost is not taken for saved by the next process", () => {
    const failing: ((checkpoint: CheckpointFile, files: SimulatedFileSystem) => void)[] = [
      (checkpoint) => checkpoint.save(ascii("doubtful")),
      (checkpoint) => expect(thrown(() => checkpoint.saveNow(ascii("doubtful")))).toMatchObject({ code: "EIO" }),
      (checkpoint, files) => {
        files.clearFaults();
        checkpoint.save(ascii("doubtful"));
        files.fail({ operation: "sync", code: "EIO" });
        expect(thrown(() => open(files))).toMatchObject({ code: "EIO" });
      },
    ];
    for (const fail of failing) {
      for (let seed = 1; seed <= 20; seed++) {
        const files = new SimulatedFileSystem({ seed, turns: "manual" });
        files.makeDirectory(ROOT);
        files.syncDirectory("/");
        const { checkpoint } = open(files, ascii("good"));
        files.fail({ operation: "sync", code: "EIO" });
        fail(checkpoint, files);
        files.step();
        const next = files.kill({ seed, turns: "manual" });
        const reopened = open(next).checkpoint;
        expect(new TextDecoder().decode(reopened.payload)).toBe("doubtful");
        expect(stored(next.imageAfterPowerCut({ style: "lost" }))).toBe("doubtful");
        reopened.save(ascii("next"));
        const image = next.imageAfterPowerCut({ style: "scattered", seed });
        expect(["doubtful", "next"]).toContain(stored(image));
      }
    }
  });

  it("a failed write is told at once and leaves the value before", async () => {
    const files = simulated("auto");
    const { checkpoint, errors } = open(files, ascii("good"));
    files.fail({ operation: "write", code: "EIO" });
    checkpoint.save(ascii("bad"));
    expect(errors.map((error) => error.code)).toEqual(["EIO"]);
    expect(checkpoint.busy).toBe(false);
    expect(stored(files)).toBe("good");
    files.fail({ operation: "write", code: "EIO" });
    expect(thrown(() => checkpoint.saveNow(ascii("bad")))).toMatchObject({ code: "EIO" });
    checkpoint.save(ascii("next"));
    await checkpoint.idle();
    expect(stored(files)).toBe("next");
  });

  it("README ruling 11: a full disk at creation is told, and a later save creates the file", async () => {
    const files = simulated("auto");
    files.limitSpace(0);
    const { checkpoint, errors } = open(files, ascii("first"));
    expect(errors.map((error) => error.code)).toEqual(["ENOSPC"]);
    expect(checkpoint.state).toBe("empty");
    checkpoint.save(ascii("second"));
    expect(errors.length).toBe(2);
    files.limitSpace(1 << 20);
    checkpoint.save(ascii("third"));
    await checkpoint.idle();
    expect(errors.length).toBe(2);
    expect(stored(files.imageAfterPowerCut({ style: "lost" }))).toBe("third");
  });

  it("any other failure at creation is thrown", () => {
    const files = simulated("auto");
    files.fail({ operation: "sync-directory", code: "EIO" });
    expect(thrown(() => open(files))).toMatchObject({ code: "EIO" });
  });

  it("a read that fails or comes short is an error, not an empty checkpoint", () => {
    const files = simulated("auto");
    open(files, ascii("x")).checkpoint.close();
    files.fail({ operation: "read", code: "EIO" });
    expect(thrown(() => open(files))).toMatchObject({ code: "EIO" });
    files.clearFaults();
    files.shortenReads({ mostBytes: 100 });
    expect(thrown(() => open(files))).toMatchObject({ code: "EIO" });
  });

  it("close() waits for the barrier in flight and refuses what comes later", async () => {
    const files = simulated();
    const { checkpoint } = open(files, ascii("0"));
    checkpoint.save(ascii("1"));
    checkpoint.close();
    expect(thrown(() => checkpoint.save(ascii("2"))).message).toContain("is closed");
    files.runAll();
    await checkpoint.idle();
    expect(stored(files.imageAfterPowerCut({ style: "lost" }))).toBe("1");
  });
});
