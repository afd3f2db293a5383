import type { FileSystemError } from "../runtime/file-system.ts";

/** Out of space, or out of what the user may take of it. */
export function isDiskFull(error: FileSystemError): boolean {
  return error.code === "ENOSPC" || error.code === "EDQUOT";
}
