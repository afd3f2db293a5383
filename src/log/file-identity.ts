import type { File, FileSystem } from "../runtime/file-system.ts";

/** Why `path` does not lead to the open `file` any more, or undefined while it does (README ruling 12). */
export function identityProblem(files: FileSystem, path: string, file: File): string | undefined {
  try {
    const open = file.status();
    const named = files.stat(path);
    if (named === undefined) return "the active segment file was removed";
    if (named.device !== open.device || named.inode !== open.inode) return "the active segment file was replaced";
    return undefined;
  } catch (error) {
    return `the active segment file cannot be examined (${(error as Error).message})`;
  }
}
