import { execFileSync, spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { encodeLayoutMarker } from "../../src/log/checkpoint-payloads.ts";
import { encodeSlot } from "../../src/log/checkpoint-slots.ts";
import { DataDirectoryError, openDataDirectory } from "../../src/log/data-directory.ts";
import { layoutNeedsMarker, writeLayoutMarker } from "../../src/log/layout-marker.ts";
import { recoverLog } from "../../src/log/recovery.ts";
import { StorageError } from "../../src/log/storage-error.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { createRuntime } from "../../src/runtime/runtime.ts";
import { ascii, codec, get, hex, newFiles, OPTIONS, put, ROOT, thrown, tree } from "./fixtures.ts";

const MARKER = `${ROOT}/layout.meta`;

function markerFile(version: number, writeNumber = 1): Uint8Array {
  const bytes = new Uint8Array(156);
  const start = (writeNumber % 2) * 78;
  encodeSlot(bytes.subarray(start, start + 78), writeNumber, encodeLayoutMarker(version), codec);
  return bytes;
}

describe("the name of the data directory", () => {
  it("survives a power cut, whoever made it and whatever became of the start that did", () => {
    const path = "/srv/queue/data";
    const killed = new SimulatedFileSystem({ turns: "manual" });
    killed.fail({ operation: "sync-directory", path: /./, code: "EMFILE" });
    expect(thrown(() => openDataDirectory(killed, codec, path)).kind).toBe("CannotCreate");
    const byHand = new SimulatedFileSystem({ turns: "manual" });
    byHand.makeDirectory(path);
    for (const files of [new SimulatedFileSystem({ turns: "manual" }), killed.kill({ turns: "manual" }), byHand]) {
      openDataDirectory(files, codec, path).lock.release();
      expect(files.imageAfterPowerCut({ style: "lost" }).stat(path)?.kind).toBe("directory");
    }
  });

  it("a directory above it that may not be read is no reason not to start, a failing disk is", () => {
    for (const [code, opens] of [
      ["EACCES", true],
      ["EIO", false],
    ] as const) {
      const files = newDataDirectory();
      files.fail({ operation: "sync-directory", path: /^\/$/, code });
      if (opens) openDataDirectory(files, codec, ROOT).lock.release();
      else expect(thrown(() => openDataDirectory(files, codec, ROOT)).kind).toBe("CannotCreate");
    }
  });
});

function newDataDirectory(): SimulatedFileSystem {
  const files = new SimulatedFileSystem({ turns: "manual" });
  files.makeDirectory(ROOT);
  files.syncDirectory("/");
  return files;
}

describe("layout marker", () => {
  it("storage.md 26.22: the file after the first open", () => {
    const files = newFiles();
    recoverLog(files, codec, ROOT, OPTIONS);
    const bytes = get(files, MARKER);
    expect(hex(bytes)).toBe(`${"00".repeat(78)}010000000000000008004942444401000000${"00".repeat(56)}1eda808d`);
    recoverLog(files, codec, ROOT, OPTIONS);
    expect(hex(get(files, MARKER))).toBe(hex(bytes));
  });

  it("storage.md 26.22: a newer version refuses and changes nothing", () => {
    const files = newFiles();
    put(files, MARKER, markerFile(2));
    put(files, `${ROOT}/other`, ascii("x"));
    const before = tree(files);
    for (const open of [() => openDataDirectory(files, codec, ROOT), () => recoverLog(files, codec, ROOT, OPTIONS)]) {
      const error = thrown(open);
      expect(error).toBeInstanceOf(StorageError);
      expect(error.kind).toBe("IncompatibleLayoutVersion");
      expect(tree(files)).toEqual(before);
    }
  });

  it("storage.md 26.22: a foreign or older marker is taken for version 1 and rewritten", () => {
    for (const version of [0, -1]) {
      const files = newFiles();
      const bytes = markerFile(0, 4);
      if (version === -1) encodeSlot(bytes.subarray(0, 78), 4, ascii("FOREIGN!"), codec);
      put(files, MARKER, bytes);
      expect(layoutNeedsMarker(files, ROOT, codec)).toBe(true);
      recoverLog(files, codec, ROOT, OPTIONS);
      expect(layoutNeedsMarker(files, ROOT, codec)).toBe(false);
      expect(hex(get(files, MARKER).subarray(78, 88))).toBe("05000000000000000800");
    }
  });

  it("a marker that is torn or zeroed is rewritten", () => {
    for (const bytes of [new Uint8Array(3), new Uint8Array(156)]) {
      const files = newFiles();
      put(files, MARKER, bytes);
      recoverLog(files, codec, ROOT, OPTIONS);
      expect(layoutNeedsMarker(files, ROOT, codec)).toBe(false);
    }
  });

  it("storage.md 8.3: a marker that cannot be written does not block the open", () => {
    const files = new SimulatedFileSystem();
    files.makeDirectory(ROOT);
    files.fail({ operation: "open", path: /layout/, code: "EACCES" });
    const recovered = recoverLog(files, codec, ROOT, OPTIONS);
    expect(recovered.problems.map((error) => error.code)).toEqual(["EACCES"]);
    writeLayoutMarker(files, ROOT, codec);
    expect(layoutNeedsMarker(files, ROOT, codec)).toBe(false);
  });
});

describe("data directory in memory", () => {
  it("storage.md 2.1: creates, probes, locks, and leaves the lock file alone", () => {
    const files = newFiles("/elsewhere");
    const directory = openDataDirectory(files, codec, "/a/b/data");
    expect(Object.keys(tree(files, "/a/b/data"))).toEqual(["/a/b/data/LOCK"]);
    expect(directory.diskFull).toBeUndefined();
    const second = thrown(() => openDataDirectory(files, codec, "/a/b/data"));
    expect(second).toBeInstanceOf(DataDirectoryError);
    expect([second.kind, second.message]).toEqual([
      "Locked",
      "another ironbus broker is already running on /a/b/data (its data dir is locked)",
    ]);
    directory.lock.release();
    openDataDirectory(files, codec, "/a/b/data").lock.release();
    expect(Object.keys(tree(files, "/a/b/data"))).toEqual(["/a/b/data/LOCK"]);
  });

  it("storage.md 2.1: a path that is not a directory", () => {
    const files = newFiles();
    put(files, `${ROOT}/file`, ascii("x"));
    const error = thrown(() => openDataDirectory(files, codec, `${ROOT}/file`));
    expect([error.kind, error.message]).toEqual([
      "NotADirectory",
      `data dir ${ROOT}/file exists but is not a directory`,
    ]);
  });

  it("offline verbs do not create the directory", () => {
    const files = newFiles();
    const error = thrown(() => openDataDirectory(files, codec, "/none", { create: false }));
    expect([error.kind, error.message]).toEqual(["NotFound", "no data directory at /none"]);
    expect(files.stat("/none")).toBeUndefined();
  });

  it("storage.md 2.1: a probe or lock that fails, and a directory that cannot be made", () => {
    const cases = [
      ["sync", "EIO", "NotWritable", `data dir ${ROOT} is not writable: `],
      ["lock", "ENOLCK", "CannotLock", `cannot lock data dir ${ROOT}: `],
      ["make-directory", "EACCES", "CannotCreate", `cannot create data dir ${ROOT}: `],
    ] as const;
    for (const [operation, code, kind, text] of cases) {
      const files = new SimulatedFileSystem();
      files.fail({ operation, code });
      const error = thrown(() => openDataDirectory(files, codec, ROOT));
      expect(error.kind).toBe(kind);
      expect(error.message.startsWith(text)).toBe(true);
      if (operation === "sync") expect(files.list(ROOT)).toEqual([]);
    }
  });

  it("README ruling 11: a full disk at the probe is told, not fatal, and removes nothing", () => {
    const files = new SimulatedFileSystem();
    files.makeDirectory(ROOT);
    put(files, `${ROOT}/seg-0000000000000000.log`, ascii("kept"));
    files.limitSpace(0);
    const directory = openDataDirectory(files, codec, ROOT);
    expect(directory.diskFull?.code).toBe("ENOSPC");
    expect(Object.keys(tree(files))).toEqual([`${ROOT}/LOCK`, `${ROOT}/seg-0000000000000000.log`]);
  });

  it("storage.md 11: a directory of shared mode is refused before anything is written", () => {
    const files = newFiles();
    files.makeDirectory(`${ROOT}/shared-wal`);
    const before = tree(files);
    expect(thrown(() => openDataDirectory(files, codec, ROOT)).kind).toBe("UnsupportedFeature");
    expect(tree(files)).toEqual(before);
  });
});

describe("data directory on disk", () => {
  const { files } = createRuntime().runtime;
  let home: string;

  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), "ironbus-data-directory-"));
  });

  afterEach(() => {
    rmSync(home, { recursive: true, force: true });
  });

  it("storage.md 2.1: mode 0700 when created, left alone when it exists", () => {
    openDataDirectory(files, codec, `${home}/a/b`).lock.release();
    expect(statSync(`${home}/a/b`).mode & 0o777).toBe(0o700);
    mkdirSync(`${home}/mine`);
    chmodSync(`${home}/mine`, 0o755);
    openDataDirectory(files, codec, `${home}/mine`).lock.release();
    expect(statSync(`${home}/mine`).mode & 0o777).toBe(0o755);
  });

  it("cli.md 2.1: a symlink to a directory is fine, one to nothing or a file is not", () => {
    mkdirSync(`${home}/real`);
    symlinkSync(`${home}/real`, `${home}/good`);
    openDataDirectory(files, codec, `${home}/good`).lock.release();
    writeFileSync(`${home}/file`, "");
    symlinkSync(`${home}/nowhere`, `${home}/dangling`);
    symlinkSync(`${home}/file`, `${home}/to-file`);
    for (const name of ["dangling", "to-file", "file"]) {
      const error = thrown(() => openDataDirectory(files, codec, `${home}/${name}`));
      expect(error.message).toBe(`data dir ${home}/${name} exists but is not a directory`);
    }
  });

  it("storage.md 26.51: another process's lock is seen, and is free after kill -9", async () => {
    openDataDirectory(files, codec, home).lock.release();
    const flock = execFileSync("sh", ["-c", "command -v flock"], { encoding: "utf8" }).trim();
    const holder = spawn(flock, ["-x", "-F", `${home}/LOCK`, "sh", "-c", "echo held; exec sleep 600"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await new Promise((resolve) => holder.stdout.once("data", resolve));
    expect(thrown(() => openDataDirectory(files, codec, home)).kind).toBe("Locked");
    const gone = new Promise((resolve) => holder.once("exit", resolve));
    holder.kill("SIGKILL");
    await gone;
    openDataDirectory(files, codec, home).lock.release();
    expect(files.list(home).map(({ name }) => name)).toEqual(["LOCK"]);
  });
});
