import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { FileSystem } from "../../src/runtime/file-system.ts";

/** A file's bytes, or where a symbolic link leads. */
export type Entry = Uint8Array | { readonly link: string };

/** A directory tree: entries by their path below the directory, `/` between its parts. */
export type Image = Map<string, Entry>;

/** Where the checked-in images are. */
export const DIRECTORIES = fileURLToPath(new URL("directories/", import.meta.url));

/** The tree below `directory` of the real disk. Directories count by what is in them. */
export function readImage(directory: string): Image {
  const image: Image = new Map();
  for (const path of (readdirSync(directory, { recursive: true, encoding: "utf8" }) as string[]).sort()) {
    const at = join(directory, path);
    const status = lstatSync(at);
    if (status.isSymbolicLink()) image.set(path, { link: readlinkSync(at) });
    else if (status.isFile()) image.set(path, new Uint8Array(readFileSync(at)));
  }
  return image;
}

/** Makes `directory` of the real disk hold the image and nothing else. */
export function writeImage(directory: string, image: Image): void {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  for (const [path, entry] of image) {
    const at = join(directory, path);
    mkdirSync(dirname(at), { recursive: true });
    if (entry instanceof Uint8Array) writeFileSync(at, entry);
    else symlinkSync(entry.link, at);
  }
}

/** Puts the image's files below `root` of a file system in memory, which has no links. */
export function loadImage(files: FileSystem, root: string, image: Image): void {
  files.makeDirectory(root);
  for (const [path, entry] of image) {
    if (!(entry instanceof Uint8Array)) throw new Error(`${path} is a link`);
    const at = `${root}/${path}`;
    files.makeDirectory(dirname(at));
    const file = files.open(at, "create-new");
    file.write(entry, 0, entry.length, 0);
    file.close();
  }
}

/** The tree below `root` of any file system; links are left out. */
export function captureImage(files: FileSystem, root: string, below = ""): Image {
  const image: Image = new Map();
  for (const { name, kind } of files.list(`${root}/${below}`)) {
    const path = `${below}${name}`;
    if (kind === "directory") {
      for (const [inner, entry] of captureImage(files, root, `${path}/`)) image.set(inner, entry);
    } else if (kind === "file") {
      const file = files.open(`${root}/${path}`, "read");
      const bytes = new Uint8Array(file.status().size);
      file.read(bytes, 0, bytes.length, 0);
      file.close();
      image.set(path, bytes);
    }
  }
  return image;
}

/** The image with its bytes as text, for comparisons that show where they fail. */
export function shown(image: Image): Record<string, string> {
  return Object.fromEntries(
    [...image]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([path, entry]) => [
        path,
        entry instanceof Uint8Array ? Buffer.from(entry).toString("hex") : `-> ${entry.link}`,
      ]),
  );
}
