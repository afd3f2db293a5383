// Small helpers for the scripts that run before anything is installed: Node built-ins only.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** The top of the checkout. */
export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");

/** The directory that remembers what was built from what. Below node_modules, so that both vanish together. */
const stampDirectory = path.join(root, "node_modules", ".ironbus");

/** What a failed step throws; `runMain` prints it without a stack. */
export class StepError extends Error {}

/** Prints one line of progress on stderr, so that stdout stays the program's own. */
export function say(line) {
  process.stderr.write(`${line}\n`);
}

/**
 * Runs a command to its end with the terminal's output.
 * @param {string} step what the user was promised; named when the command fails
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{cwd?: string, env?: Record<string, string | undefined>, quiet?: boolean, lastLines?: number}} [options]
 *   quiet: print the output only when the command fails; lastLines: then no more of either stream than its last ones
 * @returns {string} the output when quiet, else ""
 */
export function run(step, command, args, options = {}) {
  const result = spawnSync(command, args, {
    cwd: options.cwd ?? root,
    env: { ...process.env, ...options.env },
    stdio: options.quiet ? ["ignore", "pipe", "pipe"] : ["ignore", "inherit", "inherit"],
    maxBuffer: 64 * 1024 * 1024,
  });
  if (result.error) {
    throw new StepError(`${step}: cannot run ${command}: ${result.error.message}`);
  }
  if (result.status !== 0) {
    if (options.quiet) {
      for (const output of [result.stdout, result.stderr]) {
        process.stderr.write(options.lastLines ? lastLines(output.toString(), options.lastLines) : output);
      }
    }
    const how = result.signal ? `was ended by ${result.signal}` : `ended with ${result.status}`;
    throw new StepError(`${step}: ${[command, ...args].join(" ")} ${how}`);
  }
  return options.quiet ? result.stdout.toString() : "";
}

function lastLines(text, count) {
  return text.split(/^/m).slice(-count).join("");
}

/** Whether a command can be started at all. */
export function exists(command, args = ["--version"]) {
  return spawnSync(command, args, { stdio: "ignore" }).status === 0;
}

function* filesBelow(entry) {
  const stat = statSync(entry, { throwIfNoEntry: false });
  if (!stat) {
    return;
  }
  if (!stat.isDirectory()) {
    yield entry;
    return;
  }
  for (const name of readdirSync(entry).sort()) {
    if (name !== "target" && name !== "node_modules") {
      yield* filesBelow(path.join(entry, name));
    }
  }
}

/** A hash over the names and contents of files and directories (below the root), and of extra words. */
export function hashOf(paths, words = []) {
  const hash = createHash("sha256").update(JSON.stringify(words));
  for (const each of paths) {
    for (const file of filesBelow(path.join(root, each))) {
      hash.update(`\n${path.relative(root, file)}\n`).update(readFileSync(file));
    }
  }
  return hash.digest("hex");
}

/**
 * Does the work unless it was done for the same key and all of its outputs are still there.
 * @param {string} name of the stamp
 * @param {string} key a hash over all that the work depends on
 * @param {readonly string[]} outputs absolute paths
 * @param {() => void} work
 * @returns {boolean} whether the work was done now
 */
export function unlessDone(name, key, outputs, work) {
  const stamp = path.join(stampDirectory, name);
  if (outputs.every((each) => existsSync(each)) && existsSync(stamp) && readFileSync(stamp, "utf8") === key) {
    return false;
  }
  work();
  mkdirSync(stampDirectory, { recursive: true });
  writeFileSync(stamp, key);
  return true;
}

/** The oldest Node that the scripts and their tools run on. */
const OLDEST_NODE = 20;

/** Runs a script's main function: a failed step, or a Node that is too old, becomes one line and exit code 1. */
export async function runMain(main) {
  try {
    if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
      throw new StepError(`Node ${OLDEST_NODE} or later is needed, this is ${process.versions.node}`);
    }
    await main();
  } catch (error) {
    say(error instanceof StepError ? `ironbus: ${error.message}` : (error?.stack ?? String(error)));
    process.exitCode = 1;
  }
}
