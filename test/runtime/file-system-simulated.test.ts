import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Barrier, File, FileSystem, FileSystemError } from "../../src/runtime/file-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { MemoryNetwork } from "../../src/runtime/sockets-memory.ts";
import { Turns } from "../../src/runtime/turns.ts";

const styles = ["lost", "kept", "prefix", "writes", "scattered"] as const;

function bytesOf(files: FileSystem, path: string): Uint8Array | undefined {
  if (files.stat(path) === undefined) return undefined;
  const file = files.open(path, "read");
  const bytes = new Uint8Array(file.status().size);
  file.read(bytes, 0, bytes.length, 0);
  return bytes;
}

const textOf = (files: FileSystem, path: string) => {
  const bytes = bytesOf(files, path);
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
};

function write(file: File, text: string, position: number): void {
  file.write(new TextEncoder().encode(text), 0, text.length, position);
}

/** A disk with one durable file `/f` of the given content. */
function diskWith(text: string, seed = 1): { files: SimulatedFileSystem; file: File } {
  const files = new SimulatedFileSystem({ seed, turns: "manual" });
  const file = files.open("/f", "create");
  write(file, text, 0);
  file.sync("full");
  files.syncDirectory("/");
  return { files, file };
}

describe("durability", () => {
  it("storage.md 22: fdatasync makes written bytes and growth durable", () => {
    const { files, file } = diskWith("old");
    write(file, "new and longer", 0);
    expect(textOf(files.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("old");
    file.sync("data");
    file.truncate(20);
    file.sync("data");
    for (const style of styles) {
      expect(textOf(files.imageAfterPowerCut({ style }), "/f")).toBe("new and longer\0\0\0\0\0\0");
    }
  });

  it("storage.md 22: fdatasync does not make a shrink durable, fsync does", () => {
    const { files, file } = diskWith("0123456789");
    file.truncate(4);
    file.sync("data");
    expect(textOf(files.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("0123456789");
    expect(textOf(files.imageAfterPowerCut({ style: "kept" }), "/f")).toBe("0123");
    write(file, "ab", 4);
    file.sync("data");
    expect(textOf(files.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("0123ab6789");
    expect(textOf(files.imageAfterPowerCut({ style: "kept" }), "/f")).toBe("0123ab");
    file.sync("full");
    for (const style of styles) expect(textOf(files.imageAfterPowerCut({ style }), "/f")).toBe("0123ab");
  });

  it("storage.md 22: create, unlink and rename are durable only after a directory fsync", () => {
    const { files } = diskWith("f");
    const fresh = files.open("/g", "create");
    write(fresh, "g", 0);
    fresh.sync("full");
    files.rename("/f", "/h");
    const lost = files.imageAfterPowerCut({ style: "lost" });
    expect(lost.list("/")).toEqual([{ name: "f", kind: "file" }]);
    const kept = files.imageAfterPowerCut({ style: "kept" });
    expect([textOf(kept, "/f"), textOf(kept, "/g"), textOf(kept, "/h")]).toEqual([undefined, "g", "f"]);
    files.syncDirectory("/");
    files.remove("/g");
    expect(textOf(files.imageAfterPowerCut({ style: "lost" }), "/g")).toBe("g");
    files.syncDirectory("/");
    for (const style of styles) {
      expect(files.imageAfterPowerCut({ style }).list("/")).toEqual([{ name: "h", kind: "file" }]);
    }
  });

  it("loses a whole directory whose own name no barrier covered", () => {
    const files = new SimulatedFileSystem();
    files.makeDirectory("/data/sub");
    files.open("/data/sub/x", "create").close();
    files.syncDirectory("/data/sub");
    files.syncDirectory("/data");
    expect(files.imageAfterPowerCut({ style: "lost" }).stat("/data")).toBeUndefined();
    files.syncDirectory("/");
    expect(files.imageAfterPowerCut({ style: "lost" }).stat("/data/sub/x")?.kind).toBe("file");
  });

  it("makes durable what was written, whatever became of the buffer before the barrier", () => {
    const { files, file } = diskWith("");
    const buffer = Buffer.from("abc");
    file.write(buffer, 0, 3, 0);
    buffer.fill("x");
    file.sync("data");
    expect(textOf(files.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("abc");
  });

  it("never leaves a rename across directories half done", () => {
    const files = new SimulatedFileSystem({ seed: 3 });
    files.makeDirectory("/a");
    files.makeDirectory("/b");
    files.open("/a/x", "create").close();
    for (const path of ["/", "/a", "/b"]) files.syncDirectory(path);
    files.rename("/a/x", "/b/y");
    const seen = new Set<string>();
    for (let seed = 0; seed < 100; seed++) {
      const image = files.imageAfterPowerCut({ seed });
      seen.add(`${image.list("/a").length}${image.list("/b").length}`);
    }
    expect([...seen].sort()).toEqual(["01", "10"]);
    files.syncDirectory("/a");
    expect(files.imageAfterPowerCut({ style: "lost" }).list("/b")).toEqual([{ name: "y", kind: "file" }]);
  });

  it("tears an unsynced write at 512 bytes, and at nothing smaller", () => {
    const { files, file } = diskWith("");
    write(file, "x".repeat(3000), 100);
    const lengths = new Set<number>();
    for (let seed = 0; seed < 200; seed++) {
      const bytes = bytesOf(files.imageAfterPowerCut({ seed, style: "prefix" }), "/f")!;
      lengths.add(bytes.length);
      expect(bytes.subarray(100).every((byte) => byte === 120)).toBe(true);
    }
    expect([...lengths].sort((left, right) => left - right)).toEqual([0, 512, 1024, 1536, 2048, 2560, 3072, 3100]);
    const holes = new Set<boolean>();
    for (let seed = 0; seed < 200; seed++) {
      const bytes = bytesOf(files.imageAfterPowerCut({ seed, style: "scattered" }), "/f")!;
      for (let sector = 0; sector < bytes.length; sector += 512) {
        const part = bytes.subarray(Math.max(100, sector), Math.min(sector + 512, bytes.length));
        expect(new Set(part).size).toBeLessThanOrEqual(1);
        if (part.length > 0 && part[0] === 0) holes.add(bytes.subarray(sector + 512).some((byte) => byte === 120));
      }
    }
    expect(holes).toContain(true);
  });

  it("reorders writes: a later one may survive without an earlier one", () => {
    const { files, file } = diskWith("");
    write(file, "a".repeat(512), 0);
    write(file, "b".repeat(512), 512);
    const seen = new Set<string>();
    for (let seed = 0; seed < 300; seed++) {
      const text = textOf(files.imageAfterPowerCut({ seed }), "/f")!;
      seen.add([text[0], text[512]].map((byte) => (byte === "\0" ? "0" : (byte ?? "-"))).join(""));
    }
    expect([...seen].sort()).toEqual(expect.arrayContaining(["--", "0b", "a-", "a0", "ab"]));
  });

  it("keeps, loses or tears each write by itself: in the middle of several any one may be the only one there", () => {
    const { files, file } = diskWith("");
    for (const [index, letter] of [..."abc"].entries()) write(file, letter.repeat(2048), index * 2048);
    const seen = new Set<string>();
    const parts = new Set<string>();
    for (let seed = 0; seed < 400; seed++) {
      const text = textOf(files.imageAfterPowerCut({ seed, style: "writes" }), "/f")!;
      const middle = text.slice(2048, 4096).padEnd(2048, "\0");
      parts.add([0, 512, 1024, 1536].map((at) => (middle[at] === "b" ? "b" : "-")).join(""));
      seen.add([0, 2048, 4096].map((at) => (text[at] === undefined || text[at] === "\0" ? "-" : text[at])).join(""));
      expect(text).toMatch(/^(?:a{512}|\0{512}){0,4}(?:b{512}|\0{512}){0,4}(?:c{512}|\0{512}){0,4}$/);
    }
    expect([...seen].sort()).toEqual(["---", "--c", "-b-", "-bc", "a--", "a-c", "ab-", "abc"]);
    // Torn once: a beginning or an end of it is there.
    expect([...parts].sort()).toEqual(["----", "---b", "--bb", "-bbb", "b---", "bb--", "bbb-", "bbbb"]);
  });

  it("never leaves a sector that the cache never held: a later write brings the earlier one in its sector along", () => {
    const { files, file } = diskWith("");
    write(file, "a".repeat(100), 0);
    write(file, "b".repeat(100), 100);
    for (let seed = 0; seed < 100; seed++) {
      const text = textOf(files.imageAfterPowerCut({ seed, style: "writes" }), "/f")!;
      expect(text).toMatch(/^(?:a{100}(?:b{100}|\0{0,100})|\0*)$/);
    }
  });

  it("drops or keeps the changes under a failed barrier for good: the next barrier does not bring them back", () => {
    const outcomes = new Set<string>();
    for (let seed = 1; seed <= 40; seed++) {
      const { files, file } = diskWith("old", seed);
      write(file, "new", 0);
      files.fail({ operation: "sync", code: "EIO" });
      expect(() => file.sync("data")).toThrow(expect.objectContaining({ code: "EIO", operation: "sync" }));
      expect(textOf(files, "/f")).toBe("new");
      file.sync("data");
      outcomes.add(textOf(files.cutPower({ style: "lost" }), "/f")!);
    }
    expect([...outcomes].sort()).toEqual(["new", "old"]);
  });

  it("writes a sector as the cache has it: what a failed barrier lost of it goes along with the next write there", () => {
    let lost = 0;
    for (let seed = 1; seed <= 20; seed++) {
      const files = new SimulatedFileSystem({ seed });
      const file = files.open("/f", "create");
      files.syncDirectory("/");
      file.write(new Uint8Array(1024).fill(1), 0, 1024, 0);
      files.fail({ operation: "sync", code: "EIO" });
      expect(() => file.sync("data")).toThrow();
      file.write(new Uint8Array(100).fill(2), 0, 100, 600);
      file.sync("data");
      const bytes = new Uint8Array(1024);
      files.imageAfterPowerCut({ style: "lost" }).open("/f", "read").read(bytes, 0, 1024, 0);
      const sector = new Uint8Array(512).fill(1);
      sector.fill(2, 88, 188);
      expect(bytes.subarray(512)).toEqual(sector);
      if (bytes[0] === 0) lost++;
      expect(bytes.subarray(0, 512)).toEqual(new Uint8Array(512).fill(bytes[0]));
    }
    expect(lost).toBeGreaterThan(2);
    expect(lost).toBeLessThan(18);
  });

  it("does not forget a shrink under a failed barrier: the next fsync covers it", () => {
    const lengths = new Set<number>();
    for (let seed = 1; seed <= 20; seed++) {
      const { files, file } = diskWith("0123456789", seed);
      file.truncate(4);
      files.fail({ operation: "sync", code: "EIO" });
      expect(() => file.sync("full")).toThrow();
      lengths.add(bytesOf(files.imageAfterPowerCut({ style: "scattered" }), "/f")!.length);
      file.sync("full");
      expect(textOf(files.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("0123");
    }
    expect([...lengths].sort()).toEqual([10, 4]);
  });

  it("covers with a barrier what was written before it began, and nothing after", () => {
    const { files, file } = diskWith("");
    const queue = files.createQueue();
    const write = { buffer: new Uint8Array([97]), offset: 0, length: 1, position: 0 };
    queue.submit({ file, write, barrier: "data", done() {} });
    files.step();
    files.step();
    file.write(new Uint8Array([98]), 0, 1, 1);
    expect(files.runAll()).toBe(1);
    expect(textOf(files.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("a");
  });
});

describe("power cut", () => {
  it("is dead afterwards: every call fails and no queued job ends", () => {
    const { files, file } = diskWith("x");
    const queue = files.createQueue();
    let done = 0;
    queue.submit({ file, barrier: "data", done: () => done++ });
    files.cutPower();
    files.runAll();
    expect(done).toBe(0);
    const off = expect.objectContaining({ code: "EIO", message: expect.stringContaining("the power is off") });
    expect(() => files.open("/f", "read")).toThrow(off);
    expect(() => file.read(new Uint8Array(1), 0, 1, 0)).toThrow(off);
    expect(() => file.sync("full")).toThrow(off);
    expect(() => files.stat("/f")).toThrow(off);
  });

  it("gives an image that lives on by itself, without the locks", () => {
    const { files, file } = diskWith("abc");
    expect(files.lock("/f")).toBeDefined();
    const image = files.imageAfterPowerCut();
    write(file, "XYZ", 0);
    file.sync("full");
    expect(textOf(image, "/f")).toBe("abc");
    expect(image.lock("/f")).toBeDefined();
    const copy = image.open("/f", "write");
    write(copy, "123", 0);
    expect(textOf(image.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("abc");
    copy.sync("data");
    expect(textOf(image.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("123");
    expect(textOf(files, "/f")).toBe("XYZ");
  });

  it("leaves of each byte a value that it had since the last barrier, whatever is written, synced and cut", () => {
    const operation = fc.oneof(
      fc.record({ kind: fc.constant("write" as const), at: fc.nat(3000), length: fc.integer({ min: 1, max: 1500 }) }),
      fc.record({ kind: fc.constant("resize" as const), to: fc.nat(4000) }),
      fc.record({ kind: fc.constant("sync" as const), barrier: fc.constantFrom<Barrier>("data", "full") }),
      fc.record({ kind: fc.constant("cut" as const), seed: fc.nat() }),
    );
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 30 }), fc.nat(), (operations, seed) => {
        let { files, file } = diskWith("", seed);
        let possible: Uint8Array[] = [new Uint8Array(0)];
        let shrank = false;
        let stamp = 0;
        for (const step of operations) {
          if (step.kind === "write") {
            stamp = (stamp % 255) + 1;
            file.write(new Uint8Array(step.length).fill(stamp), 0, step.length, step.at);
          } else if (step.kind === "resize") {
            shrank ||= step.to < file.status().size;
            file.truncate(step.to);
          } else if (step.kind === "sync") {
            file.sync(step.barrier);
            if (step.barrier === "full" || !shrank) possible = [];
            if (step.barrier === "full") shrank = false;
          } else {
            files = files.cutPower({ seed: step.seed });
            file = files.open("/f", "write");
            const found = bytesOf(files, "/f")!;
            const lengths = possible.map((each) => each.length);
            expect(found.length).toBeLessThanOrEqual(Math.max(...lengths));
            expect(found.length).toBeGreaterThanOrEqual(Math.min(...lengths));
            const stray = found.findIndex(
              (byte, index) => !possible.some((each) => byte === (index < each.length ? each[index] : 0)),
            );
            expect(stray).toBe(-1);
            possible = [];
            shrank = false;
          }
          possible.push(bytesOf(files, "/f")!);
        }
        file.sync("full");
        for (const style of styles) {
          expect(bytesOf(files.imageAfterPowerCut({ style }), "/f")).toEqual(bytesOf(files, "/f"));
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("copy", () => {
  it("holds what readers see, also what a failed barrier lost, and all of it is durable", () => {
    const { files, file } = diskWith("old");
    files.makeDirectory("/d");
    write(file, "new", 0);
    files.fail({ operation: "sync", code: "EIO" });
    expect(() => file.sync("data")).toThrow();
    const copy = files.copyAsSeen();
    write(file, "!!!", 0);
    for (const style of styles) {
      const image = copy.imageAfterPowerCut({ style });
      expect([textOf(image, "/f"), image.stat("/d")?.kind]).toEqual(["new", "directory"]);
    }
  });
});

describe("killed process", () => {
  it("leaves all that was written to the next one, and no more of it durable than before", () => {
    const { files, file } = diskWith("old");
    const queue = files.createQueue();
    let done = 0;
    files.lock("/f");
    write(file, "new", 0);
    queue.submit({ file, barrier: "data", done: () => done++ });
    const next = files.kill({ turns: "manual" });
    files.runAll();
    expect(done).toBe(0);
    expect(() => files.stat("/f")).toThrow(expect.objectContaining({ code: "EIO" }));
    expect(next.lock("/f")).toBeDefined();
    expect(textOf(next, "/f")).toBe("new");
    expect(textOf(next.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("old");
    const again = next.open("/f", "write");
    again.sync("data");
    expect(textOf(next.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("new");
    const other = next.open("/g", "create");
    expect(other.status().inode).not.toBe(again.status().inode);
  });
});

describe("faults", () => {
  const codeOf = (call: () => unknown): string | undefined => {
    try {
      call();
      return undefined;
    } catch (error) {
      return (error as FileSystemError).code;
    }
  };

  it("fails the n-th barrier once", () => {
    const { files, file } = diskWith("x");
    files.fail({ operation: "sync", code: "EIO", skip: 2 });
    const codes = [1, 2, 3, 4].map(() => codeOf(() => file.sync("data")));
    expect(codes).toEqual([undefined, undefined, "EIO", undefined]);
  });

  it("fails reads with EIO, opens with EMFILE and directory barriers, on paths that match", () => {
    const { files, file } = diskWith("x");
    files.fail({ operation: "read", code: "EIO", path: /^\/f$/, times: 2 });
    files.fail({ operation: "open", code: "EMFILE", path: /seg-/ });
    files.fail({ operation: "sync-directory", code: "EIO" });
    const read = () => file.read(new Uint8Array(1), 0, 1, 0);
    expect([read, read, read].map(codeOf)).toEqual(["EIO", "EIO", undefined]);
    expect(codeOf(() => files.open("/other", "create"))).toBeUndefined();
    expect(codeOf(() => files.open("/seg-1", "create-new"))).toBe("EMFILE");
    expect(codeOf(() => files.open("/seg-1", "create-new"))).toBeUndefined();
    expect(codeOf(() => files.syncDirectory("/"))).toBe("EIO");
    expect(codeOf(() => files.syncDirectory("/"))).toBeUndefined();
    files.fail({ operation: "rename", code: "EIO" });
    files.clearFaults();
    expect(codeOf(() => files.rename("/other", "/another"))).toBeUndefined();
  });

  it("is full after so many bytes, with a short write first; blocks a file has can be overwritten", () => {
    const { files, file } = diskWith("x".repeat(4096));
    files.limitSpace(8192);
    expect(codeOf(() => file.write(new Uint8Array(20_000).fill(1), 0, 20_000, 4000))).toBe("ENOSPC");
    expect(file.status().size).toBe(3 * 4096);
    expect(codeOf(() => write(file, "y", 4095))).toBeUndefined();
    expect(codeOf(() => write(file, "y", 3 * 4096))).toBe("ENOSPC");
    files.limitSpace(Number.POSITIVE_INFINITY);
    expect(codeOf(() => write(file, "y", 3 * 4096))).toBeUndefined();
  });

  it("shortens reads and flips bits that no restart heals", () => {
    const { files, file } = diskWith("abc");
    files.shortenReads({ mostBytes: 2 });
    const buffer = new Uint8Array(3);
    expect([file.read(buffer, 0, 3, 0), file.read(buffer, 0, 3, 0)]).toEqual([2, 3]);
    files.flipBit("/f", 1, 0);
    expect(textOf(files, "/f")).toBe("acc");
    expect(textOf(files.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("acc");
    files.flipBit("/f", 100, 0);
    expect(textOf(files, "/f")).toBe("acc");
    expect(codeOf(() => files.flipBit("/nothing", 0, 0))).toBe("ENOENT");
  });

  it("writes in pieces where told to, a power cut between any two of them", () => {
    const { files, file } = diskWith("");
    files.shortenWrites({ mostBytes: 3, times: 1 });
    const lengths: number[] = [];
    files.onOperation = () => lengths.push(file.status().size);
    write(file, "abcdefgh", 0);
    expect(lengths).toEqual([3, 6, 8]);
    expect(textOf(files, "/f")).toBe("abcdefgh");
    files.shortenWrites({ mostBytes: 3 });
    files.onOperation = () => files.cutPower();
    expect(codeOf(() => write(file, "12345678", 0))).toBe("EIO");
  });

  it("holds barriers of matching files until they are released", () => {
    const { files, file } = diskWith("");
    const other = files.open("/g", "create");
    const done: string[] = [];
    const write = { buffer: new Uint8Array([97]), offset: 0, length: 1, position: 0 };
    const first = files.createQueue();
    const second = files.createQueue();
    files.holdBarriers(/f$/);
    first.submit({ file, write, barrier: "data", done: () => done.push("f1") });
    first.submit({ file, barrier: "none", done: () => done.push("f2") });
    second.submit({ file: other, write, barrier: "data", done: () => done.push("g") });
    files.runAll();
    expect(done).toEqual(["g"]);
    expect(files.heldBarriers).toBe(1);
    expect(textOf(files, "/f")).toBe("a");
    expect(textOf(files.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("");
    files.releaseBarriers();
    files.runAll();
    expect(done).toEqual(["g", "f1", "f2"]);
    expect(textOf(files.imageAfterPowerCut({ style: "lost" }), "/f")).toBe("a");
  });

  it("fails a queued barrier that is held", () => {
    const { files, file } = diskWith("");
    const queue = files.createQueue();
    let result: FileSystemError | undefined;
    files.holdBarriers();
    files.fail({ operation: "sync", code: "EIO" });
    queue.submit({
      file,
      barrier: "data",
      done(error) {
        result = error;
      },
    });
    files.runAll();
    expect(result).toBeUndefined();
    files.releaseBarriers();
    files.runAll();
    expect(result).toMatchObject({ code: "EIO", operation: "sync", path: "/f" });
  });
});

describe("determinism", () => {
  /** A little of everything; the trace says what happened in which order. */
  function run(seed: number): string[] {
    const trace: string[] = [];
    const turns = new Turns("manual", new SeededRandom(seed));
    const files = new SimulatedFileSystem({ seed, turns });
    const network = new MemoryNetwork({ turns, random: new SeededRandom(seed) });
    files.onOperation = (operation, path) => trace.push(`${operation} ${path}`);
    void network.listen(
      { host: "::", port: 7777 },
      { open() {}, data: (_c, chunk) => trace.push(`data ${chunk.length}`), drain() {}, end() {}, close() {} },
    );
    const queues = [files.createQueue(), files.createQueue(), files.createQueue()];
    for (const [index, queue] of queues.entries()) {
      const file = files.open(`/${index}`, "create");
      const buffer = new Uint8Array(5000).fill(index + 1);
      for (let round = 0; round < 5; round++) {
        const write = { buffer, offset: 0, length: 5000, position: round * 5000 };
        queue.submit({ file, write, barrier: "data", done: () => trace.push(`done ${index}`) });
      }
    }
    network.connect({ port: 7777 }).send(new Uint8Array(1000));
    files.syncDirectory("/");
    for (let count = 0; count < 25; count++) files.step();
    const image = files.cutPower();
    for (const { name } of image.list("/")) {
      const bytes = bytesOf(image, `/${name}`)!;
      trace.push(`${name}: ${bytes.length} ${bytes.reduce((sum, byte, index) => (sum + byte * index) % 65_521, 0)}`);
    }
    return trace;
  }

  it("replays from the seed, and differs between seeds", () => {
    const traces = new Set<string>();
    for (let seed = 1; seed <= 10; seed++) {
      const trace = run(seed);
      expect(run(seed)).toEqual(trace);
      traces.add(trace.join("\n"));
    }
    expect(traces.size).toBe(10);
  });

  it("counts the operations at which a power cut can fall", () => {
    const { files, file } = diskWith("x");
    const before = files.operations;
    const seen: string[] = [];
    files.onOperation = (operation) => seen.push(operation);
    write(file, "y", 0);
    file.sync("data");
    file.truncate(0);
    files.open("/g", "create");
    files.stat("/g");
    files.remove("/g");
    files.syncDirectory("/");
    expect(seen).toEqual(["write", "sync", "truncate", "open", "remove", "sync-directory"]);
    expect(files.operations - before).toBe(6);
  });
});
