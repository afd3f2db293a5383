import { describe, expect, it } from "vitest";
import { quarantineHeldBytes, quarantineSpan } from "../../src/log/quarantine.ts";
import { recoverLog } from "../../src/log/recovery.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import {
  ascii,
  codec,
  flip,
  get,
  hex,
  lcg,
  newFiles,
  OPTIONS,
  put,
  putSegment,
  ROOT,
  segmentPath,
} from "./fixtures.ts";
import { newDisk } from "./open-log.ts";

const DIRECTORY = `${ROOT}/quarantine`;
const SOURCE = `${ROOT}/source`;

function capture(files: FileSystem, segmentId: number, start: number, end: number, budget?: number): boolean {
  const source = files.open(SOURCE, "read");
  try {
    return quarantineSpan(files, ROOT, source, { segmentId, label: "corrupt_record_body", start, end }, budget);
  } finally {
    source.close();
  }
}

function blobs(files: FileSystem): string[] {
  return files.list(DIRECTORY).map(({ name }) => name);
}

const name = (id: number, start: number, end: number): string =>
  `q-000000000000000${id}-corrupt_record_body-${start}-${end}.bin`;

describe("quarantine", () => {
  it("storage.md 13: the copy is exact, durable, and named by its span", () => {
    const files = new SimulatedFileSystem({ seed: 5 });
    files.makeDirectory(ROOT);
    files.syncDirectory("/");
    const bytes = lcg(1, 700_000);
    put(files, SOURCE, bytes);
    expect(capture(files, 3, 1000, 650_000)).toBe(true);
    const image = files.imageAfterPowerCut({ style: "lost" });
    expect(hex(get(image, `${DIRECTORY}/${name(3, 1000, 650_000)}`))).toBe(hex(bytes.subarray(1000, 650_000)));
    expect(quarantineHeldBytes(files, ROOT)).toBe(649_000);
  });

  it("storage.md 26.44: over the budget the older blob goes; a span above all of it is not copied", () => {
    const files = newFiles();
    put(files, SOURCE, lcg(1, 4000));
    expect(capture(files, 1, 0, 600, 1000)).toBe(true);
    expect(capture(files, 2, 600, 1200, 1000)).toBe(true);
    expect(blobs(files)).toEqual([name(2, 600, 1200)]);
    expect(capture(files, 3, 0, 1500, 1000)).toBe(false);
    expect(blobs(files)).toEqual([name(2, 600, 1200)]);
    expect(capture(files, 3, 0, 1500, 0)).toBe(true);
    expect(quarantineHeldBytes(files, ROOT)).toBe(2100);
  });

  it("foreign files are neither counted nor evicted", () => {
    const files = newFiles();
    put(files, SOURCE, lcg(1, 4000));
    files.makeDirectory(DIRECTORY);
    put(files, `${DIRECTORY}/a-note`, new Uint8Array(5000));
    expect(capture(files, 1, 0, 900, 1000)).toBe(true);
    expect(blobs(files)).toEqual(["a-note", name(1, 0, 900)]);
    expect(quarantineHeldBytes(files, ROOT)).toBe(900);
    expect(quarantineHeldBytes(newFiles(), ROOT)).toBe(0);
  });

  it("an existing blob is left; one that was cut while it was copied is made again", () => {
    const files = newFiles();
    put(files, SOURCE, ascii("0123456789"));
    files.makeDirectory(DIRECTORY);
    const path = `${DIRECTORY}/${name(1, 2, 6)}`;
    put(files, path, ascii("mine"));
    expect(capture(files, 1, 2, 6)).toBe(true);
    expect(get(files, path)).toEqual(ascii("mine"));
    put(files, path, ascii("23"));
    expect(capture(files, 1, 2, 6)).toBe(true);
    expect(get(files, path)).toEqual(ascii("2345"));
  });

  it("a copy whose barriers an earlier process did not get to survives a power cut all the same", () => {
    for (const killedAfter of ["make-directory", "write", "sync"]) {
      const killed = newDisk();
      put(killed, SOURCE, ascii("0123456789"));
      let next = killed;
      killed.onOperation = (operation) => {
        if (operation === killedAfter) next = killed.kill({ turns: "manual" });
      };
      expect(() => capture(killed, 1, 2, 6)).toThrow();
      expect(capture(next, 1, 2, 6)).toBe(true);
      const image = next.imageAfterPowerCut({ style: "lost" });
      expect(get(image, `${DIRECTORY}/${name(1, 2, 6)}`)).toEqual(ascii("2345"));
    }
  });

  it("storage.md 26.44: recovery goes on when the copy cannot be made, and leaves no half of one", () => {
    for (const [operation, path, code] of [
      ["make-directory", /quarantine/, "EACCES"],
      ["open", /quarantine/, "EACCES"],
      ["write", /quarantine/, "ENOSPC"],
      ["sync", /quarantine/, "EIO"],
    ] as const) {
      const files = new SimulatedFileSystem();
      files.makeDirectory(ROOT);
      putSegment(files, { id: 0, base: 0, payloads: ["m0", "m1", "m2"] });
      flip(files, segmentPath(0), 64 + 46 + 40);
      files.fail({ operation, path, code, times: Number.POSITIVE_INFINITY });
      const recovered = recoverLog(files, codec, ROOT, OPTIONS);
      expect(recovered).toMatchObject({ nextOffset: 1, quarantined: [] });
      expect(recovered.losses.length).toBe(1);
      expect(recovered.problems.map((error) => error.code)).toEqual([code]);
      expect(quarantineHeldBytes(files, ROOT)).toBe(0);
    }
  });
});
