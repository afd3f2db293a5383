import { expect } from "vitest";
import { inspectLog } from "../../src/log/inspection.ts";
import { readLog } from "../../src/log/offline-reader.ts";
import { type RecoveredLog, recoverLog } from "../../src/log/recovery.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import { codec, newFiles, OPTIONS, putSegment, ROOT, tree } from "./fixtures.ts";

/** Frame of a two-byte payload. */
export const FRAME = 46;

/** Position of record `i` in a segment of two-byte payloads. */
export const at = (i: number): number => 64 + i * FRAME;

export function recover(files: FileSystem, maxSegmentBytes = OPTIONS.maxSegmentBytes): RecoveredLog {
  return recoverLog(files, codec, ROOT, { maxSegmentBytes, fullScan: true });
}

/** Offsets with their payloads, as an offline reader gives them. */
export function texts(files: FileSystem): string[] {
  const found: string[] = [];
  for (const { offset, payload } of readLog(files, codec, ROOT)) {
    found.push(`${offset}:${new TextDecoder().decode(payload)}`);
  }
  return found;
}

/** Three sealed segments of three records and an active one of two. */
export function healthy(files: FileSystem = newFiles()): FileSystem {
  for (let id = 0; id < 3; id++) {
    const payloads = [0, 1, 2].map((i) => `m${id * 3 + i}`);
    putSegment(files, { id, base: id * 3, payloads, sealed: true });
  }
  putSegment(files, { id: 3, base: 9, payloads: ["x9", "xa"], tail: new Uint8Array(500) });
  return files;
}

export const ALL = ["0:m0", "1:m1", "2:m2", "3:m3", "4:m4", "5:m5", "6:m6", "7:m7", "8:m8", "9:x9", "10:xa"];

export function without(...offsets: number[]): string[] {
  return ALL.filter((text) => !offsets.includes(Number.parseInt(text, 10)));
}

/** What recovery and the offline reader agree on; nothing but the report and copies may be new on the disk. */
export function salvaged(files: FileSystem): RecoveredLog {
  const before = tree(files);
  const inspection = inspectLog(files, codec, ROOT, { fullScan: true });
  const read = texts(files);
  expect(tree(files)).toEqual(before);
  const recovered = recover(files);
  expect(recovered.losses).toEqual(inspection.losses);
  expect(recovered.gaps).toEqual(inspection.gaps);
  for (const { start, end } of recovered.gaps) {
    for (const text of read) {
      const offset = Number.parseInt(text, 10);
      expect(offset < start || offset >= end).toBe(true);
    }
  }
  return recovered;
}

/** Every segment but the last is byte for byte what it was. */
export function unchanged(files: FileSystem, before: Record<string, string>): void {
  const after = tree(files);
  for (const [path, bytes] of Object.entries(before)) {
    if (/seg-000000000000000[0-2]\.log$/.test(path)) expect(after[path], path).toBe(bytes);
  }
}
