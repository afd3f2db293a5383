import * as fs from "node:fs";

/**
 * A file system that an error has made read-only (ext4 with errors=remount-ro) may answer a sync with success although
 * nothing is written any more: such a success is none. Throws EROFS; where /proc is not there to ask, it is not known.
 */
export function requireWritable(fd: number): void {
  try {
    fs.accessSync(`/proc/self/fd/${fd}`, fs.constants.W_OK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EROFS") throw error;
  }
}
