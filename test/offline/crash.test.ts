import { describe, expect, it } from "vitest";
import { layoutNeedsMarker, writeLayoutMarker } from "../../src/log/layout-marker.ts";
import { StorageError } from "../../src/log/storage-error.ts";
import { backUp } from "../../src/offline/backup.ts";
import { OfflineError } from "../../src/offline/offline-error.ts";
import { restore } from "../../src/offline/restore.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { ascii, codec, put, putSegment, ROOT, segmentBytes, segmentPath, thrown, tree } from "../log/fixtures.ts";

const OUT = "/backup";
const TARGET = "/restored";
const STYLES = ["lost", "kept", "prefix", "writes", "scattered"] as const;

function syncTree(files: SimulatedFileSystem, root: string): void {
  for (const { name, kind } of files.list(root)) {
    const path = `${root}/${name}`;
    if (kind === "directory") {
      syncTree(files, path);
      continue;
    }
    const file = files.open(path, "write");
    file.sync("full");
    file.close();
  }
  files.syncDirectory(root);
}

/** A durable data directory. */
function source(withMarker: boolean): SimulatedFileSystem {
  const files = new SimulatedFileSystem({ seed: 7, turns: "manual" });
  files.makeDirectory(`${ROOT}/dlq`);
  putSegment(files, { id: 0, base: 0, payloads: ["m0", "m1"], sealed: true });
  putSegment(files, { id: 1, base: 2, payloads: ["m2"], tail: new Uint8Array(5000) });
  put(files, segmentPath(0, `${ROOT}/dlq`), segmentBytes({ id: 0, base: 0, payloads: ["dead"] }));
  if (withMarker) writeLayoutMarker(files, ROOT, codec);
  put(files, `${ROOT}/LOCK`, ascii(""));
  syncTree(files, "/");
  return files;
}

/** What is below a data directory, but for its lock. */
function content(files: SimulatedFileSystem, root: string): Record<string, string> | undefined {
  if (files.stat(root) === undefined) return undefined;
  const entries = Object.entries(tree(files, root)).map(([path, bytes]) => [path.slice(root.length), bytes]);
  return Object.fromEntries(entries.filter(([path]) => path !== "/LOCK"));
}

/** Runs `action` and looks at what a power cut after each of its operations leaves, in each style. */
function afterEachCut(
  files: SimulatedFileSystem,
  action: () => void,
  look: (image: SimulatedFileSystem) => void,
): number {
  let cuts = 0;
  files.onOperation = () => {
    for (const style of STYLES) look(files.imageAfterPowerCut({ style, seed: ++cuts }));
  };
  action();
  files.onOperation = undefined;
  return cuts;
}

describe("a power cut", () => {
  it("while a backup is taken leaves the source alone, and a backup that is whole or refused", () => {
    const files = source(true);
    const before = content(files, ROOT);
    let whole = 0;
    const cuts = afterEachCut(
      files,
      () => backUp(files, codec, { dataDirectory: ROOT, out: OUT }),
      (image) => {
        expect(content(image, ROOT)).toEqual(before);
        try {
          restore(image, codec, { from: OUT, dataDirectory: TARGET, force: false });
        } catch (error) {
          expect(error).toBeInstanceOf(OfflineError);
          expect((error as OfflineError).kind).toMatch(/^(NotFound|InvalidManifest|CorruptBackup)$/);
          expect(image.stat(TARGET)).toBe(undefined);
          return;
        }
        whole++;
        expect(content(image, TARGET)).toEqual(before);
      },
    );
    expect(whole).toBeGreaterThan(0);
    expect(cuts).toBeGreaterThan(5 * whole);
    // Once it is reported done, a cut takes nothing of it back.
    const image = files.cutPower({ style: "lost" });
    restore(image, codec, { from: OUT, dataDirectory: TARGET, force: false });
    expect(content(image, TARGET)).toEqual(before);
  });

  it.each([
    ["a new directory", true, false],
    ["a new directory, from a backup without a layout marker", false, false],
    ["a full directory", true, true],
    ["a full directory, from a backup without a layout marker", false, true],
  ])("while %s is restored leaves what was there, what was wanted, or what no broker opens", (_, withMarker, full) => {
    const files = source(withMarker);
    backUp(files, codec, { dataDirectory: ROOT, out: OUT });
    if (full) {
      files.makeDirectory(`${TARGET}/streams/61`);
      put(files, segmentPath(0, TARGET), segmentBytes({ id: 0, base: 0, payloads: ["old0", "old1", "old2"] }));
      put(files, segmentPath(4, `${TARGET}/streams/61`), segmentBytes({ id: 4, base: 9, payloads: ["old"] }));
    }
    syncTree(files, "/");
    const old = content(files, TARGET);
    const wanted = content(files, ROOT);
    const seen = { old: 0, wanted: 0, refused: 0 };
    const options = { from: OUT, dataDirectory: TARGET, force: true };
    afterEachCut(
      files,
      () => restore(files, codec, options),
      (image) => {
        const found = content(image, TARGET);
        if (found === undefined || Object.keys(found).length === 0 || same(found, old)) {
          seen.old++;
        } else if (same(found, wanted)) {
          seen.wanted++;
        } else {
          seen.refused++;
          let refusal: unknown;
          try {
            layoutNeedsMarker(image, TARGET, codec);
          } catch (error) {
            refusal = error;
          }
          if (refusal === undefined) {
            // A first marker that was cut while it was written: everything else is as it was.
            delete found["/layout.meta"];
            expect(found).toEqual(old ?? {});
          } else {
            expect(refusal).toBeInstanceOf(StorageError);
            expect((refusal as Error).message).toContain("a restore into /restored did not finish");
          }
          restore(image, codec, options);
          expect(content(image, TARGET)).toEqual(wanted);
        }
      },
    );
    expect(seen.old).toBeGreaterThan(0);
    expect(seen.refused).toBeGreaterThan(0);
    expect(content(files.cutPower({ style: "lost" }), TARGET)).toEqual(wanted);
  });
});

describe("a disk that fails", () => {
  it("while it takes a backup leaves no manifest", () => {
    const files = source(true);
    files.limitSpace(3 * 4096);
    expect(thrown(() => backUp(files, codec, { dataDirectory: ROOT, out: OUT }))).toMatchObject({ code: "ENOSPC" });
    expect(files.stat(`${OUT}/MANIFEST`)).toBe(undefined);
    // The lock is free again.
    files.lock(`${ROOT}/LOCK`)!.release();
  });

  it("while it restores leaves a directory that says so, and can be restored into again", () => {
    const files = source(true);
    backUp(files, codec, { dataDirectory: ROOT, out: OUT });
    files.limitSpace(3 * 4096);
    const options = { from: OUT, dataDirectory: TARGET, force: false };
    expect(thrown(() => restore(files, codec, options))).toMatchObject({
      kind: "Interrupted",
      message: expect.stringMatching(/^restoring into \/restored: .*ENOSPC.*restore again, with --force$/),
    });
    expect(thrown(() => layoutNeedsMarker(files, TARGET, codec)).kind).toBe("IncompatibleLayoutVersion");
    files.limitSpace(Number.POSITIVE_INFINITY);
    expect(thrown(() => restore(files, codec, options)).kind).toBe("TargetNotEmpty");
    restore(files, codec, { ...options, force: true });
    expect(content(files, TARGET)).toEqual(content(files, ROOT));
  });

  it("before it restores anything is an error that leaves the target as it was", () => {
    const files = source(true);
    backUp(files, codec, { dataDirectory: ROOT, out: OUT });
    files.makeDirectory(TARGET);
    put(files, segmentPath(0, TARGET), segmentBytes({ id: 0, base: 0, payloads: ["old"] }));
    const old = content(files, TARGET);
    files.fail({ operation: "open", path: /layout\.meta$/, skip: 1, code: "EROFS" });
    const options = { from: OUT, dataDirectory: TARGET, force: true };
    expect(thrown(() => restore(files, codec, options))).toMatchObject({ name: "FileSystemError", code: "EROFS" });
    expect(content(files, TARGET)).toEqual(old);
  });

  it("while it reads a backup is an error before anything is written", () => {
    const files = source(true);
    backUp(files, codec, { dataDirectory: ROOT, out: OUT });
    files.fail({ operation: "read", path: /dlq/, code: "EIO" });
    const error = thrown(() => restore(files, codec, { from: OUT, dataDirectory: TARGET, force: true }));
    expect(error).toMatchObject({ code: "EIO" });
    expect(files.stat(TARGET)).toBe(undefined);
  });
});

function same(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
