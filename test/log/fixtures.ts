import { expect } from "vitest";
import { encodeRecord, type StoredRecord } from "../../src/log/record.ts";
import { encodeSegmentFooter, encodeSegmentHeader } from "../../src/log/segment.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import { MemoryFileSystem } from "../../src/runtime/file-system-memory.ts";
import { loadCodec } from "../../src/runtime/native/codec.ts";

export const { codec } = loadCodec();
export const ROOT = "/data";
export const OPTIONS = { maxSegmentBytes: 64 * 1024 * 1024 };

export const EMPTY = new Uint8Array(0);

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

export function unhex(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, "hex"));
}

export function ascii(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function join(...parts: Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

/** The bytes of the vectors' generator: x = x * 1664525 + 1013904223 mod 2^32, byte = x >> 24. */
export function lcg(seed: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let x = seed >>> 0;
  for (let i = 0; i < length; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    bytes[i] = x >>> 24;
  }
  return bytes;
}

export function record(fields: Partial<StoredRecord>): StoredRecord {
  return { sequence: 0n, timestampMs: 0n, flags: 0, key: EMPTY, headers: EMPTY, payload: EMPTY, ...fields };
}

export function frame(fields: Partial<StoredRecord>): Uint8Array {
  return encodeRecord(record(fields), codec);
}

export function header(id: number, base: number): Uint8Array {
  return encodeSegmentHeader({ segmentId: id, baseSequence: base, baseOffset: base, createdUnixMs: 0 }, codec);
}

export interface SegmentFields {
  id: number;
  base: number;
  payloads: (string | Uint8Array)[];
  sealed?: boolean;
  /** Appended behind everything. */
  tail?: Uint8Array;
}

/** A segment file as the writer leaves it; record `i` has timestamp 1000 + its offset. */
export function segmentBytes({ id, base, payloads, sealed, tail }: SegmentFields): Uint8Array {
  const frames = payloads.map((payload, i) =>
    frame({
      sequence: BigInt(base + i),
      timestampMs: BigInt(1000 + base + i),
      payload: typeof payload === "string" ? ascii(payload) : payload,
    }),
  );
  const count = payloads.length;
  const footer = sealed
    ? [encodeSegmentFooter({ segmentId: id, lastSequence: base + count - 1, recordCount: count }, codec)]
    : [];
  return join(header(id, base), ...frames, ...footer, tail ?? EMPTY);
}

export function segmentPath(id: number, root = ROOT): string {
  return `${root}/seg-${id.toString(16).padStart(16, "0")}.log`;
}

export function newFiles(root = ROOT): MemoryFileSystem {
  const files = new MemoryFileSystem();
  files.makeDirectory(root);
  return files;
}

export function put(files: FileSystem, path: string, bytes: Uint8Array): void {
  const file = files.open(path, "create");
  file.truncate(0);
  file.write(bytes, 0, bytes.length, 0);
  file.close();
}

export function get(files: FileSystem, path: string): Uint8Array {
  const size = files.stat(path)!.size;
  const bytes = new Uint8Array(size);
  const file = files.open(path, "read");
  expect(file.read(bytes, 0, size, 0)).toBe(size);
  file.close();
  return bytes;
}

export function putSegment(files: FileSystem, fields: SegmentFields): Uint8Array {
  const bytes = segmentBytes(fields);
  put(files, segmentPath(fields.id), bytes);
  return bytes;
}

/** Every file below `root` with its bytes in hex, and every directory. */
export function tree(files: FileSystem, root = ROOT): Record<string, string> {
  const found: Record<string, string> = {};
  for (const { name, kind } of files.list(root)) {
    const path = `${root}/${name}`;
    if (kind === "directory") {
      found[`${path}/`] = "";
      Object.assign(found, tree(files, path));
    } else {
      found[path] = hex(get(files, path));
    }
  }
  return found;
}

/** Byte and bit of the file at `path` changed in place. */
export function flip(files: FileSystem, path: string, position: number, bit = 0): void {
  const bytes = get(files, path);
  bytes[position] ^= 1 << bit;
  put(files, path, bytes);
}

/** The error that `action` throws; the test fails when it throws none. */
export function thrown(action: () => unknown): Error & { kind?: string } {
  try {
    action();
  } catch (error) {
    return error as Error & { kind?: string };
  }
  throw new Error("nothing was thrown");
}
