import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** Root of the checkout. */
export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** This machine's executable; `npm test` builds it before the tests run. */
export const BINARY = path.join(ROOT, "dist", "ironbus");

/** A Bun that still listens to its environment: the control of the tests about environment variables. */
export const BUN = path.join(ROOT, "node_modules", ".bin", "bun");

/** Mounting needs root, and Linux. */
export const CAN_MOUNT =
  process.platform === "linux" &&
  spawnSync("unshare", ["--mount", "sh", "-c", "mount -t tmpfs none /mnt"], { stdio: "ignore" }).status === 0;

/** Whether cargo built the addon that the binary should then carry. */
export const HAS_ADDON = existsSync(
  path.join(ROOT, "dist", "native", `ironbus-${process.platform}-${process.arch}.node`),
);

const children: ChildProcess[] = [];
const directories: string[] = [];

/** A fresh directory that `cleanUp` removes. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(path.join(tmpdir(), "ironbus-build-"));
  directories.push(directory);
  return directory;
}

/** Ends what a test started and removes what it made; for afterEach. */
export function cleanUp(): void {
  for (const child of children.splice(0)) {
    child.kill("SIGKILL");
  }
  for (const directory of directories.splice(0)) {
    rmSync(directory, { recursive: true, force: true });
  }
}

export interface Surroundings {
  readonly environment?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** For `serve`: where its data goes, when a fresh directory will not do. */
  readonly dataDir?: string;
}

/** Runs a command to its end. */
export function run(command: readonly string[], { environment, cwd }: Surroundings = {}) {
  const [program, ...args] = command;
  const result = spawnSync(program, args, {
    cwd,
    env: { PATH: process.env.PATH, ...environment },
    encoding: "utf8",
    timeout: 50_000,
  });
  return { code: result.status, stdout: result.stdout, stderr: result.stderr };
}

export interface Started {
  readonly child: ChildProcess;
  /** What came on stderr up to the listening line, or to the end when it never came. */
  readonly stderr: string;
  /** Undefined when the broker ended before it listened. */
  readonly address: string | undefined;
}

/** Starts a broker, behind `wrapper` if there is one, and waits until it listens or ends. */
export function serve(command: readonly string[], { environment, cwd, dataDir }: Surroundings = {}): Promise<Started> {
  const directory = dataDir ?? path.join(temporaryDirectory(), "data");
  const [program, ...args] = [...command, "serve", "--data-dir", directory, "--addr", "127.0.0.1:0"];
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, env: { PATH: process.env.PATH, ...environment } });
    children.push(child);
    let stdout = "";
    let stderr = "";
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
    });
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
      const address = /listening on (\S+),/.exec(stdout)?.[1];
      if (address !== undefined) {
        // stderr is another pipe: what was written before may still be on its way.
        setTimeout(() => resolve({ child, stderr, address }), 100);
      }
    });
    child.on("error", reject);
    child.on("close", () => resolve({ child, stderr, address: undefined }));
  });
}
