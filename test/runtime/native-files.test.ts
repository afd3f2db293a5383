import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { beforeAll, describe, expect, it } from "vitest";
import { lcg } from "./codec-fixtures.ts";
import { addonPath, aligned, addon as loaded, mountSmall, useDirectory } from "./native-fixtures.ts";

describe.skipIf(loaded === undefined)("the addon's functions (skipped only where no addon was built)", () => {
  const addon = loaded!;
  const { at, open } = useDirectory();

  describe("alignedBuffer", () => {
    it("is zeroed, 4096-aligned and fit for O_DIRECT", ({ skip }) => {
      for (const length of [1, 4095, 4096, 1 << 20]) {
        const buffer = addon.alignedBuffer(length);
        expect(buffer.length).toBe(length);
        expect(Buffer.alloc(length).equals(buffer)).toBe(true);
      }
      const buffer = aligned(lcg(5, 8192));
      let fd: number;
      try {
        fd = fs.openSync(at("direct"), fs.constants.O_RDWR | fs.constants.O_CREAT | fs.constants.O_DIRECT);
      } catch {
        return skip("this file system has no O_DIRECT");
      }
      // The kernel refuses a direct write from an address that is not aligned.
      expect(fs.writeSync(fd, buffer, 0, 8192, 0)).toBe(8192);
      fs.closeSync(fd);
      expect(fs.readFileSync(at("direct")).equals(buffer)).toBe(true);
    });

    it("counts towards the garbage, and is freed with its buffer", async () => {
      const before = process.memoryUsage().rss;
      let most = 0;
      for (let i = 0; i < 2000; i++) {
        addon.alignedBuffer(1 << 20).fill(1);
        // Finalizers run between turns.
        await new Promise((resolve) => setImmediate(resolve));
        most = Math.max(most, process.memoryUsage().rss - before);
      }
      // 2000 MiB were touched, and nobody asked for a collection.
      expect(most).toBeLessThan(500 << 20);
    });

    it.each([0, -1, 1.5, Number.NaN, 2 ** 30, 2 ** 33])("refuses a length of %s", (length) => {
      expect(() => addon.alignedBuffer(length)).toThrow(/length must be/);
    });
  });

  describe("flock", () => {
    it("excludes a second descriptor until the first is closed, and goes with its process", () => {
      const path = at("LOCK");
      const first = fs.openSync(path, "w");
      const second = fs.openSync(path, "w");
      expect(addon.flock(first)).toBe(true);
      expect(addon.flock(second)).toBe(false);
      expect(spawnSync("flock", ["-n", path, "true"]).status).toBe(1);
      fs.closeSync(first);
      expect(addon.flock(second)).toBe(true);
      fs.closeSync(second);
      expect(spawnSync("flock", ["-n", path, "true"]).status).toBe(0);
    });

    it("throws another errno by its name", () => {
      expect(() => addon.flock(1_000_000)).toThrow(expect.objectContaining({ code: "EBADF" }));
      expect(() => addon.flock(-1)).toThrow(/fd must be/);
    });
  });

  describe("fallocate", () => {
    it("reserves blocks, extends, and never shrinks (storage.md 14.4)", () => {
      const fd = open("allocated");
      fs.writeSync(fd, lcg(1, 100), 0, 100, 0);
      addon.fallocate(fd, 1 << 20);
      const { size, blocks } = fs.fstatSync(fd);
      expect(size).toBe(1 << 20);
      expect(blocks * 512).toBeGreaterThanOrEqual(1 << 20);
      addon.fallocate(fd, 4096);
      addon.fallocate(fd, 0);
      expect(fs.fstatSync(fd).size).toBe(1 << 20);
      const content = fs.readFileSync(at("allocated"));
      expect(content.subarray(0, 100).equals(lcg(1, 100))).toBe(true);
      fs.closeSync(fd);
    });

    it("throws ENOSPC and EBADF by name, and leaves a full disk's file as it is", ({ skip }) => {
      expect(() => addon.fallocate(1_000_000, 1)).toThrow(expect.objectContaining({ code: "EBADF" }));
      expect(() => addon.fallocate(0, -1)).toThrow(/length must be/);
      const small = mountSmall(at("small-disk"), 65_536);
      if (small === undefined) return skip("mounting needs root");
      try {
        const fd = fs.openSync(`${small.path}/file`, "w+");
        expect(() => addon.fallocate(fd, 1 << 20)).toThrow(expect.objectContaining({ code: "ENOSPC" }));
        expect(fs.fstatSync(fd).size).toBe(0);
        fs.closeSync(fd);
      } finally {
        small.unmount();
      }
    });
  });

  describe("raw exports", () => {
    const raw = { exports: {} as Record<string, (...args: unknown[]) => unknown> };
    beforeAll(() => process.dlopen(raw, addonPath));

    it("refuse arguments of another type instead of reading memory that is not theirs", () => {
      const { crc32c, seal, scan } = raw.exports;
      const bytes = new Uint8Array(8);
      for (const wrong of [undefined, null, 5, "text", {}, [], new Float64Array(2), new DataView(new ArrayBuffer(8))]) {
        expect(() => crc32c(wrong, 0, 0)).toThrow();
      }
      expect(() => seal(bytes, new Uint32Array(8), 0, 1, bytes, 0, 0, 0, 0, new Float64Array(1))).toThrow("Int32Array");
      expect(() => scan(bytes, 0, 0, new Int32Array(8), 1, -1, new Float32Array(4))).toThrow("Float64Array");
      expect(() => crc32c(bytes, "0", 0)).toThrow();
    });

    it("check every range themselves, without the codec in front", () => {
      const { crc32c, xxh3, seal, expand, scan, lz4Decompress } = raw.exports;
      const bytes = new Uint8Array(100);
      const table = new Int32Array(8);
      const result = new Float64Array(4);
      const other = new Uint8Array(100);
      for (const call of [
        () => crc32c(bytes, 0, 101),
        () => crc32c(bytes, 5, 4),
        () => xxh3(bytes, -1, 4),
        () => seal(bytes, table, 0, 2, other, 0, 100, 100, 0, result, 0),
        () => seal(bytes, table, 1, 0, other, 0, 100, 100, 0, result, 0),
        () => seal(bytes, table, 0, 1, other, 0, 101, 100, 0, result, 0),
        () => seal(bytes, table, 0, 1, other, 9, 8, 100, 0, result, 0),
        () => seal(bytes, table, 0, 1, other, 0, 100, 100, 2 ** 53, result, 0),
        () => seal(bytes, table, 0, 1, other, 0, 100, 100, 0, new Float64Array(0), 0),
        () => seal(bytes, table, 0, 1, bytes, 0, 100, 100, 0, result, 0),
        () => seal(bytes, table, 0, 1, other, 0, 100, 100, 0, result, 2),
        () => expand(bytes, table, 0, 2, other, new Int32Array(4)),
        () => expand(bytes, table, 1, 0, other, new Int32Array(4)),
        () => expand(bytes, table, 0, 1, other, new Int32Array(1)),
        () => expand(bytes, table, 0, 1, bytes, new Int32Array(2)),
        () => scan(bytes, 0, 101, table, 1, 0, result),
        () => scan(bytes, 0, 100, table, 2, 0, result),
        () => scan(bytes, 0, 100, table, 1, -2, result),
        () => scan(bytes, 0, 100, table, 1, 0, new Float64Array(3)),
        () => scan(bytes, 0, 100, new Int32Array(bytes.buffer, 0, 8), 1, 0, result),
        () => lz4Decompress(bytes, 0, 100, other, 50, 51),
        () => lz4Decompress(bytes, 0, 100, bytes, 0, 10),
      ]) {
        expect(call).toThrow(/must/);
      }
      expect(seal(bytes, Int32Array.of(0, 93, 0, 0, 0, 0, 0, 0), 0, 1, other, 0, 100, 100, 0, result, 0)).toBe(-1);
      expect(expand(bytes, Int32Array.of(1, 0, 0, 0, 0, 0, 95, 9), 0, 1, other, new Int32Array(2))).toBe(-1);
    });

    it("take a transferred array for an empty one", () => {
      const gone = new Uint8Array(100);
      structuredClone(gone.buffer, { transfer: [gone.buffer] });
      expect(raw.exports.crc32c(gone, 0, 0)).toBe(0);
      expect(() => raw.exports.crc32c(gone, 0, 1)).toThrow(/must/);
    });
  });
});
