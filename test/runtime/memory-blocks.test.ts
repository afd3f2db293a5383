import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { File } from "../../src/runtime/file-system.ts";
import { EphemeralFileSystem } from "../../src/runtime/file-system-ephemeral.ts";
import { BlockPool, Blocks } from "../../src/runtime/memory-blocks.ts";
import type { MemoryFile } from "../../src/runtime/memory-file.ts";
import { FileNode } from "../../src/runtime/memory-nodes.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** Where edges of blocks and of their growth are. */
const position = fc.oneof(
  fc.integer({ min: 0, max: 300_000 }),
  fc.constantFrom(0, 1, 1023, 1024, 65_535, 65_536, 65_537, 131_072),
);
const change = fc.oneof(
  fc.record({ kind: fc.constant("write" as const), position, length: fc.integer({ min: 0, max: 150_000 }) }),
  fc.record({ kind: fc.constant("resize" as const), position, length: fc.constant(0) }),
);

function held(file: File): number {
  const { node } = file as MemoryFile;
  return node instanceof FileNode ? node.pages.allocatedBytes : Number.NaN;
}

describe("blocks", () => {
  it("hold what a plain array would, whatever a pool's blocks held before", () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 12 }), fc.array(change, { maxLength: 12 }), (before, changes) => {
        const pool = new BlockPool();
        const earlier = new Blocks(pool);
        for (const { position, length } of before) earlier.write(new Uint8Array(length).fill(255), 0, length, position);
        earlier.release();
        expect(earlier.allocatedBytes).toBe(0);
        const blocks = new Blocks(pool);
        let model = new Uint8Array(0);
        for (const [index, { kind, position, length }] of changes.entries()) {
          const end =
            kind === "resize" ? position : length === 0 ? model.length : Math.max(model.length, position + length);
          const next = new Uint8Array(end);
          next.set(model.subarray(0, end));
          if (kind === "resize") {
            blocks.resize(position);
          } else {
            const bytes = new Uint8Array(length + 3).fill(index + 1);
            blocks.write(bytes, 3, length, position);
            if (length > 0) next.fill(index + 1, position, position + length);
          }
          model = next;
        }
        expect(blocks.length).toBe(model.length);
        const read = new Uint8Array(model.length + 10).fill(99);
        expect(blocks.read(read, 2, model.length + 5, 0)).toBe(model.length);
        expect(Buffer.compare(read.subarray(2, 2 + model.length), model)).toBe(0);
        expect(read.subarray(2 + model.length)).toEqual(new Uint8Array(8).fill(99));
      }),
      { numRuns: 200 },
    );
  });

  it("a small file takes little, a length without bytes nothing", () => {
    const files = new EphemeralFileSystem();
    const small = files.open("/small", "create");
    small.write(new Uint8Array(184), 0, 184, 0);
    expect(held(small)).toBe(KIB);
    const reserved = files.open("/reserved", "create");
    reserved.allocate(256 * MIB);
    expect(reserved.status().size).toBe(256 * MIB);
    expect(held(reserved)).toBe(0);
  });

  it("a removed file gives its memory back, once nobody has it open", () => {
    const files = new EphemeralFileSystem();
    const writer = files.open("/x", "create");
    writer.write(new Uint8Array(8 * MIB).fill(7), 0, 8 * MIB, 0);
    const reader = files.open("/x", "read");
    files.remove("/x");
    expect(held(reader)).toBe(8 * MIB);
    writer.close();
    writer.close();
    const byte = new Uint8Array(1);
    expect(reader.read(byte, 0, 1, 8 * MIB - 1)).toBe(1);
    expect(byte[0]).toBe(7);
    reader.close();
    expect(held(reader)).toBe(0);
  });

  it("a file that is replaced by a rename gives its memory back", () => {
    const files = new EphemeralFileSystem();
    const old = files.open("/x", "create");
    old.write(new Uint8Array(MIB), 0, MIB, 0);
    old.close();
    files.open("/y", "create").close();
    files.rename("/y", "/x");
    expect(held(old)).toBe(0);
    expect(files.stat("/x")?.size).toBe(0);
  });

  it("files that come and go do not make the process grow", () => {
    const files = new EphemeralFileSystem();
    const bytes = new Uint8Array(MIB).fill(1);
    const round = (index: number) => {
      const file = files.open(`/${index}`, "create-new");
      for (let at = 0; at < 16; at++) file.write(bytes, 0, MIB, at * MIB);
      file.close();
      files.remove(`/${index}`);
    };
    for (let index = 0; index < 4; index++) round(index);
    const before = process.memoryUsage.rss();
    // 1 GiB in all: a collector that has not run yet would show.
    for (let index = 4; index < 68; index++) round(index);
    expect(process.memoryUsage.rss() - before).toBeLessThan(64 * MIB);
  });
});
