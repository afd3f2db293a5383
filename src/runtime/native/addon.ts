import { constants } from "node:os";
import type { Codec } from "../codec.ts";
import { errnoName } from "../errno.ts";
import { addonFile, embeddedAddon } from "./embedded.ts";
import { loadBytes, loadFile } from "./load.ts";

/** The version of the addon crate that these sources call (native/Cargo.toml). */
export const ADDON_VERSION = "0.2.0";

/**
 * Runs file jobs in order on a thread of its own. `callback(id, errno, step)` comes once per job, in the order of
 * submission, on the main thread, never from within submit(); errno 0 is success; step 1 is the write, 2 the
 * truncation, 4 the barrier. Waiting for it does not keep the process alive: whoever waits must hold the event loop.
 */
export interface IoThread {
  /**
   * Writes all of buffer[offset, offset + length) at `position` (nothing when `buffer` is null), sets the file's length
   * to `truncateTo` and reserves and extends to `allocateTo` (each unless -1; a failed reservation is no failure), then
   * no barrier (0), fdatasync (1), fsync (2), or the beginning of the write to the disk without waiting for it (3); 1 and
   * 2 are F_FULLFSYNC on Apple targets. Stops at the first failure.
   *
   * The buffer must not be changed, transferred or resized, and the descriptor not be closed, before the callback.
   * Throws when closed, when 64 jobs wait behind the running one, and for arguments out of range.
   */
  submit(
    id: number,
    fd: number,
    buffer: Uint8Array | null,
    offset: number,
    length: number,
    position: number,
    truncateTo: number,
    allocateTo: number,
    barrier: number,
  ): void;
  /** Refuses further jobs; those submitted still run and call back. Returns at once; idempotent. */
  close(): void;
}

/** The functions of the addon as the runtime uses them. Lengths and positions are whole numbers of bytes. */
export interface Addon extends Omit<RawAddon, "version" | "flock" | "fallocate"> {
  /**
   * flock(LOCK_EX|LOCK_NB). False when another holder has the lock; any other failure throws an Error whose `code` is
   * the errno name.
   */
  flock(fd: number): boolean;
  /**
   * Reserves blocks up to `length` and extends the file to it, never shrinking (storage.md 14.4); a file system that
   * cannot reserve only extends. Throws an Error whose `code` is the errno name.
   */
  fallocate(fd: number, length: number): void;
}

/** The exports of the addon, as they are: of the codec's functions, `seal` and `expand` answer -1 - row for a row that does not fit. */
export interface RawAddon extends Omit<Codec, "kind"> {
  version(): string;
  /** `length` (1 to 2^30 - 1) zeroed bytes at an address that is a multiple of 4096, freed with the buffer. */
  alignedBuffer(length: number): Buffer;
  flock(fd: number): number;
  fallocate(fd: number, length: number): number;
  readonly IoThread: new (callback: (id: number, errno: number, step: number) => void) => IoThread;
}

export type LoadedAddon =
  | { readonly addon: Addon; readonly error?: undefined }
  | { readonly addon?: undefined; readonly error: Error };

let loaded: LoadedAddon | undefined;

/**
 * Loads the addon on the first call; every call gives that first result, since a second attempt after a failed one may
 * seem to succeed without loading anything. `fallbackDirectories` are tried, after the temporary directory, as places to
 * unpack an embedded addon. Never throws; the error names each place that was tried and what is wrong with it.
 */
export function loadAddon(fallbackDirectories: readonly string[] = []): LoadedAddon {
  loaded ??= load(fallbackDirectories);
  return loaded;
}

function load(fallbackDirectories: readonly string[]): LoadedAddon {
  try {
    return { addon: toAddon(loadRaw(fallbackDirectories)) };
  } catch (cause) {
    return { error: cause instanceof Error ? cause : new Error(String(cause)) };
  }
}

function loadRaw(fallbackDirectories: readonly string[]): unknown {
  if (embeddedAddon !== undefined) return loadBytes(embeddedAddon(), fallbackDirectories);
  if (addonFile !== undefined) return loadFile(addonFile);
  throw new Error("this build has no native addon");
}

/** Checks the exports of a loaded addon and gives them the runtime's form. Throws for an addon of another version. */
export function toAddon(exports: unknown): Addon {
  const raw = exports as RawAddon;
  const version = typeof raw?.version === "function" ? raw.version() : "unknown";
  if (version !== ADDON_VERSION) {
    throw new Error(`the native addon is of version ${version}, not ${ADDON_VERSION}: build it again`);
  }
  return {
    crc32c: raw.crc32c,
    xxh3: raw.xxh3,
    seal: raw.seal,
    expand: raw.expand,
    scan: raw.scan,
    lz4Decompress: raw.lz4Decompress,
    alignedBuffer: raw.alignedBuffer,
    IoThread: raw.IoThread,
    flock(fd) {
      const errno = raw.flock(fd);
      if (errno === constants.errno.EWOULDBLOCK) return false;
      if (errno !== 0) throw failure("flock", errno);
      return true;
    },
    fallocate(fd, length) {
      const errno = raw.fallocate(fd, length);
      if (errno !== 0) throw failure("fallocate", errno);
    },
  };
}

function failure(operation: string, errno: number): Error {
  const code = errnoName(errno);
  return Object.assign(new Error(`${operation}: ${code}`), { code, errno });
}
