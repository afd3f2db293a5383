import { cpSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { CompressionError, decompressPayload } from "../../src/log/compressed-payload.ts";
import { inspectLog } from "../../src/log/inspection.ts";
import { Log } from "../../src/log/log.ts";
import { readLog } from "../../src/log/offline-reader.ts";
import { RecordFlag } from "../../src/log/record.ts";
import { StorageError } from "../../src/log/storage-error.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import type { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { createRuntime } from "../../src/runtime/runtime.ts";
import { publish } from "../corpus/healthy.ts";
import { captureImage, DIRECTORIES, type Image, writeImage } from "../corpus/image.ts";
import { IMAGES } from "../corpus/images.ts";
import { cleanUp, run, TestBroker, temporaryDirectory } from "../e2e/harness.ts";
import { segments } from "../e2e/offline-directory.ts";
import { lcg } from "../log/fixtures.ts";
import { runSeed } from "../simulation/run.ts";
import { ROOT as SIMULATED_ROOT } from "../simulation/setup.ts";
import { cargo, DEADLINE_MS, endCargo, missing } from "./cargo.ts";

const { files, codec } = createRuntime().runtime;
const MIB = 1024 * 1024;
/** Simulated disks that are looked at. */
const SEEDS = 48;

/** The lines of each log below `directory`, as upstream's codecs read it; one line `refused: ...` of one that they do not. */
async function listedByUpstream(directory: string): Promise<Map<string, string[]>> {
  const { code, lines, stderr } = await cargo(["run", "--bin", "ironbus-listing", "--", directory]);
  expect(code, stderr).toBe(0);
  const logs = new Map<string, string[]>();
  let current: string[] = [];
  for (const line of lines) {
    if (line.startsWith("log ")) {
      current = [];
      logs.set(line.slice(4), current);
    } else {
      current.push(line);
    }
  }
  return logs;
}

/** The same lines, as our reader gives them. */
function listed(root: string): string[] {
  const { segments } = inspectLog(files, codec, root, { fullScan: true, recovery: "strict" });
  const records = readLog(files, codec, root)[Symbol.iterator]();
  const lines: string[] = [];
  const crc = (bytes: Uint8Array) => codec.crc32c(bytes, 0, bytes.length);
  for (const { id, baseOffset, baseSequence, recordCount, sealed } of segments) {
    lines.push(`segment ${id} base ${baseOffset} ${baseSequence}`);
    for (let i = 0; i < recordCount; i++) {
      const { offset, timestampMs, flags, storedPayloadLength, key, headers, payload } = records.next().value;
      const plain = plainPayload(flags, payload);
      const told = plain === undefined ? "undecodable" : `${plain.length} ${crc(plain)}`;
      lines.push(`${offset} ${timestampMs} ${flags} ${storedPayloadLength} ${crc(key)} ${crc(headers)} ${told}`);
    }
    lines.push(sealed ? "sealed" : "open");
  }
  expect(records.next().done).toBe(true);
  return lines;
}

function plainPayload(flags: number, payload: Uint8Array): Uint8Array | undefined {
  if ((flags & RecordFlag.Compressed) === 0) return payload;
  try {
    return decompressPayload(payload, codec);
  } catch (error) {
    if (error instanceof CompressionError) return undefined;
    throw error;
  }
}

const records = (lines: readonly string[]) => lines.filter((line) => /^\d/.test(line));
const sealedCount = (lines: readonly string[]) => lines.filter((line) => line === "sealed").length;
const compressedCount = (lines: readonly string[]) =>
  records(lines).filter((line) => (Number(line.split(" ")[2]) & RecordFlag.Compressed) !== 0).length;

/** `count` lines that LZ4 makes shorter. */
function text(count: number, from = 0): string {
  return Array.from({ length: count }, (_, i) => `line ${from + i} ${"and so on ".repeat(10 + (i % 40))}\n`).join("");
}

/** `count` lines that it does not, some of them with bodies that carry the second checksum. */
function noise(count: number): string {
  const line = (i: number) => Buffer.from(lcg(i, i % 50 === 7 ? 60_000 : 90)).toString("base64");
  return Array.from({ length: count }, (_, i) => `${line(i)}\n`).join("");
}

afterEach(cleanUp);
afterAll(endCargo);

describe.skipIf(missing !== "")(`segments, read by upstream's codecs${missing}`, () => {
  beforeAll(async () => {
    const { code, stderr } = await cargo(["build", "--bin", "ironbus-listing"]);
    expect(code, stderr).toBe(0);
  }, DEADLINE_MS);

  /** Compares what both readers say of all logs below `directory`; returns the lines by log. */
  async function compared(directory: string, names: readonly string[]): Promise<Map<string, string[]>> {
    const theirs = await listedByUpstream(directory);
    expect([...theirs.keys()].sort()).toEqual([...names].sort());
    for (const name of names) expect(theirs.get(name), name).toEqual(listed(join(directory, name)));
    return theirs;
  }

  it(
    "storage.md 3, 4, 6: of every compression, I/O mode and durability level, over rolls",
    async () => {
      const directory = temporaryDirectory();
      const workloads: Readonly<Record<string, readonly string[]>> = {
        lz4: [],
        "lz4-direct": ["--io-mode", "direct"],
        none: ["--compression", "none"],
        "none-direct": ["--compression", "none", "--io-mode", "direct"],
        interval: ["--durability-level", "interval"],
        async: ["--durability-level", "async", "--async-loss-ack"],
      };
      for (const [name, flags] of Object.entries(workloads)) {
        const broker = await TestBroker.start(["--max-segment-bytes", "100000", ...flags], join(directory, name));
        await broker.text("pub", ["--lines"], { input: text(300) + noise(120) });
        await broker.text("pub", ["--key", "a key", "with a key"]);
        await broker.stop();
      }
      const logs = await compared(directory, Object.keys(workloads));
      for (const [name, lines] of logs) {
        expect(records(lines).length, name).toBe(421);
        expect(sealedCount(lines), name).toBeGreaterThan(1);
        expect(compressedCount(lines) > 250, name).toBe(!name.startsWith("none"));
        expect(
          records(lines).some((line) => (Number(line.split(" ")[2]) & RecordFlag.HasXxh3) !== 0),
          name,
        ).toBe(true);
      }
    },
    DEADLINE_MS,
  );

  it(
    "storage.md 18, 20: of a log whose broker was killed, again and again, and whose oldest segments went",
    async () => {
      const directory = temporaryDirectory();
      const killed = join(directory, "killed");
      const flags = ["--max-segment-bytes", "8192"];
      let broker = await TestBroker.start(flags, killed);
      for (let round = 0; round < 5; round++) {
        const publishing = broker.run("pub", ["--lines"], { input: text(400, round * 400) });
        if (round < 4) {
          await broker.text("pub", [`round ${round}`]);
          await broker.kill();
        }
        await publishing;
        if (round < 4) broker = await broker.restart(flags);
      }
      await broker.stop();

      const reaped = join(directory, "reaped");
      const retention = [...flags, "--max-retained-bytes", "20000"];
      const other = await TestBroker.start(retention, reaped);
      await other.text("pub", ["--lines"], { input: text(400) });
      await other.stop();

      const logs = await compared(directory, ["killed", "reaped"]);
      expect(records(logs.get("killed") as string[]).length).toBeGreaterThanOrEqual(404);
      expect(sealedCount(logs.get("killed") as string[])).toBeGreaterThan(1);
      expect(logs.get("reaped")?.[0]).not.toBe("segment 0 base 0 0");
    },
    DEADLINE_MS,
  );

  it(
    "storage.md 21: of a directory that was restored, of one that was repaired, and of what was written there since",
    async () => {
      const directory = temporaryDirectory();
      const original = join(directory, "original");
      const broker = await TestBroker.start(["--max-segment-bytes", "8192"], original);
      await broker.text("pub", ["--lines"], { input: text(100) });
      await broker.stop();
      const backup = join(temporaryDirectory(), "backup");
      expect((await run(["backup", "--data-dir", original, "--out", backup])).code).toBe(0);
      const restored = join(directory, "restored");
      expect((await run(["restore", "--from", backup, "--data-dir", restored])).code).toBe(0);

      const repaired = join(directory, "repaired");
      cpSync(original, repaired, { recursive: true });
      const last = segments(repaired).at(-1) as string;
      const end = inspectLog(files, codec, repaired).segments.at(-1)?.endPosition as number;
      truncateSync(last, end);
      writeFileSync(last, Buffer.concat([readFileSync(last), Buffer.alloc(77, 0x42)]));
      expect((await run(["repair", "--data-dir", repaired, "--apply", "--force"])).code).toBe(3);

      const logs = await compared(directory, ["original", "restored", "repaired"]);
      expect(logs.get("restored")).toEqual(logs.get("original"));
      expect(records(logs.get("repaired") as string[])).toEqual(records(logs.get("original") as string[]));
      for (const dataDir of [restored, repaired]) {
        const next = await TestBroker.start([], dataDir);
        await next.text("pub", ["--lines"], { input: text(10) });
        await next.stop();
      }
      const later = await compared(directory, ["original", "restored", "repaired"]);
      expect(records(later.get("repaired") as string[]).length).toBe(110);
    },
    DEADLINE_MS,
  );

  it(
    "storage.md 18, 22: of disks whose power failed, whose processes were killed, and which failed themselves",
    async () => {
      const directory = temporaryDirectory();
      const names: string[] = [];
      for (let seed = 1; seed <= SEEDS; seed++) {
        let left: Image = new Map();
        // Called with every disk that a process finds; the last one is what all the others left.
        const wrap = (disk: SimulatedFileSystem) => {
          if (disk.stat(SIMULATED_ROOT) !== undefined) left = captureImage(disk, SIMULATED_ROOT);
          return disk;
        };
        const { setup } = await runSeed(seed, { codec, wrap });
        const name = `${setup.durability.level}-${String(seed).padStart(3, "0")}`;
        writeImage(join(directory, name), left);
        await writtenTo(join(directory, name));
        names.push(name);
      }
      const logs = [...(await compared(directory, names)).values()];
      expect(logs.reduce((sum, lines) => sum + sealedCount(lines), 0)).toBeGreaterThan(SEEDS);
      expect(logs.reduce((sum, lines) => sum + records(lines).length, 0)).toBeGreaterThan(SEEDS * 10);
    },
    DEADLINE_MS,
  );

  const LOGS = Object.keys(IMAGES).filter((name) => !/^(future-layout|backup-.*)$/.test(name));

  /** What mode strict says of a log: its lines, or undefined when it refuses it or finds something torn. */
  function strictly(root: string): string[] | undefined {
    try {
      const inspection = inspectLog(files, codec, root, { fullScan: true, recovery: "strict" });
      return inspection.losses.length === 0 ? listed(root) : undefined;
    } catch (error) {
      if (error instanceof StorageError) return undefined;
      throw error;
    }
  }

  it(
    "storage.md 18, the corpus: mode strict refuses what upstream's codecs do not read",
    async () => {
      const theirs = await listedByUpstream(DIRECTORIES);
      // A footer before zeros is the one thing that is taken for what it is (end of storage.md 18.2).
      for (const name of LOGS.filter((each) => each !== "footer-not-yet-cut")) {
        const ours = strictly(join(DIRECTORIES, name));
        if (ours !== undefined) expect(theirs.get(name), name).toEqual(ours);
        else expect(theirs.get(name)?.at(-1), name).toMatch(/^refused: /);
      }
    },
    DEADLINE_MS,
  );

  it(
    "README ruling 1, the corpus: what was opened, and written to since, is upstream's to read unless a loss stayed inside of it",
    async () => {
      const directory = temporaryDirectory();
      for (const name of LOGS) {
        const root = join(directory, name);
        mkdirSync(root);
        cpSync(join(DIRECTORIES, name), root, { recursive: true, verbatimSymlinks: true });
        await writtenTo(root);
      }
      const theirs = await listedByUpstream(directory);
      let read = 0;
      for (const name of LOGS) {
        const ours = strictly(join(directory, name));
        if (ours === undefined) {
          expect(theirs.get(name)?.at(-1), name).toMatch(/^refused: /);
          continue;
        }
        expect(theirs.get(name), name).toEqual(ours);
        expect(ours.at(-2), name).toContain(" 13 ");
        read += 1;
      }
      // Those of the checkpoints, of the log's end, of foreign files and of the poison.
      expect(read).toBeGreaterThanOrEqual(17);
    },
    DEADLINE_MS,
  );

  /** Opens the log in mode salvage and appends a record of 13 bytes. */
  async function writtenTo(root: string): Promise<void> {
    const log = Log.open(
      {
        root,
        maxSegmentBytes: MIB,
        maxPendingBytes: MIB,
        durability: { level: "sync", flushIntervalMs: 1000, flushMaxBytes: MIB },
      },
      { files, codec, clock: new SimulatedClock() },
      { advanced() {}, rejected() {}, froze() {} },
    );
    const { chunk, table } = publish({ payload: "written later" }, log.nextOffset);
    expect(log.append(chunk, table, 0, 1)).toBe(1);
    await log.close();
  }
});
