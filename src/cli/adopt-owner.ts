import { lchownSync, lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";

/**
 * Gives what root made in a data directory to the directory's owner, so that a broker that runs as that user can go on
 * with it after `sudo ironbus repair`. Does nothing for anybody else, and nothing to what is not root's. An entry that
 * cannot be changed stays as it is.
 */
export function adoptOwner(directory: string): void {
  if (process.geteuid?.() !== 0) return;
  try {
    const { uid, gid } = lstatSync(`${directory}/.`);
    if (uid !== 0) adoptBelow(directory, uid, gid);
  } catch {
    // The directory is gone or cannot be read; the verb itself has said so.
  }
}

function adoptBelow(directory: string, uid: number, gid: number): void {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    try {
      if (lstatSync(path).uid === 0) lchownSync(path, uid, gid);
      if (entry.isDirectory()) adoptBelow(path, uid, gid);
    } catch {
      // One entry less; the others matter as much.
    }
  }
}
