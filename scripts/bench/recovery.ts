/*
 * How long a start takes over a log of a known size, beside a plain sequential read of the same files, and the offline
 * verbs that read all of it. Every round runs all rows, in an order of its own: a disk that is slower after each burst of
 * writes would always be so for the same row otherwise.
 *
 *     npm run bench -- --recovery [--size MIB] [--payload BYTES] [--rounds N] [--dir DIR] [--json FILE]
 */

import {
  closeSync,
  fsyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { cpus, release, tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { BROKER, load, outputOf, Server } from "./processes.ts";

const { values } = parseArgs({
  options: {
    recovery: { type: "boolean", default: true },
    size: { type: "string", default: "1024" },
    payload: { type: "string", default: "1024" },
    rounds: { type: "string", default: "5" },
    dir: { type: "string", default: tmpdir() },
    json: { type: "string" },
  },
});

const MIB = 1 << 20;
/** What a record without key and headers is longer than its payload (storage.md 3). */
const FRAME_BYTES = 44;
const SEGMENT_BYTES = 64 * MIB;
const CRASH_RECORDS = 1000;
const FLAGS = ["--compression", "none"];

type Cache = "cold" | "warm";
/** Seconds of each row, for one round with one state of the page cache. */
type Round = Record<RowName, number>;

const payloadBytes = Number(values.payload);
const sizeBytes = Number(values.size) * MIB;
if (!(sizeBytes >= SEGMENT_BYTES)) throw new Error(`--size ${values.size}: at least ${SEGMENT_BYTES / MIB}`);
const parent = mkdtempSync(path.join(values.dir, "ironbus-bench-"));
const large = path.join(parent, "large");
const small = path.join(parent, "small");
const empty = path.join(parent, "empty");

async function stopped(
  start: Promise<Server>,
  signal: "SIGKILL" | "SIGTERM",
  work?: (server: Server) => Promise<unknown>,
) {
  const server = await start;
  try {
    await work?.(server);
  } finally {
    await server.stop(signal);
  }
  return server;
}

/** A log with a last segment that is three quarters full, of a broker that was stopped. */
async function build(dataDir: string, bytes: number): Promise<void> {
  const count = Math.floor((bytes - SEGMENT_BYTES / 4) / (payloadBytes + FRAME_BYTES));
  const flags = [...FLAGS, "--durability-level", "none", "--async-loss-ack"];
  await stopped(Server.over(dataDir, flags), "SIGTERM", ({ address }) =>
    load("publish", { addr: address, size: payloadBytes, count, window: 32_768 }),
  );
  await outputOf("sync", ["-f", dataDir]);
}

/** Has the broker killed while its last segment is preallocated and without a footer. */
function crash(): Promise<Server> {
  return stopped(Server.over(large, FLAGS), "SIGKILL", ({ address }) =>
    load("publish", { addr: address, size: payloadBytes, count: CRASH_RECORDS, window: 256 }),
  );
}

const segmentsOf = (dataDir: string) =>
  readdirSync(dataDir)
    .filter((name) => name.startsWith("seg-"))
    .map((name) => path.join(dataDir, name));

const buffer = new Uint8Array(MIB);

/** Reads the files from begin to end, 1 MiB at a time. */
function readPlainly(files: readonly string[], take: (length: number) => void = () => {}): void {
  for (const file of files) {
    const fd = openSync(file, "r");
    for (;;) {
      const read = readSync(fd, buffer, 0, buffer.length, null);
      if (read === 0) break;
      take(read);
    }
    closeSync(fd);
  }
}

/** What a backup cannot do without: the same bytes in other files, each synced. */
function copyPlainly(files: readonly string[], to: string): void {
  mkdirSync(to);
  for (const file of files) {
    const fd = openSync(path.join(to, path.basename(file)), "wx");
    readPlainly([file], (length) => writeSync(fd, buffer, 0, length));
    fsyncSync(fd);
    closeSync(fd);
  }
}

/**
 * Brings the pages of the log's files into the page cache, or out of it. They alone: the executable stays where it is, and
 * nobody else on the machine notices. Nothing more is needed than the right to read them.
 */
async function prepare(cache: Cache): Promise<void> {
  const files = segmentsOf(large);
  if (cache === "warm") {
    readPlainly(files);
    return;
  }
  await outputOf("sync", ["-f", large]);
  for (const file of files) await outputOf("dd", [`if=${file}`, "iflag=nocache", "count=0", "status=none"]);
  const resident = (await outputOf("fincore", ["--bytes", "--noheadings", "--output", "RES", ...files]))
    .trim()
    .split("\n")
    .reduce((sum, line) => sum + Number(line), 0);
  if (resident > MIB) throw new Error(`${resident} bytes of the log stayed in the page cache`);
}

function seconds(work: () => void): number {
  const started = performance.now();
  work();
  return (performance.now() - started) / 1000;
}

async function start(dataDir: string, ...flags: string[]): Promise<number> {
  const server = await stopped(Server.over(dataDir, [...FLAGS, ...flags]), "SIGTERM");
  return server.readyMs / 1000;
}

async function verb(...args: string[]): Promise<number> {
  const started = performance.now();
  await outputOf(BROKER, args);
  return (performance.now() - started) / 1000;
}

interface Row {
  readonly name: string;
  /** Seconds; all but the crash leave the log of a broker that was stopped. */
  readonly run: (cache: Cache) => number | Promise<number>;
  /** What it is compared with; a start after what a start over an empty directory takes. */
  readonly by?: "read" | "copy";
  readonly wanted?: number;
}

/** Not there when a row begins, and gone after it. */
const SCRATCH = path.join(parent, "scratch");

const ROWS = {
  read: { name: "plain read, 1 MiB at a time", run: () => seconds(() => readPlainly(segmentsOf(large))) },
  copy: {
    name: "plain copy, 1 MiB at a time, fsync",
    run: () => seconds(() => copyPlainly(segmentsOf(large), SCRATCH)),
  },
  empty: { name: "start, empty directory", run: () => start(SCRATCH) },
  clean: { name: "start after a clean stop", run: () => start(large), by: "read", wanted: 0.2 },
  killed: {
    name: "start after kill -9",
    run: async (cache) => {
      await crash();
      await prepare(cache);
      return start(large);
    },
    by: "read",
  },
  full: { name: "start with --full-scan", run: () => start(large, "--full-scan"), by: "read", wanted: 1.5 },
  scrub: { name: "scrub", run: () => verb("scrub", "--data-dir", large), by: "read" },
  backup: { name: "backup", run: () => verb("backup", "--data-dir", large, "--out", SCRATCH), by: "copy" },
} satisfies Record<string, Row>;

type RowName = keyof typeof ROWS;
const ROW_NAMES = Object.keys(ROWS) as RowName[];
const STARTS: readonly RowName[] = ["clean", "killed", "full"];

function shuffled<T>(list: readonly T[]): T[] {
  return list
    .map((value) => ({ value, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ value }) => value);
}

async function measure(cache: Cache): Promise<Round> {
  const result: Partial<Round> = {};
  for (const name of shuffled(ROW_NAMES)) {
    const row: Row = ROWS[name];
    await prepare(cache);
    result[name] = await row.run(cache);
    rmSync(SCRATCH, { recursive: true, force: true });
  }
  return result as Round;
}

/** Anonymous memory at the ready line, MB. */
async function readyMb(dataDir: string, ...flags: string[]): Promise<number> {
  let mb = 0;
  await stopped(Server.over(dataDir, [...FLAGS, ...flags]), "SIGTERM", async (server) => {
    mb = server.rssAnonMb();
  });
  return mb;
}

const sorted = (list: readonly number[]) => [...list].sort((a, b) => a - b);
const median = (list: readonly number[]) => sorted(list)[list.length >> 1];
const best = (list: readonly number[]) => sorted(list)[0];

function printReport(machine: string, bytes: number, rounds: ReadonlyMap<Cache, readonly Round[]>): void {
  const lines = [
    `machine: ${machine}`,
    `log: ${(bytes / MIB).toFixed(0)} MiB, records of ${payloadBytes} B, segments of ${SEGMENT_BYTES / MIB} MiB`,
    `${values.rounds} rounds; a start's ratio is of what it takes longer than the start over an empty directory`,
  ];
  for (const [cache, list] of rounds) {
    lines.push("", `${`page cache ${cache}`.padEnd(36)}   median s     best s   ratio of medians   of bests   wanted`);
    for (const name of ROW_NAMES) {
      const row: Row = ROWS[name];
      const cells = [median, best].map((of) =>
        of(list.map((round) => round[name]))
          .toFixed(3)
          .padStart(10),
      );
      const { by, wanted } = row;
      if (by !== undefined) {
        const [ofMedians, ofBests] = [median, best].map((of) => {
          const seconds = (row: RowName) => of(list.map((round) => round[row]));
          return (seconds(name) - (STARTS.includes(name) ? seconds("empty") : 0)) / seconds(by);
        });
        cells.push(ofMedians.toFixed(2).padStart(18), ofBests.toFixed(2).padStart(10));
        if (wanted !== undefined) cells.push(`  <= ${wanted} ${ofMedians <= wanted ? "met" : "MISSED"}`);
      }
      lines.push(`${row.name.padEnd(36)} ${cells.join(" ")}`);
    }
  }
  process.stdout.write(`${lines.join("\n")}\n`);
}

const rounds = new Map<Cache, Round[]>([
  ["cold", []],
  ["warm", []],
]);
const memory: Record<string, number[]> = { empty: [], small: [], large: [], smallFull: [], largeFull: [] };
try {
  for (const directory of [empty, small, large]) mkdirSync(directory);
  await build(large, sizeBytes);
  await build(small, SEGMENT_BYTES);
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [cache, list] of rounds) {
      const result = await measure(cache);
      list.push(result);
      const cells = Object.entries(result).map(([row, value]) => `${row} ${value.toFixed(3)}`);
      process.stderr.write(`round ${round + 1} ${cache}  ${cells.join("  ")}\n`);
    }
    memory.empty.push(await readyMb(empty));
    memory.small.push(await readyMb(small));
    memory.large.push(await readyMb(large));
    memory.smallFull.push(await readyMb(small, "--full-scan"));
    memory.largeFull.push(await readyMb(large, "--full-scan"));
  }
  const bytes = segmentsOf(large).reduce((sum, file) => sum + statSync(file).size, 0);
  const machine = `${cpus()[0]?.model ?? "?"}, ${cpus().length} cores, Linux ${release()}, Bun ${Bun.version}`;
  if (values.json !== undefined) {
    const date = new Date().toISOString();
    writeFileSync(values.json, JSON.stringify({ machine, date, bytes, rounds: [...rounds], memory }, null, 1));
  }
  printReport(machine, bytes, rounds);
  const mb = (list: readonly number[]) => median(list).toFixed(1);
  process.stdout.write(
    `\nRssAnon at the ready line, MB: empty ${mb(memory.empty)}, 64 MiB ${mb(memory.small)}, ` +
      `the log ${mb(memory.large)}; with --full-scan ${mb(memory.smallFull)} and ${mb(memory.largeFull)}\n`,
  );
} finally {
  rmSync(parent, { recursive: true, force: true });
}
