import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** Loads an addon from a file and gives its exports. Throws when it is absent or not loadable here. */
export function loadFile(path: string): unknown {
  const module = { exports: {} };
  process.dlopen(module, path);
  return module.exports;
}

/**
 * Loads an addon from memory: writes it into a fresh private directory, loads it, and removes both. Nothing is left
 * behind and nothing left behind is used, so damaged leftovers and parallel starts cannot matter. Where a directory is
 * read-only, full or mounted noexec, the next one is tried: the temporary directory, the given ones, shared memory, the
 * working directory. Throws an Error that names all of them and what is wrong with each.
 */
export function loadBytes(bytes: Uint8Array, fallbackDirectories: readonly string[]): unknown {
  const candidates = new Set(
    [tmpdir(), ...fallbackDirectories, "/dev/shm", "."].map((directory) => resolve(directory)),
  );
  const failures: string[] = [];
  for (const directory of candidates) {
    try {
      return loadThrough(directory, bytes);
    } catch (cause) {
      failures.push(`${directory}: ${cause instanceof Error ? cause.message : cause}`);
    }
  }
  throw new Error(`cannot unpack the native addon (${failures.join("; ")})`);
}

function loadThrough(directory: string, bytes: Uint8Array): unknown {
  refuseForeign(directory);
  // Created with mode 0700 under a name that did not exist: nobody else can put a file there.
  const own = fs.mkdtempSync(join(directory, "ironbus-addon-"));
  const path = join(own, "addon.node");
  try {
    fs.writeFileSync(path, bytes, { flag: "wx", mode: 0o600 });
    return loadFile(path);
  } finally {
    fs.rmSync(own, { recursive: true, force: true });
  }
}

/** Who may rename our directory away could put another in its place between writing and loading. */
function refuseForeign(directory: string): void {
  const { uid, mode } = fs.statSync(directory);
  const user = process.geteuid?.() ?? uid;
  if (uid !== 0 && uid !== user) throw new Error("belongs to another user");
  if ((mode & 0o022) !== 0 && (mode & 0o1000) === 0) throw new Error("others may rename files in it (no sticky bit)");
}
