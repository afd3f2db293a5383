import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TestBroker } from "./harness.ts";

/** Stored bytes of one record of `stopped()`. */
export const RECORD_BYTES = 36 + 100 + 8;

/** A stopped directory with `count` records of 100 bytes in it, not compressed. */
export async function stopped(count: number, flags: readonly string[] = []): Promise<string> {
  const broker = await TestBroker.start(["--compression", "none", ...flags]);
  const lines = Array.from({ length: count }, (_, index) => `${String(index).padEnd(99, "x")}.\n`);
  await broker.text("pub", ["--lines"], { input: lines.join("") });
  await broker.stop();
  return broker.dataDir;
}

/** Paths of the segments, ascending. */
export function segments(dataDir: string): string[] {
  return readdirSync(dataDir)
    .filter((name) => /^seg-[0-9a-f]{16}\.log$/.test(name))
    .sort()
    .map((name) => join(dataDir, name));
}

/** Changes one byte of a file. */
export function flip(path: string, position: number): void {
  const bytes = readFileSync(path);
  bytes[position] ^= 0x10;
  writeFileSync(path, bytes);
}

/** Name, size, mode and content of everything in the directory. */
export function fingerprint(directory: string, without: readonly string[] = []): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .sort()
    .filter((name) => !without.includes(name))
    .map((name) => {
      const path = join(directory, name);
      const status = statSync(path);
      const hash = status.isFile() ? createHash("sha256").update(readFileSync(path)).digest("hex") : "-";
      return `${name} ${status.isFile() ? status.size : "-"} ${status.mode} ${hash}`;
    });
}

export const lines = (stdout: Buffer) => String(stdout).split("\n").slice(0, -1);
