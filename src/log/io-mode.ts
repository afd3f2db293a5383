import type { BlockDevice, DeviceKind } from "../runtime/block-device.ts";
import { DIRECT_BLOCK_BYTES, type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import { WRITE_PROBE_FILE } from "./names.ts";

export type RequestedIoMode = "buffered" | "direct" | "auto";
export type IoMode = "buffered" | "direct";

/** How a broker writes its segments, and what is to be said about it. */
export interface ResolvedIoMode {
  readonly mode: IoMode;
  /** Undefined for what nobody needs to hear: `buffered`, which was asked for. */
  readonly note: { readonly level: "INFO" | "WARN"; readonly message: string } | undefined;
}

/**
 * The mode that `requested` means on this host (storage.md 16). `deviceOf` is asked only where it matters. Throws
 * FileSystemError when the data directory fails for another reason than that it cannot take direct writes.
 */
export function resolveIoMode(
  requested: RequestedIoMode,
  files: FileSystem,
  dataDir: string,
  deviceOf: () => BlockDevice,
): ResolvedIoMode {
  if (requested === "buffered") return { mode: "buffered", note: undefined };
  const refusal = directRefusal(files, dataDir);
  if (refusal !== undefined) {
    const message = `--io-mode ${requested}: ${dataDir} takes no direct writes (${refusal.code}); writing buffered`;
    return { mode: "buffered", note: { level: requested === "direct" ? "WARN" : "INFO", message } };
  }
  return chooseIoMode(requested, deviceOf());
}

/** The rows `direct` and `auto` of the table in storage.md 16, for a host that has direct writes. */
export function chooseIoMode(requested: "direct" | "auto", device: BlockDevice): ResolvedIoMode {
  const on = `--io-mode ${requested}: ${describe(device)}`;
  if (device.kind === "network-durable") {
    return { mode: "direct", note: { level: "INFO", message: `${on}; writing direct` } };
  }
  if (requested === "auto") {
    return { mode: "buffered", note: { level: "INFO", message: `${on}; writing buffered` } };
  }
  const message = `${on}, not confirmed to be network-durable storage; writing direct all the same`;
  return { mode: "direct", note: { level: "WARN", message } };
}

const KIND_TEXT: Record<DeviceKind, string> = {
  "network-durable": "network-durable storage",
  "local-volatile": "a local disk that is lost with its machine",
  unknown: "storage of an unknown kind",
};

function describe({ kind, name, model, rotational, writeCache }: BlockDevice): string {
  const facts = [
    name,
    model === undefined ? undefined : `model "${model}"`,
    rotational === undefined ? undefined : `rotational ${rotational}`,
    writeCache === undefined ? undefined : `write cache ${writeCache}`,
  ].filter((fact) => fact !== undefined);
  return facts.length === 0 ? KIND_TEXT[kind] : `${KIND_TEXT[kind]} (${facts.join(", ")})`;
}

const NO_DIRECT_WRITES = new Set(["EINVAL", "EOPNOTSUPP", "ENOTSUP", "ENOSYS"]);

/** Why `dataDir` takes no direct writes: one block is written to the probe file. Undefined when it does. */
function directRefusal(files: FileSystem, dataDir: string): FileSystemError | undefined {
  const path = `${dataDir}/${WRITE_PROBE_FILE}`;
  try {
    removeIfPresent(files, path);
    const file = files.openDirect(path, "create-new");
    try {
      file.write(files.alignedBuffer(DIRECT_BLOCK_BYTES), 0, DIRECT_BLOCK_BYTES, 0);
    } finally {
      file.close();
    }
  } catch (error) {
    if (!(error instanceof FileSystemError)) throw error;
    if (NO_DIRECT_WRITES.has(error.code)) return error;
    // A full disk says nothing about the kind of write, and is no reason not to start (README ruling 11).
    if (error.code !== "ENOSPC" && error.code !== "EDQUOT") throw error;
  } finally {
    // Where the file system refuses the open, it has made the file all the same.
    removeIfPresent(files, path);
  }
  return undefined;
}

function removeIfPresent(files: FileSystem, path: string): void {
  if (files.stat(path) !== undefined) files.remove(path);
}

/** A device that wants direct writes of another alignment is no reason to change the mode silently (storage.md 16). */
export function explainMisfit(cause: Error): Error {
  if (!(cause instanceof FileSystemError) || cause.code !== "EINVAL" || cause.operation !== "write") return cause;
  const text = `the device refuses direct writes in blocks of ${DIRECT_BLOCK_BYTES} bytes; use --io-mode buffered`;
  return new Error(`${cause.message} (${text})`, { cause });
}
