import { existsSync } from "node:fs";
import { basename, delimiter, join } from "node:path";

/** The path of a real Node: `bun --bun` puts a directory with a `node` that is Bun in front of the others. */
export function findNode(): string {
  for (const directory of (process.env.PATH ?? "").split(delimiter)) {
    const candidate = join(directory, "node");
    if (!basename(directory).startsWith("bun-node") && existsSync(candidate)) return candidate;
  }
  throw new Error("these tests need Node on the PATH");
}
