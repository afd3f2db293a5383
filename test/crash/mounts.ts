import { execFile, execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const mounted: string[] = [];
const roots: string[] = [];

/** Why nothing can be mounted here (it needs root and loop devices), or undefined. */
export function whyNoMounts(): string | undefined {
  try {
    mountExt4(newImage(4 * 1024 * 1024));
    return undefined;
  } catch (error) {
    return `nothing can be mounted: ${(error as Error).message.split("\n")[0]}`;
  } finally {
    unmountAll();
  }
}

/** A place of its own that unmountAll() removes. */
export function newPlace(): string {
  const root = mkdtempSync(join(tmpdir(), "ironbus-crash-"));
  roots.push(root);
  return root;
}

/** Mounts a file system that lives in memory. `ramfs` has no bound. */
export function mountMemory(kind: "tmpfs" | "ramfs", bytes: number): string {
  const path = join(newPlace(), "mounted");
  mkdirSync(path);
  execFileSync("mount", ["-t", kind, "-o", `size=${bytes}`, kind, path]);
  mounted.push(path);
  return path;
}

/** A file with an ext4 in it, nothing of which is reserved for root; sparse, in `directory` or a place of its own. */
export function newImage(bytes: number, directory = newPlace()): string {
  const image = join(directory, "image");
  execFileSync("truncate", ["-s", String(bytes), image]);
  execFileSync("mkfs.ext4", ["-q", "-F", "-m", "0", image]);
  return image;
}

export function mountExt4(image: string, options = "errors=remount-ro", path = join(newPlace(), "mounted")): string {
  mkdirSync(path, { recursive: true });
  execFileSync("mount", ["-o", `loop,${options}`, image, path]);
  mounted.push(path);
  return path;
}

/**
 * Has the kernel find a mounted ext4 damaged. With `errors=remount-ro` it is read-only from then on, files that are open
 * for writing included, which a plain remount refuses to do.
 */
export function turnReadOnly(path: string): void {
  const device = execFileSync("findmnt", ["-no", "SOURCE", path]).toString().trim();
  execFileSync("sh", ["-c", `echo 1 > /sys/fs/ext4/${basename(device)}/trigger_fs_error`]);
}

/** Has the kernel give up a mounted ext4 without writing anything more to it: FS_IOC_SHUTDOWN, which no tool offers. */
export function shutDown(path: string): void {
  const program =
    "import fcntl, os, struct, sys; fcntl.ioctl(os.open(sys.argv[1], 0), 0x8004587d, struct.pack('I', 2))";
  execFileSync("python3", ["-c", program, path]);
}

export function unmount(path: string, ...options: string[]): void {
  execFileSync("umount", [...options, path]);
  mounted.splice(mounted.indexOf(path), 1);
}

/** Brings what a failure left of an ext4 into order. */
export function repairImage(image: string): void {
  const { status, stderr } = spawnSync("e2fsck", ["-fy", image]);
  if (status === null || status > 1) throw new Error(`e2fsck ended with ${status}: ${stderr}`);
}

/** For afterEach, once nothing uses the mounts any more. */
export function unmountAll(): void {
  for (const path of mounted.splice(0).reverse()) execFileSync("umount", ["-l", path]);
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
}

/** Fills the file system that `path` is on to its last byte, with the file `<path>/ballast`. */
export async function fill(path: string): Promise<string> {
  const ballast = join(path, "ballast");
  for (const blockSize of ["64k", "4k", "1"]) {
    const append = ["if=/dev/zero", `of=${ballast}`, `bs=${blockSize}`, "oflag=append", "conv=notrunc"];
    await run("dd", append).then(
      () => Promise.reject(new Error(`${dirname(ballast)} has no end`)),
      (error: Error) => (/No space left/.test(error.message) ? undefined : Promise.reject(error)),
    );
  }
  return ballast;
}
