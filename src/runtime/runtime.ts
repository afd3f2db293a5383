import { type Sysfs, systemSysfs } from "./block-device.ts";
import type { Clock } from "./clock.ts";
import { systemClock } from "./clock-system.ts";
import type { Codec } from "./codec.ts";
import type { FileSystem } from "./file-system.ts";
import { createDiskFileSystem } from "./file-system-disk.ts";
import { EphemeralFileSystem } from "./file-system-ephemeral.ts";
import { loadAddon } from "./native/addon.ts";
import { loadCodec } from "./native/codec.ts";
import { createNetwork } from "./network.ts";
import type { Random } from "./random.ts";
import { systemRandom } from "./random-system.ts";
import type { Network } from "./sockets.ts";

/** Everything the broker has of the world outside. */
export interface Runtime {
  readonly clock: Clock;
  readonly random: Random;
  readonly files: FileSystem;
  readonly network: Network;
  readonly codec: Codec;
  /** What says which device files are on; absent where nothing does. */
  readonly sysfs?: Sysfs;
}

/**
 * The real world: this machine's clocks, disk and network, with the native addon where it loads. `warnings` are lines
 * for the user; without the addon there is one. `fallbackDirectories` are places to unpack an embedded addon when the
 * temporary directory does not do. With `storage` memory the disk is memory of this process, empty at first.
 */
export function createRuntime(
  fallbackDirectories: readonly string[] = [],
  storage: "disk" | "memory" = "disk",
): { runtime: Runtime; warnings: string[] } {
  const { codec, warning } = loadCodec(fallbackDirectories);
  const runtime = {
    clock: systemClock,
    random: systemRandom,
    files:
      storage === "memory" ? new EphemeralFileSystem() : createDiskFileSystem(loadAddon(fallbackDirectories).addon),
    network: createNetwork(),
    codec,
    sysfs: process.platform === "linux" && storage === "disk" ? systemSysfs : undefined,
  };
  return { runtime, warnings: warning === undefined ? [] : [warning] };
}
