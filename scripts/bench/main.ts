/*
 * Runs every row three times, interleaved (all rows, then all again), and takes medians, so that a slow minute of the
 * machine hits all rows alike. Only ratios within one run mean anything; absolute figures belong to this machine and hour.
 *
 *     npm run bench [-- --short] [--dir DIR] [--rounds N] [--json FILE]
 */

import { writeFileSync } from "node:fs";
import { cpus, release, tmpdir } from "node:os";
import { parseArgs } from "node:util";
import { levelRows } from "./levels.ts";
import { CLIENT_CPU, load, measured, peakRssAnonMb, pinnedLoad, ROOT, SERVER_CPU, Server } from "./processes.ts";
import { printReport } from "./report.ts";

const { values } = parseArgs({
  options: {
    short: { type: "boolean", default: false },
    dir: { type: "string", default: tmpdir() },
    rounds: { type: "string", default: "3" },
    json: { type: "string" },
  },
});

/** Fixed work per row, not fixed time. */
const scale = values.short ? 0.1 : 1;
const count = (records: number) => Math.round(records * scale);
const WINDOW = 32_768;
const NOT_DURABLE = ["--durability-level", "none", "--async-loss-ack"];
const SIZES = [128, 1024] as const;

export type Samples = Map<string, Record<string, number>[]>;
const samples: Samples = new Map();
let round = 0;

function record(row: string, result: Record<string, number>): void {
  const list = samples.get(row) ?? [];
  list.push(result);
  samples.set(row, list);
  const rate = result.records_per_second;
  const text = rate === undefined ? `p50 ${result.p50_us} us` : `${Math.round(rate).toLocaleString("en")} records/s`;
  process.stderr.write(`round ${round + 1}  ${row.padEnd(34)} ${text}\n`);
}

async function withServer<T>(start: Promise<Server>, work: (server: Server) => Promise<T>): Promise<T> {
  const server = await start;
  try {
    return await work(server);
  } finally {
    await server.stop();
  }
}

const sdkArguments = (verb: string, server: Server, size: number, records: number, window: number) => [
  `${ROOT}/scripts/bench/sdk.ts`,
  verb,
  server.address,
  `${size}`,
  `${records}`,
  `${window}`,
];
const sdk = (verb: string, server: Server, size: number, records: number, window: number) =>
  measured(process.execPath, sdkArguments(verb, server, size, records, window));

async function bareRows(): Promise<void> {
  const dir = values.dir;
  for (const size of SIZES) {
    record(
      `bare echo ${size}`,
      await pinnedLoad("echo", { size: size + 18, reply: 13, count: count(30_000), "server-cpu": SERVER_CPU }),
    );
    record(`bare sync ${size}`, await pinnedLoad("sync", { dir, size: size + 44, count: count(5000) }, SERVER_CPU));
  }
  record("bare sync 1 MiB", await load("sync", { dir, size: 1 << 20, count: count(200) }));
  record("bare sync 1 MiB direct", await load("sync", { dir, size: 1 << 20, count: count(200), direct: true }));
  const block = { dir, size: 4096, count: count(5000), direct: true } as const;
  record("bare sync 4 KiB direct", await pinnedLoad("sync", block, SERVER_CPU));
}

async function rowsOf(size: 128 | 1024): Promise<void> {
  const many = count(size === 128 ? 3_000_000 : 500_000);
  const publish = (server: Server, records: number, window: number, connections = 1) =>
    load("publish", { addr: server.address, size, count: records, window, connections });

  await withServer(Server.sink(values.dir), async (server) => {
    await publish(server, many, WINDOW);
    record(`sink ${size}`, await publish(server, many, WINDOW));
  });
  await withServer(Server.broker(values.dir, []), async (server) => {
    await new Promise((resolve) => setTimeout(resolve, 500));
    record(`start ${size}`, { p50_us: server.readyMs * 1000, ready_ms: server.readyMs, idle_mb: server.rssAnonMb() });
    const { result, peakMb } = await peakRssAnonMb(server, publish(server, many, WINDOW));
    record(`P2 ${size}`, { ...result, peak_mb: peakMb });
    record(`P2 ${size} sdk`, await sdk("publish", server, size, many, WINDOW));
  });
  // What compression costs and saves depends on the payload.
  for (const payload of ["json", "random"]) {
    for (const compression of ["none", "lz4"]) {
      await withServer(Server.broker(values.dir, ["--compression", compression]), async (server) => {
        const options = { addr: server.address, size, count: many / 2, window: WINDOW, payload };
        record(`P2 ${size} ${payload} ${compression}`, await load("publish", options));
      });
    }
  }
  const single = (server: Server, records: number) =>
    pinnedLoad("publish", { addr: server.address, size, count: records, window: 1 });
  const singleSdk = (server: Server, records: number) =>
    measured("taskset", ["-c", `${CLIENT_CPU}`, process.execPath, ...sdkArguments("single", server, size, records, 1)]);
  await withServer(Server.broker(values.dir, [], true), async (server) => {
    record(`P1 ${size}`, await single(server, count(10_000)));
    record(`P1 ${size} sdk`, await singleSdk(server, count(10_000)));
  });
  await withServer(Server.broker(values.dir, NOT_DURABLE, true), async (server) => {
    record(`L2 ${size}`, await single(server, count(30_000)));
    record(`L2 ${size} sdk`, await singleSdk(server, count(30_000)));
  });
  await withServer(Server.broker(values.dir, []), async (server) => {
    record(`P2 ${size} x8`, await publish(server, many, WINDOW / 8, 8));
  });
  await withServer(Server.broker(values.dir, NOT_DURABLE), async (server) => {
    record(`P4 ${size}`, await publish(server, many, WINDOW));
    // Each drains half of that.
    const drained = many / 2;
    record(`C1 ${size}`, await load("consume", { addr: server.address, size, count: drained }));
    record(`C1 ${size} sdk`, await sdk("consume", server, size, drained - 2048, 0));
    record(`P4 ${size} sdk`, await sdk("publish", server, size, many, WINDOW));
  });
}

for (; round < Number(values.rounds); round++) {
  await bareRows();
  for (const size of SIZES) await rowsOf(size);
  await levelRows(values.dir, count, WINDOW, record);
}
const machine = `${cpus()[0]?.model ?? "?"}, ${cpus().length} cores, Linux ${release()}, Bun ${Bun.version}`;
if (values.json !== undefined) {
  writeFileSync(
    values.json,
    JSON.stringify({ machine, date: new Date().toISOString(), samples: [...samples] }, null, 1),
  );
}
printReport(machine, samples);
