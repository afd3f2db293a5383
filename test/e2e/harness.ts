import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findNode } from "../support/real-node.ts";

/** Root of the checkout; relative paths in IRONBUS_COMMAND start here. */
export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** The command under test, e.g. ["dist/ironbus"] or ["node", "dist/ironbus-node.cjs"], from IRONBUS_COMMAND. */
export const COMMAND: readonly string[] = commandOf(
  JSON.parse(process.env.IRONBUS_COMMAND ?? '["node_modules/.bin/bun", "src/main.ts"]'),
);

function commandOf([program, ...args]: string[]): string[] {
  return [program === "node" ? findNode() : program, ...args];
}

/** The long forms of some tests run only when asked for. */
export const FULL = process.env.IRONBUS_FULL === "1";

/** A safety net against hanging, never a measure of speed. */
const DEADLINE_MS = 50_000;

const children = new Set<ChildProcess>();
const directories: string[] = [];

/** Kills what a test left running and removes what it left lying about; for afterEach. */
export async function cleanUp(): Promise<void> {
  await Promise.all(
    [...children].map((child) => {
      const gone = new Promise((resolve) => child.once("close", resolve));
      child.kill("SIGKILL");
      return gone;
    }),
  );
  for (const directory of directories.splice(0)) {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** A fresh directory that cleanUp() removes. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "ironbus-e2e-"));
  directories.push(directory);
  return directory;
}

export interface ProcessResult {
  /** Undefined when a signal ended it. */
  readonly code: number | undefined;
  readonly signal: NodeJS.Signals | undefined;
  readonly stdout: Buffer;
  readonly stderr: string;
}

export interface RunOptions {
  readonly input?: string | Uint8Array;
  readonly environment?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** A command that runs the command under test, which becomes its arguments. */
  readonly wrapper?: readonly string[];
}

/** The environment of every child: nothing of IronBus's own but what a test gives. */
function childEnvironment(extra: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(IRONBUS_|VITEST|NODE_ENV$)/.test(name));
  return { ...Object.fromEntries(inherited), ...extra };
}

/** A process of the command under test, with its output as it comes. */
export class Process {
  readonly child: ChildProcess;
  readonly done: Promise<ProcessResult>;
  readonly #stdout: Buffer[] = [];
  #stderr = "";
  #watchers: (() => void)[] = [];
  #ended = false;

  constructor(
    args: readonly string[],
    options: RunOptions = {},
    stdio: ("pipe" | "ignore")[] = ["pipe", "pipe", "pipe"],
  ) {
    const [program, ...first] = [...(options.wrapper ?? []), ...COMMAND];
    // A program and scripts named relative to the checkout are found from anywhere.
    const absolute = (part: string) => (part.includes("/") && !part.startsWith("/") ? join(ROOT, part) : part);
    this.child = spawn(absolute(program), [...first.map(absolute), ...args], {
      cwd: options.cwd ?? ROOT,
      env: childEnvironment(options.environment),
      stdio,
    });
    children.add(this.child);
    this.child.stdin?.on("error", () => {});
    this.child.stdout?.on("data", (chunk: Buffer) => {
      this.#stdout.push(chunk);
      this.#changed();
    });
    this.child.stderr?.on("data", (chunk: Buffer) => {
      this.#stderr += chunk;
      this.#changed();
    });
    this.done = new Promise((resolve, reject) => {
      const deadline = setTimeout(() => this.child.kill("SIGKILL"), DEADLINE_MS);
      this.child.once("error", reject);
      this.child.once("close", (code, signal) => {
        clearTimeout(deadline);
        children.delete(this.child);
        this.#ended = true;
        this.#changed();
        resolve({ code: code ?? undefined, signal: signal ?? undefined, stdout: this.stdout, stderr: this.#stderr });
      });
    });
    if (options.input !== undefined) {
      this.child.stdin?.end(options.input);
    }
  }

  get stdout(): Buffer {
    return Buffer.concat(this.#stdout);
  }

  get stderr(): string {
    return this.#stderr;
  }

  /** Resolves when `condition` holds; fails when the process ends first. */
  async until(condition: (process: this) => boolean): Promise<void> {
    while (!condition(this)) {
      if (this.#ended) {
        throw new Error(`the process ended first; stdout: ${this.stdout}; stderr: ${this.#stderr}`);
      }
      await new Promise<void>((resolve) => {
        this.#watchers.push(resolve);
      });
    }
  }

  /** Peak resident memory so far in bytes, from /proc. */
  peakResidentBytes(): number {
    const match = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.child.pid}/status`, "utf8"));
    return Number(match?.[1]) * 1024;
  }

  #changed(): void {
    for (const watcher of this.#watchers.splice(0)) {
      watcher();
    }
  }
}

/** Runs one command line to its end, with an empty stdin unless given. */
export function run(args: readonly string[], options: RunOptions = {}): Promise<ProcessResult> {
  return new Process(args, { input: "", ...options }).done;
}

/** A broker of the command under test, on a free port of 127.0.0.1. */
export class TestBroker {
  readonly process: Process;
  readonly dataDir: string;
  /** `127.0.0.1:<port>` from the listening line. */
  readonly address: string;

  private constructor(process: Process, dataDir: string, address: string) {
    this.process = process;
    this.dataDir = dataDir;
    this.address = address;
  }

  /** Starts `serve --checkpoint-interval 1` with further flags and waits for its listening line. */
  static async start(
    flags: readonly string[] = [],
    dataDir: string = join(temporaryDirectory(), "data"),
    options: RunOptions = {},
  ): Promise<TestBroker> {
    const base = ["serve", "--data-dir", dataDir, "--addr", "127.0.0.1:0", "--checkpoint-interval", "1"];
    const process = new Process([...base, ...flags], options);
    const line = /^ironbus listening on ([^,]+), data dir .*\n/m;
    await process.until(({ stdout }) => line.test(String(stdout)));
    return new TestBroker(process, dataDir, String(line.exec(String(process.stdout))?.[1]));
  }

  /** Runs a client verb against this broker. */
  run(verb: string, args: readonly string[] = [], options: RunOptions = {}): Promise<ProcessResult> {
    return run([verb, "--addr", this.address, ...args], options);
  }

  /** stdout of a client verb that must succeed. */
  async text(verb: string, args: readonly string[] = [], options: RunOptions = {}): Promise<string> {
    const result = await this.run(verb, args, options);
    if (result.code !== 0) {
      throw new Error(`${verb} ${args.join(" ")} ended with ${result.code ?? result.signal}: ${result.stderr}`);
    }
    return String(result.stdout);
  }

  /** kill -9, and wait until it is gone. */
  async kill(): Promise<void> {
    this.process.child.kill("SIGKILL");
    await this.process.done;
  }

  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<ProcessResult> {
    this.process.child.kill(signal);
    return await this.process.done;
  }

  /** A new broker on the same directory; this one must be gone. */
  restart(flags: readonly string[] = []): Promise<TestBroker> {
    return TestBroker.start(flags, this.dataDir);
  }
}
