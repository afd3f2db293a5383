// The build cache: what was fetched, by name and version, checked against the hashes of targets/.
import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { root, run, StepError, say } from "../steps.mjs";
import type { Target } from "./targets.ts";

function chooseDirectory(): string {
  const { IRONBUS_CACHE, XDG_CACHE_HOME, HOME } = process.env;
  const home = XDG_CACHE_HOME || (HOME && path.join(HOME, ".cache"));
  const wanted = IRONBUS_CACHE || (home && path.join(home, "ironbus-build"));
  for (const each of [wanted, path.join(root, ".cache")]) {
    if (each) {
      try {
        mkdirSync(each, { recursive: true });
        accessSync(each, constants.W_OK);
        return path.resolve(each);
      } catch {
        // A home that cannot be written to: the checkout has to hold the cache.
      }
    }
  }
  throw new StepError("cache: neither the home directory nor the checkout can be written to; set IRONBUS_CACHE");
}

/** Where fetched things are kept: IRONBUS_CACHE, or below the user's cache directory, or .cache in the checkout. */
export const cacheDirectory: string = chooseDirectory();

/**
 * Gives the directory `name` of the cache, made by `fill` when it is not there. It appears only when it is complete:
 * an interrupted build leaves nothing that a later one would take for whole.
 */
export function cached(name: string, fill: (directory: string) => void): string {
  const directory = path.join(cacheDirectory, name);
  if (!existsSync(directory)) {
    const partial = mkdtempSync(path.join(cacheDirectory, ".partial-"));
    try {
      fill(partial);
      renameSync(partial, directory);
    } catch (error) {
      rmSync(partial, { recursive: true, force: true });
      // Another build may have been faster.
      if (!existsSync(directory)) {
        throw error;
      }
    }
  }
  return directory;
}

/** Fails unless the file has the hash that is pinned for it. */
export function checkHash(file: string, algorithm: "sha256" | "sha512", encoding: "hex" | "base64", wanted: string) {
  const found = createHash(algorithm).update(readFileSync(file)).digest(encoding);
  if (found !== wanted) {
    throw new StepError(`fetch: ${path.basename(file)} has ${algorithm} ${found}, pinned is ${wanted}`);
  }
}

/** The path of a target's runtime executable as its npm package has it, fetched when it is not in the cache. */
export function fetchRuntime({ runtime }: Target): string {
  const name = `${runtime.package.replace("@", "").replace("/", "-")}-${runtime.version}`;
  const directory = cached(name, (into) => {
    say(`ironbus: fetching ${runtime.package} ${runtime.version}`);
    run("fetch", "npm", ["pack", `${runtime.package}@${runtime.version}`, "--pack-destination", into, "--silent"], {
      quiet: true,
    });
    const archive = path.join(into, `${name}.tgz`);
    checkHash(archive, "sha512", "base64", runtime.integrity.replace("sha512-", ""));
    run("fetch", "tar", ["-xzf", archive, "-C", into, "--strip-components=1", `package/${runtime.executable}`]);
    rmSync(archive);
  });
  return path.join(directory, runtime.executable);
}
