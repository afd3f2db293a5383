import { constants } from "node:os";
import { FileSystemError } from "./file-system.ts";

const names = new Map<number, string>();
for (const [name, number] of Object.entries(constants.errno)) {
  // EAGAIN and EWOULDBLOCK are one number on every target; the first name stays.
  if (!names.has(number)) names.set(number, name);
}

/** The name of an errno number (`ENOSPC`), or `E<number>` for one the platform does not know. */
export function errnoName(errno: number): string {
  return names.get(errno) ?? `E${errno}`;
}

/** Turns whatever a file call threw into the typed error; a code that is not an errno name becomes EIO. */
export function toFileSystemError(cause: unknown, operation: string, path: string): FileSystemError {
  if (cause instanceof FileSystemError) return cause;
  const code = (cause as { code?: unknown } | null)?.code;
  const message = cause instanceof Error ? cause.message : String(cause);
  if (typeof code === "string" && code in constants.errno) return new FileSystemError(code, operation, path, message);
  return new FileSystemError("EIO", operation, path, message);
}
