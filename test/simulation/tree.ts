import { createHash } from "node:crypto";
import type { FileSystem } from "../../src/runtime/file-system.ts";

/** Bytes of every file below a directory, by path; directories have none. */
export function readTree(files: FileSystem, root: string): Map<string, Uint8Array | undefined> {
  const tree = new Map<string, Uint8Array | undefined>();
  for (const { name, kind } of files.list(root)) {
    const path = root === "/" ? `/${name}` : `${root}/${name}`;
    if (kind === "directory") {
      tree.set(path, undefined);
      for (const [below, bytes] of readTree(files, path)) tree.set(below, bytes);
    } else {
      tree.set(path, readFile(files, path));
    }
  }
  return tree;
}

export function readFile(files: FileSystem, path: string): Uint8Array {
  const file = files.open(path, "read");
  const bytes = new Uint8Array(file.status().size);
  file.read(bytes, 0, bytes.length, 0);
  file.close();
  return bytes;
}

/** One word for names, lengths and bytes of everything below a directory. */
export function digestOf(files: FileSystem, root = "/"): string {
  const hash = createHash("sha1");
  for (const [path, bytes] of readTree(files, root)) {
    hash.update(`${path} ${bytes?.length ?? "directory"}\n`);
    if (bytes !== undefined) hash.update(bytes);
  }
  return hash.digest("hex");
}
