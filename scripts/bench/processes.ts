import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";

export const ROOT = path.resolve(import.meta.dirname, "../..");
const LOAD = path.join(ROOT, "native/target/release/ironbus-load");
export const BROKER = path.join(ROOT, "dist/ironbus");

/** Runs a command to its end and returns the JSON of its last line of output; throws with what it said otherwise. */
export async function measured(command: string, args: readonly string[]): Promise<Record<string, number>> {
  const output = await outputOf(command, args);
  const last = output.trim().split("\n").at(-1) ?? "";
  if (last.startsWith("{")) return JSON.parse(last);
  throw new Error(`${command} ${args.join(" ")}: no result in ${output.trim()}`);
}

/** Runs a command to its end and returns its output; throws with what it said when it fails. */
export function outputOf(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let errors = "";
    child.stdout.on("data", (chunk) => (output += chunk));
    child.stderr.on("data", (chunk) => (errors += chunk));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(output);
      else reject(new Error(`${command} ${args.join(" ")}: exit ${code}: ${errors.trim() || output.trim()}`));
    });
  });
}

/** One request at a time is a matter of wake-ups: within one core or across two is a factor of six, so it is pinned. */
export const SERVER_CPU = 1;
export const CLIENT_CPU = 0;

/** As load(), on a core of its own: the client's, where the server does not run, or the server's for the bare disk. */
export function pinnedLoad(verb: string, options: LoadOptions, cpu = CLIENT_CPU): Promise<Record<string, number>> {
  return measured("taskset", ["-c", `${cpu}`, LOAD, verb, ...argumentsOf(options)]);
}

export type LoadOptions = Record<string, string | number | true>;

export function load(verb: string, options: LoadOptions): Promise<Record<string, number>> {
  return measured(LOAD, [verb, ...argumentsOf(options)]);
}

function argumentsOf(options: LoadOptions): string[] {
  const args = Object.entries(options).flatMap(([name, value]) =>
    value === true ? [`--${name}`] : [`--${name}`, `${value}`],
  );
  return args;
}

/** A server of the benchmark, started until a line of its output matches; ended by stop(). */
export class Server {
  readonly address: string;
  /** From the start of the process to its ready line, milliseconds. */
  readonly readyMs: number;
  readonly #child: ChildProcess;
  /** Made for this server; goes with it. */
  readonly #directory: string | undefined;

  private constructor(child: ChildProcess, address: string, readyMs: number, directory: string | undefined) {
    this.#child = child;
    this.address = address;
    this.readyMs = readyMs;
    this.#directory = directory;
  }

  /** `pinned`: on SERVER_CPU alone. */
  static broker(parent: string, flags: readonly string[], pinned = false): Promise<Server> {
    const directory = mkdtempSync(path.join(parent, "ironbus-bench-"));
    const args = serveArguments(path.join(directory, "data"), flags);
    if (pinned) return Server.#start("taskset", ["-c", `${SERVER_CPU}`, BROKER, ...args], directory);
    return Server.#start(BROKER, args, directory);
  }

  /** On a data directory that stays when the server goes. */
  static over(dataDir: string, flags: readonly string[]): Promise<Server> {
    return Server.#start(BROKER, serveArguments(dataDir, flags), undefined);
  }

  static sink(parent: string): Promise<Server> {
    const directory = mkdtempSync(path.join(parent, "ironbus-bench-"));
    return Server.#start(process.execPath, [path.join(ROOT, "scripts/bench/sink.ts")], directory);
  }

  static #start(command: string, args: readonly string[], directory: string | undefined): Promise<Server> {
    const started = performance.now();
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let errors = "";
    return new Promise((resolve, reject) => {
      child.stderr.on("data", (chunk) => (errors += chunk));
      child.stdout.on("data", (chunk) => {
        output += chunk;
        const ready = /listening on ([^,\s]+)/.exec(output);
        if (ready !== null) resolve(new Server(child, ready[1], performance.now() - started, directory));
      });
      child.on("error", reject);
      child.on("exit", (code) => reject(new Error(`${command} ended with ${code}: ${errors}`)));
    });
  }

  /** Anonymous memory in use, MB. */
  rssAnonMb(): number {
    const match = /RssAnon:\s+(\d+) kB/.exec(readFileSync(`/proc/${this.#child.pid}/status`, "utf8"));
    return Number(match?.[1]) / 1024;
  }

  async stop(signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill(signal);
    await ended;
    if (this.#directory !== undefined) rmSync(this.#directory, { recursive: true, force: true });
  }
}

const serveArguments = (dataDir: string, flags: readonly string[]) => [
  "serve",
  "--data-dir",
  dataDir,
  "--addr",
  "127.0.0.1:0",
  ...flags,
];

/** Highest RssAnon seen while `work` runs, MB, looked at every 20 ms. */
export async function peakRssAnonMb<T>(server: Server, work: Promise<T>): Promise<{ result: T; peakMb: number }> {
  let peakMb = server.rssAnonMb();
  const timer = setInterval(() => {
    peakMb = Math.max(peakMb, server.rssAnonMb());
  }, 20);
  try {
    return { result: await work, peakMb };
  } finally {
    clearInterval(timer);
  }
}
