import type { FileSystem } from "../runtime/file-system.ts";
import { readExactly } from "./read-exactly.ts";

/** The `lengthBytes` bytes that the file at `path` has, a bound that the caller has checked. Throws FileSystemError. */
export function readWhole(files: FileSystem, path: string, lengthBytes: number): Uint8Array {
  const bytes = new Uint8Array(lengthBytes);
  const file = files.open(path, "read");
  try {
    readExactly(file, bytes, 0, lengthBytes, 0);
    return bytes;
  } finally {
    file.close();
  }
}

/** Makes `bytes` the synced content of the file at `path`; its name is the caller's to make durable. Throws FileSystemError. */
export function writeWhole(files: FileSystem, path: string, bytes: Uint8Array): void {
  const file = files.open(path, "create");
  try {
    file.truncate(0);
    file.write(bytes, 0, bytes.length, 0);
    file.sync("full");
  } finally {
    file.close();
  }
}
