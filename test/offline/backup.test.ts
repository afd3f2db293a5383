import { describe, expect, it } from "vitest";
import { CURSOR_CAPACITY, encodeCursor } from "../../src/log/checkpoint-payloads.ts";
import { writeLayoutMarker } from "../../src/log/layout-marker.ts";
import { recoverLog } from "../../src/log/recovery.ts";
import { backUp } from "../../src/offline/backup.ts";
import { restore } from "../../src/offline/restore.ts";
import type { MemoryFileSystem } from "../../src/runtime/file-system-memory.ts";
import {
  ascii,
  codec,
  flip,
  frame,
  get,
  header,
  join,
  newFiles,
  OPTIONS,
  put,
  putSegment,
  ROOT,
  segmentPath,
  thrown,
  tree,
} from "../log/fixtures.ts";

const OUT = "/backup";
const TARGET = "/restored";

/** Two segments, a cursor, a dead letter, and files that are none of IronBus's. */
function source(): MemoryFileSystem {
  const files = newFiles();
  putSegment(files, { id: 0, base: 0, payloads: ["m0", "m1", "m2"], sealed: true });
  putSegment(files, { id: 1, base: 3, payloads: ["m3"], tail: new Uint8Array(3 * 1024 * 1024) });
  writeLayoutMarker(files, ROOT, codec);
  put(files, `${ROOT}/cursor.ckpt`, new Uint8Array(2 * (CURSOR_CAPACITY + 14)));
  put(files, `${ROOT}/cursor-67.ckpt`, encodeCursor({ committed: 2, runs: [] }, codec));
  put(files, `${ROOT}/LOCK`, ascii("pid"));
  put(files, `${ROOT}/a name with blanks`, ascii("x"));
  files.makeDirectory(`${ROOT}/dlq`);
  const letter = frame({
    headers: Buffer.from("444c51310900000000000000060000000100000067", "hex"),
    payload: ascii("dead"),
  });
  put(files, segmentPath(0, `${ROOT}/dlq`), join(header(0, 0), letter, frame({ sequence: 1n })));
  files.makeDirectory(`${ROOT}/empty`);
  return files;
}

function backedUp(): MemoryFileSystem {
  const files = source();
  backUp(files, codec, { dataDirectory: ROOT, out: OUT });
  return files;
}

function manifestText(files: MemoryFileSystem): string {
  return new TextDecoder().decode(get(files, `${OUT}/MANIFEST`));
}

/** The data directory's files, without its lock and without empty directories. */
function content(files: MemoryFileSystem, root: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(tree(files, root))
      .filter(([path]) => !path.endsWith("/") && path !== `${root}/LOCK`)
      .map(([path, bytes]) => [path.slice(root.length), bytes]),
  );
}

const restoring = { from: OUT, dataDirectory: TARGET, force: false };

describe("backup", () => {
  it("storage.md 21.1: copies every file but LOCK and writes the manifest", () => {
    const files = source();
    const before = tree(files);
    const seen: number[][] = [];
    const report = backUp(files, codec, {
      dataDirectory: ROOT,
      out: OUT,
      progress: (...progress) => seen.push(progress),
    });
    expect(tree(files)).toEqual(before);
    expect(content(files, `${OUT}/data`)).toEqual(content(files, ROOT));
    expect(files.stat(`${OUT}/data/LOCK`)).toBe(undefined);
    const lines = manifestText(files).split("\n");
    expect(lines.slice(0, 3)).toEqual(["IBBKP 1", "range 0 4 cursors 2 dlq 1", "files 7"]);
    // A directory's files by name, then its subdirectories'.
    expect(lines.slice(3, -1).map((line) => line.replace(/^\d+ \d+ /, ""))).toEqual([
      "a name with blanks",
      "cursor-67.ckpt",
      "cursor.ckpt",
      "layout.meta",
      "seg-0000000000000000.log",
      "seg-0000000000000001.log",
      "dlq/seg-0000000000000000.log",
    ]);
    const segment = get(files, segmentPath(1));
    expect(lines).toContain(`${codec.crc32c(segment, 0, segment.length)} ${segment.length} seg-0000000000000001.log`);
    expect(report).toMatchObject({ skipped: [], damaged: false });
    expect(report.bytes).toBe(
      report.manifest.files.reduce((sum, file) => sum + files.stat(`${ROOT}/${file.path}`)!.size, 0),
    );
    expect(seen.at(-1)).toEqual([report.bytes, report.bytes]);
    expect(seen.length).toBeGreaterThan(7);
  });

  it("refuses more files than a manifest can list before it copies the first one", () => {
    const files = source();
    let directory = ROOT;
    for (let depth = 1; depth < 16; depth++) {
      directory += `/${"d".repeat(250)}`;
      files.makeDirectory(directory);
    }
    for (let i = 0; i < 4300; i++) put(files, `${directory}/${"f".repeat(250)}${i}`, new Uint8Array(0));
    expect(thrown(() => backUp(files, codec, { dataDirectory: ROOT, out: OUT }))).toMatchObject({
      kind: "UnsupportedEntry",
      message: "a backup of 4307 files has too long a manifest",
    });
    expect(files.stat(OUT)).toBeUndefined();
  });

  it("refuses a locked source, a target that is not empty, and one inside the source", () => {
    const files = source();
    const lock = files.lock(`${ROOT}/LOCK`)!;
    expect(thrown(() => backUp(files, codec, { dataDirectory: ROOT, out: OUT }))).toMatchObject({
      kind: "LockHeld",
      message: "cannot back up /data: a broker holds its exclusive lock (stop the broker first)",
    });
    lock.release();
    for (const out of [ROOT, `${ROOT}/backups/today`]) {
      expect(thrown(() => backUp(files, codec, { dataDirectory: ROOT, out })).kind).toBe("OverlappingDirectories");
    }
    expect(files.stat(OUT)).toBe(undefined);
    files.makeDirectory(OUT);
    put(files, `${OUT}/x`, ascii("x"));
    expect(thrown(() => backUp(files, codec, { dataDirectory: ROOT, out: OUT }))).toMatchObject({
      kind: "TargetNotEmpty",
      message: "backup directory /backup is not empty (1 existing entry)",
    });
    expect(Object.keys(tree(files, OUT))).toEqual([`${OUT}/x`]);
  });

  it("refuses what is no data directory, and names it", () => {
    const files = newFiles("/home");
    put(files, "/home/letter.txt", ascii("x"));
    expect(thrown(() => backUp(files, codec, { dataDirectory: "/home", out: OUT })).message).toMatch(
      /^no data directory at \/home: it holds other files/,
    );
    expect(Object.keys(tree(files, "/home"))).toEqual(["/home/letter.txt"]);
    expect(thrown(() => backUp(files, codec, { dataDirectory: "/nothing", out: OUT })).message).toBe(
      "no data directory at /nothing",
    );
  });

  it("refuses a name that no manifest can hold before it copies anything", () => {
    for (const name of ["two\nlines", "not \ufffd utf-8", "tab\t"]) {
      const files = source();
      put(files, `${ROOT}/dlq/${name}`, ascii("x"));
      const error = thrown(() => backUp(files, codec, { dataDirectory: ROOT, out: OUT }));
      expect(error.kind).toBe("UnsupportedEntry");
      expect(error.message).toContain(JSON.stringify(`/data/dlq/${name}`));
      expect(files.stat(OUT)).toBe(undefined);
    }
  });

  it("copies damage as it is, and says that there is some", () => {
    const files = source();
    flip(files, segmentPath(1), 64 + 40);
    const report = backUp(files, codec, { dataDirectory: ROOT, out: OUT });
    expect(report.damaged).toBe(true);
    expect(content(files, `${OUT}/data`)).toEqual(content(files, ROOT));
  });
});

describe("restore", () => {
  it("storage.md 26.49: gives the same tree, which recovers as the source does", () => {
    const files = backedUp();
    const report = restore(files, codec, restoring);
    expect(content(files, TARGET)).toEqual(content(files, ROOT));
    expect(report.manifest.durableHead).toBe(4);
    const recovered = recoverLog(files, codec, TARGET, OPTIONS);
    expect(recovered).toMatchObject({ nextOffset: 4, losses: [], problems: [] });
  });

  it("takes an empty directory, one with a lock only, and a backup without a layout marker", () => {
    const files = source();
    files.remove(`${ROOT}/layout.meta`);
    backUp(files, codec, { dataDirectory: ROOT, out: OUT });
    files.makeDirectory(TARGET);
    put(files, `${TARGET}/LOCK`, ascii(""));
    restore(files, codec, restoring);
    expect(content(files, TARGET)).toEqual(content(files, ROOT));
    expect(files.stat(`${TARGET}/layout.meta`)).toBe(undefined);
  });

  it("storage.md 26.49: a target that is not empty needs --force, which clears it", () => {
    const files = backedUp();
    files.makeDirectory(`${TARGET}/streams/6f`);
    put(files, `${TARGET}/streams/6f/seg-0000000000000000.log`, ascii("old"));
    const message = (count: string) => `target data directory is not empty (${count}); pass --force to overwrite`;
    expect(thrown(() => restore(files, codec, restoring)).message).toBe(message("1 existing entry"));
    put(files, `${TARGET}/seg-0000000000000009.log`, ascii("old"));
    const before = tree(files, TARGET);
    expect(thrown(() => restore(files, codec, restoring)).message).toBe(message("2 existing entries"));
    expect(tree(files, TARGET)).toEqual(before);
    restore(files, codec, { ...restoring, force: true });
    expect(content(files, TARGET)).toEqual(content(files, ROOT));
    expect(files.stat(`${TARGET}/streams`)).toBe(undefined);
  });

  const damages: [string, (files: MemoryFileSystem) => void, RegExp][] = [
    [
      "a flipped bit",
      (files) => flip(files, `${OUT}/data/seg-0000000000000000.log`, 80),
      /^corrupt or incomplete backup: data\/seg-0000000000000000\.log: its checksum/,
    ],
    [
      "a missing file",
      (files) => files.remove(`${OUT}/data/dlq/seg-0000000000000000.log`),
      /^corrupt or incomplete backup: data\/dlq\/seg-0000000000000000\.log: it is missing/,
    ],
    [
      "a cut file",
      (files) => put(files, `${OUT}/data/cursor.ckpt`, ascii("x")),
      /^corrupt or incomplete backup: data\/cursor\.ckpt: it has 1 byte/,
    ],
    ["no manifest", (files) => files.remove(`${OUT}/MANIFEST`), /^invalid backup manifest: .*MANIFEST is missing/],
    [
      "a dropped last line",
      (files) => put(files, `${OUT}/MANIFEST`, ascii(manifestText(files).replace(/[^\n]*\n$/, ""))),
      /^invalid backup manifest: it announces 7/,
    ],
    [
      "version 2",
      (files) => put(files, `${OUT}/MANIFEST`, ascii(manifestText(files).replace("IBBKP 1", "IBBKP 2"))),
      /^backup format version 2 is newer/,
    ],
    [
      "a path that leads out",
      (files) => put(files, `${OUT}/MANIFEST`, ascii(manifestText(files).replace("dlq/seg", "../seg"))),
      /^invalid backup manifest: the path on line 10/,
    ],
  ];
  it.each(damages)("storage.md 26.49: refuses %s and leaves the target alone", (_, damage, message) => {
    for (const force of [false, true]) {
      const files = backedUp();
      damage(files);
      expect(thrown(() => restore(files, codec, { ...restoring, force })).message).toMatch(message);
      expect(files.stat(TARGET)).toBe(undefined);
      files.makeDirectory(TARGET);
      if (force) put(files, `${TARGET}/old`, ascii("old"));
      put(files, `${TARGET}/LOCK`, ascii(""));
      const before = tree(files, TARGET);
      expect(thrown(() => restore(files, codec, { ...restoring, force })).message).toMatch(message);
      expect(tree(files, TARGET)).toEqual(before);
    }
  });

  it("any one flipped bit of the backup's files is refused by the file's name", () => {
    const files = backedUp();
    const data = content(files, `${OUT}/data`);
    for (const path of Object.keys(data)) {
      const whole = `${OUT}/data${path}`;
      const size = files.stat(whole)!.size;
      for (const position of [0, size >> 1, size - 1]) {
        flip(files, whole, position, position & 7);
        expect(thrown(() => restore(files, codec, restoring)).message).toContain(`data${path}: its checksum`);
        flip(files, whole, position, position & 7);
      }
    }
    expect(files.stat(TARGET)).toBe(undefined);
  });

  it("refuses a running target, an absent backup, and directories inside each other", () => {
    const files = backedUp();
    files.makeDirectory(TARGET);
    const lock = files.lock(`${TARGET}/LOCK`)!;
    expect(thrown(() => restore(files, codec, { ...restoring, force: true }))).toMatchObject({
      kind: "LockHeld",
      message: "cannot restore into /restored: a broker holds its exclusive lock (stop the broker first)",
    });
    lock.release();
    expect(thrown(() => restore(files, codec, { ...restoring, from: "/nothing" })).kind).toBe("NotFound");
    for (const dataDirectory of [OUT, `${OUT}/data`, `${OUT}/new`, "/"]) {
      const error = thrown(() => restore(files, codec, { from: OUT, dataDirectory, force: true }));
      expect(error.kind).toBe("OverlappingDirectories");
    }
    expect(restore(files, codec, restoring).manifest.files.length).toBe(7);
  });
});
