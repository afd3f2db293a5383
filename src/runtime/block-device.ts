import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { posix } from "node:path";

/**
 * What the storage below a directory survives, as far as its model says (storage.md 16): `network-durable` keeps what it
 * was told to write when the machine goes, `local-volatile` does not.
 */
export type DeviceKind = "network-durable" | "local-volatile" | "unknown";

export interface BlockDevice {
  readonly kind: DeviceKind;
  /** Name of the disk itself, below partitions and mappings (`nvme0n1`); undefined when it was not found. */
  readonly name: string | undefined;
  readonly model: string | undefined;
  /** `queue/rotational` and `queue/write_cache` as the kernel words them, for the log only. */
  readonly rotational: string | undefined;
  readonly writeCache: string | undefined;
}

/** The little of /sys that detection reads. All of it throws when there is nothing of that name. */
export interface Sysfs {
  /** The path with every symlink followed. */
  canonical(path: string): string;
  read(path: string): string;
  list(path: string): string[];
  exists(path: string): boolean;
}

export const systemSysfs: Sysfs = {
  canonical: (path) => realpathSync(path),
  read: (path) => readFileSync(path, "utf8"),
  list: (path) => readdirSync(path).sort(),
  exists: existsSync,
};

/** More mappings on top of each other than anybody has: a loop ends here. */
const MOST_LAYERS = 16;
export const UNKNOWN_DEVICE: BlockDevice = {
  kind: "unknown",
  name: undefined,
  model: undefined,
  rotational: undefined,
  writeCache: undefined,
};

/**
 * The disk that files on device number `device` (of stat, Linux's encoding) end up on. Whatever cannot be told for sure is
 * `unknown`; never throws.
 */
export function detectBlockDevice(device: number, sysfs: Sysfs): BlockDevice {
  try {
    const { major, minor } = deviceNumbers(device);
    const directory = diskBelow(sysfs.canonical(`/sys/dev/block/${major}:${minor}`), sysfs);
    const model = text(sysfs, `${directory}/device/model`);
    return {
      kind: model === undefined ? "unknown" : kindOfModel(model),
      name: posix.basename(directory),
      model,
      rotational: text(sysfs, `${directory}/queue/rotational`),
      writeCache: text(sysfs, `${directory}/queue/write_cache`),
    };
  } catch {
    return UNKNOWN_DEVICE;
  }
}

/** Major and minor of a device number as the C library packs them (`gnu_dev_major`). */
export function deviceNumbers(device: number): { readonly major: number; readonly minor: number } {
  const bits = BigInt(device);
  return {
    major: Number(((bits >> 8n) & 0xfffn) | ((bits >> 32n) & 0xffff_f000n)),
    minor: Number((bits & 0xffn) | ((bits >> 12n) & 0xffff_ff00n)),
  };
}

/** The disk below partitions and mappings. Throws when a mapping does not say what it stands on. */
function diskBelow(start: string, sysfs: Sysfs): string {
  let directory = start;
  for (let layer = 0; layer < MOST_LAYERS; layer++) {
    if (sysfs.exists(`${directory}/partition`)) directory = posix.dirname(directory);
    const slaves = `${directory}/slaves`;
    const below = sysfs.exists(slaves) ? sysfs.list(slaves) : [];
    if (below.length === 0) {
      if (/^(dm-|md|loop)/.test(posix.basename(directory))) throw new Error(`${directory} stands on nothing`);
      return directory;
    }
    directory = sysfs.canonical(`${slaves}/${below[0]}`);
  }
  throw new Error(`more than ${MOST_LAYERS} devices on top of each other below ${start}`);
}

function kindOfModel(model: string): DeviceKind {
  const lower = model.toLowerCase();
  // "amazon ec2 nvme instance storage" is one of these.
  if (lower.includes("instance storage")) return "local-volatile";
  if (lower.includes("amazon elastic block store")) return "network-durable";
  return "unknown";
}

function text(sysfs: Sysfs, path: string): string | undefined {
  try {
    return sysfs.read(path).trim();
  } catch {
    return undefined;
  }
}
