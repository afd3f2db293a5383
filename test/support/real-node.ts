import { existsSync, realpathSync } from "node:fs";
import { delimiter, join } from "node:path";

/** The path of Node itself: `bun --bun` puts a `node` that is Bun in front of it. */
export function findNode(): string {
  for (const directory of (process.env.PATH ?? "").split(delimiter)) {
    const candidate = join(directory, "node");
    if (existsSync(candidate) && realpathSync(candidate) !== realpathSync(process.execPath)) return candidate;
  }
  throw new Error("there is no node on the PATH");
}
