import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const MANIFEST = join(ROOT, "test", "interop", "rust", "Cargo.toml");

/** A first build on a small board takes its time; a safety net against hanging, never a measure of speed. */
export const DEADLINE_MS = 900_000;

/** What the titles of these tests say where they cannot run. */
export const missing =
  spawnSync("cargo", ["--version"], { stdio: "ignore" }).status === 0 ? "" : " (skipped: no cargo to build it with)";

export interface Outcome {
  readonly code: number | null;
  readonly lines: readonly string[];
  readonly stderr: string;
}

const children = new Set<ChildProcess>();

/** Runs cargo with everything that it starts in a process group of its own, so that nothing of it can stay behind. */
export async function cargo(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  const [verb, ...rest] = args;
  const child = spawn("cargo", [verb, "--quiet", "--locked", "--release", "--manifest-path", MANIFEST, ...rest], {
    cwd: ROOT,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  children.add(child);
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  children.delete(child);
  return { code, lines: stdout.trimEnd().split("\n"), stderr };
}

/** Ends what a test that was given up left running; for afterAll. */
export function endCargo(): void {
  for (const { pid } of children) {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  }
}
