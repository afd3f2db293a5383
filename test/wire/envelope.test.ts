import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FrameSplitter, frameBytesNeeded } from "../../src/wire/envelope.ts";
import { writeFrameHeader } from "../../src/wire/hot.ts";
import { MAX_FRAME_LENGTH } from "../../src/wire/limits.ts";
import { Tag } from "../../src/wire/tags.ts";
import { bytes, hex, kindOf, wireErrorOf } from "./support.ts";

function frame(tag: number, body: Uint8Array): Uint8Array {
  const out = new Uint8Array(5 + body.length);
  out.set(body, writeFrameHeader(out, 0, tag, body.length));
  return out;
}

/** Every frame that comes out of the chunks, as tag and body in hex. */
function split(chunks: readonly Uint8Array[], splitter = new FrameSplitter()): string[] {
  const found: string[] = [];
  for (const chunk of chunks) {
    splitter.push(chunk);
    while (splitter.next()) {
      found.push(`${splitter.tag}:${hex(splitter.buffer.subarray(splitter.bodyStart, splitter.bodyEnd))}`);
    }
  }
  return found;
}

function cut(stream: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const places = [...new Set(cuts.map((at) => at % (stream.length + 1)))].sort((a, b) => a - b);
  return [...places, stream.length].map((end, index) => stream.slice(index === 0 ? 0 : places[index - 1], end));
}

/** Bytes that `action` copies between typed arrays. */
function copiedBytes(action: () => void): number {
  const prototype = Object.getPrototypeOf(Uint8Array.prototype) as Uint8Array;
  const original = prototype.set;
  let copied = 0;
  prototype.set = function (this: Uint8Array, source: ArrayLike<number>, at?: number) {
    copied += source.length;
    original.call(this, source, at);
  };
  try {
    action();
  } finally {
    prototype.set = original;
  }
  return copied;
}

describe("envelope", () => {
  it("wire.md 22.3: a zero length and one above the cap are malformed by their prefix alone", () => {
    expect(wireErrorOf(() => split([bytes("00000000")]))?.message).toBe("frame length prefix is zero");
    expect(kindOf(() => split([bytes("0100010103")]))).toBe("frame-too-large");
    expect(kindOf(() => split([bytes("01000101")]))).toBe("frame-too-large");
    expect(kindOf(() => split([bytes("ffffffff")]))).toBe("frame-too-large");
  });

  it("stays malformed, and gives out the frames before the malformed one", () => {
    const splitter = new FrameSplitter();
    splitter.push(bytes("0100000003000000000100000003"));
    expect(splitter.next()).toBe(true);
    expect(kindOf(() => splitter.next())).toBe("frame-zero");
    expect(kindOf(() => splitter.next())).toBe("frame-zero");
  });

  it("wire.md 22.4: a frame of exactly 16,842,752 is accepted, whole and in chunks of 64 KiB", () => {
    const largest = frame(Tag.Pub, new Uint8Array(MAX_FRAME_LENGTH - 1));
    expect(frameBytesNeeded(largest, 0, largest.length)).toBe(largest.length);
    for (const chunkBytes of [largest.length, 65_536]) {
      const splitter = new FrameSplitter();
      let frames = 0;
      for (let at = 0; at < largest.length; at += chunkBytes) {
        splitter.push(largest.subarray(at, at + chunkBytes));
        while (splitter.next()) {
          frames += 1;
          expect(splitter.bodyEnd - splitter.bodyStart).toBe(MAX_FRAME_LENGTH - 1);
        }
      }
      expect(frames).toBe(1);
      expect(splitter.bytesBuffered).toBe(0);
    }
  });

  it("takes a tighter cap and never a looser one", () => {
    const tight = new FrameSplitter(100);
    expect(split([frame(Tag.Pub, new Uint8Array(99))], tight)).toHaveLength(1);
    expect(kindOf(() => split([frame(Tag.Pub, new Uint8Array(100))], tight))).toBe("frame-too-large");
    const loose = new FrameSplitter(MAX_FRAME_LENGTH * 2);
    expect(kindOf(() => split([bytes("01000101")], loose))).toBe("frame-too-large");
  });

  it("reports how many bytes the front frame needs: 4, then 4 + len", () => {
    const splitter = new FrameSplitter();
    const ping = bytes("0100000003");
    const needed: number[] = [];
    for (const byte of ping) {
      splitter.push(new Uint8Array([byte]));
      needed.push(splitter.next() ? -1 : splitter.bytesNeeded);
    }
    expect(needed).toEqual([4, 4, 4, 5, -1]);
    splitter.push(bytes("0a00000005"));
    expect(splitter.next()).toBe(false);
    expect(splitter.bytesNeeded).toBe(14);
  });

  it("copies a frame that trickles in byte by byte O(n) times", () => {
    const size = 262_144;
    const trickled = frame(Tag.Pub, new Uint8Array(size).fill(7));
    const splitter = new FrameSplitter();
    let frames = 0;
    const copied = copiedBytes(() => {
      for (let at = 0; at < trickled.length; at++) {
        splitter.push(trickled.subarray(at, at + 1));
        if (splitter.next()) frames += 1;
      }
    });
    expect(frames).toBe(1);
    expect(copied).toBeLessThanOrEqual(4 * trickled.length);
  });

  it("copies nothing of frames that lie whole in a chunk", () => {
    const chunk = bytes("0100000003050000000a400000000100000003");
    let frames: string[] = [];
    const copied = copiedBytes(() => {
      frames = split([chunk]);
    });
    expect(frames).toEqual(["3:", "10:40000000", "3:"]);
    expect(copied).toBe(0);
  });

  it("holds memory for the bytes received, not for the length announced", () => {
    const announced = bytes("0000010105");
    const allocated: number[] = [];
    const Original = globalThis.Uint8Array;
    globalThis.Uint8Array = new Proxy(Original, {
      construct(target, args) {
        if (typeof args[0] === "number") allocated.push(args[0]);
        return Reflect.construct(target, args);
      },
    });
    try {
      const splitter = new FrameSplitter();
      splitter.push(announced);
      expect(splitter.next()).toBe(false);
      expect(splitter.bytesNeeded).toBe(MAX_FRAME_LENGTH + 4);
    } finally {
      globalThis.Uint8Array = Original;
    }
    expect(Math.max(...allocated)).toBeLessThanOrEqual(1024);
  });

  it("goes on in the middle of a chunk when more is pushed", () => {
    const splitter = new FrameSplitter();
    splitter.push(bytes("0100000003050000000a4000"));
    expect(splitter.next()).toBe(true);
    splitter.push(bytes("00000100000004"));
    expect(split([new Uint8Array(0)], splitter)).toEqual(["10:40000000", "4:"]);
  });

  it("gives the same frames however the stream is cut", () => {
    const someFrame = fc.record({ tag: fc.integer({ min: 0, max: 255 }), body: fc.uint8Array({ maxLength: 600 }) });
    fc.assert(
      fc.property(
        fc.array(someFrame, { maxLength: 12 }),
        fc.array(fc.nat(8000), { maxLength: 40 }),
        fc.uint8Array({ maxLength: 4 }),
        (frames, cuts, tail) => {
          const stream = new Uint8Array(
            Buffer.concat([...frames.map(({ tag, body }) => frame(tag, body)), tail.fill(0xff).subarray(0, 3)]),
          );
          const splitter = new FrameSplitter();
          expect(split(cut(stream, cuts), splitter)).toEqual(frames.map(({ tag, body }) => `${tag}:${hex(body)}`));
          expect(splitter.bytesBuffered).toBe(Math.min(tail.length, 3));
        },
      ),
    );
  });
});
