import {
  type BigIntStats,
  closeSync,
  constants,
  type Dirent,
  fchownSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
} from "node:fs";

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Deeper than any data directory. */
const MAX_DEPTH = 16;

/**
 * Gives what root makes in a data directory to the directory's owner, so that a broker that runs as that user can go on
 * with it after `sudo ironbus repair`.
 *
 * That user may put anything there, also while root works: hard links to files of others, links in place of directories. So
 * nothing that was there before changes hands, no file that has a second name, and every entry is reached through the open
 * directory that holds it, never by a path. An entry that cannot be changed stays as it is.
 */
export class OwnerAdoption {
  readonly #directory: number | undefined;
  readonly #owner: BigIntStats | undefined;
  readonly #present = new Set<string>();

  /** To be made before the work begins. Does nothing unless root works in the directory of somebody else. */
  constructor(directory: string) {
    if (process.geteuid?.() !== 0) return;
    try {
      const descriptor = openSync(directory, O_RDONLY | O_DIRECTORY);
      const owner = fstatSync(descriptor, { bigint: true });
      if (owner.uid === 0n) {
        closeSync(descriptor);
        return;
      }
      this.#directory = descriptor;
      this.#owner = owner;
      eachOfRoot(descriptor, (_entry, status) => this.#present.add(identityOf(status)));
    } catch {
      // It is not there or no directory: the verb itself says so, or makes it, and then it is root's.
    }
  }

  /** To be called once the work is done, also when it failed. */
  finish(): void {
    const directory = this.#directory;
    const owner = this.#owner;
    if (directory === undefined || owner === undefined) return;
    try {
      eachOfRoot(directory, (entry, status) => {
        if (this.#present.has(identityOf(status)) || (status.isFile() && status.nlink !== 1n)) return;
        fchownSync(entry, Number(owner.uid), Number(owner.gid));
      });
    } catch {
      // The directory cannot be read any more; the verb itself has said so.
    } finally {
      closeSync(directory);
    }
  }
}

/** A file of the same number that was made later is another one. */
function identityOf({ dev, ino, birthtimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${birthtimeNs}`;
}

/** Calls `visit` for each file and directory of root below the open `directory`, with it open. */
function eachOfRoot(directory: number, visit: (entry: number, status: BigIntStats) => void, depth = 1): void {
  const place = `/proc/self/fd/${directory}`;
  for (const entry of readdirSync(place, { withFileTypes: true })) {
    try {
      visitEntry(place, entry, visit, depth);
    } catch {
      // One entry less; the others matter as much.
    }
  }
}

function visitEntry(
  place: string,
  entry: Dirent,
  visit: (entry: number, status: BigIntStats) => void,
  depth: number,
): void {
  const descends = entry.isDirectory() && depth < MAX_DEPTH;
  const path = `${place}/${entry.name}`;
  if (!descends && (!entry.isFile() || lstatSync(path).uid !== 0)) return;
  const descriptor = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | (descends ? O_DIRECTORY : 0));
  try {
    const status = fstatSync(descriptor, { bigint: true });
    if (status.uid === 0n && (status.isFile() || status.isDirectory())) visit(descriptor, status);
    if (descends) eachOfRoot(descriptor, visit, depth + 1);
  } finally {
    closeSync(descriptor);
  }
}
