import * as fs from "node:fs";
import * as net from "node:net";
import { constants } from "node:os";
import { errnoName } from "./errno.ts";
import type { Lock } from "./file-system.ts";
import { FileSystemError } from "./file-system.ts";
import type { NativeIo } from "./native-io.ts";

const LOCK_EX_NB = 2 | 4;
/** Bytes of an abstract socket's name; a full one is the same name in every runtime, a shorter one is padded by some. */
const ABSTRACT_NAME_BYTES = 107;

/** Takes the exclusive lock on an open file without waiting; undefined when another holder has it. */
export type Locker = (fd: number) => Lock | undefined;

/**
 * The best lock there is; the kernel frees each of them when its process dies (storage.md 2.1).
 *
 * 1. flock by the addon;
 * 2. flock by Bun's foreign function interface;
 * 3. Linux under Node without the addon: flock cannot be called, so an abstract socket named after the inode excludes
 *    processes that lock this way too, and /proc/locks shows a holder of the real flock. Not covered: a flock taken
 *    later by a process of kind 1 or 2 or by upstream, and holders in another network or process namespace.
 */
export function findLocker(addon: Pick<NativeIo, "flock"> | undefined): Locker {
  if (addon !== undefined) return (fd) => (addon.flock(fd) ? { release() {} } : undefined);
  return flockByForeignFunction() ?? lockBySocket;
}

interface ForeignFunctions {
  dlopen(
    library: string,
    symbols: Record<string, { args: string[]; returns: string }>,
  ): { symbols: Record<string, (...args: number[]) => number> };
  read: { i32(pointer: number, offset: number): number };
}

let foreignLocker: Locker | undefined;

function flockByForeignFunction(): Locker | undefined {
  if (!("Bun" in globalThis)) return undefined;
  if (foreignLocker !== undefined) return foreignLocker;
  const load = process.getBuiltinModule as unknown as (id: string) => ForeignFunctions;
  const { dlopen, read } = load("bun:ffi");
  const apple = process.platform === "darwin";
  const errnoSymbol = apple ? "__error" : "__errno_location";
  const { symbols } = dlopen(apple ? "libSystem.B.dylib" : "libc.so.6", {
    flock: { args: ["i32", "i32"], returns: "i32" },
    [errnoSymbol]: { args: [], returns: "ptr" },
  });
  foreignLocker = (fd) => {
    if (symbols.flock(fd, LOCK_EX_NB) === 0) return { release() {} };
    const errno = read.i32(symbols[errnoSymbol](), 0);
    if (errno === constants.errno.EWOULDBLOCK) return undefined;
    throw Object.assign(new Error(`flock: ${errnoName(errno)}`), { code: errnoName(errno) });
  };
  return foreignLocker;
}

/** Kind 3 of {@link findLocker}. */
function lockBySocket(fd: number): Lock | undefined {
  if (process.platform !== "linux") {
    throw new FileSystemError("ENOTSUP", "lock", `fd ${fd}`, "locking needs the native addon on this platform");
  }
  const { dev, ino } = fs.fstatSync(fd, { bigint: true });
  const server = net.createServer((socket) => socket.destroy());
  // The bind happens within listen(); only its report comes later, and `listening` already tells. With the file open
  // already, the name being taken is the one way for it to fail.
  server.on("error", () => {});
  server.listen(`\0${`ironbus-lock-${dev}-${ino}-`.padEnd(ABSTRACT_NAME_BYTES, "x")}`);
  if (!server.listening) return undefined;
  server.unref();
  if (hasFlockHolder(dev, ino)) {
    server.close();
    return undefined;
  }
  return { release: () => void server.close() };
}

/** Whether /proc/locks names a holder of a flock on the inode; its device is written in hexadecimal as major:minor. */
function hasFlockHolder(device: bigint, inode: bigint): boolean {
  const major = ((device >> 8n) & 0xfffn) | ((device >> 32n) & ~0xfffn);
  const minor = (device & 0xffn) | ((device >> 12n) & ~0xffn);
  const hex = (value: bigint) => value.toString(16).padStart(2, "0");
  const wanted = `${hex(major)}:${hex(minor & 0xffffffffn)}:${inode}`;
  let locks: string;
  try {
    locks = fs.readFileSync("/proc/locks", "latin1");
  } catch {
    return false;
  }
  return locks.split("\n").some((line) => {
    const fields = line.trim().split(/\s+/);
    return fields[1] === "FLOCK" && fields[5] === wanted;
  });
}
