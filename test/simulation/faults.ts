import { DataDirectoryError } from "../../src/log/data-directory.ts";
import { LogReadError } from "../../src/log/reader.ts";
import { FileSystemError } from "../../src/runtime/file-system.ts";
import type { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import type { SeededRandom } from "../../src/runtime/random-seeded.ts";
import type { Fault } from "./setup.ts";

/** Makes the disk fail in that way, soon. */
export function inject(fault: Fault, files: SimulatedFileSystem, random: SeededRandom): void {
  if (fault.kind === "full-disk") {
    files.limitSpace(random.below(8) * 4096);
  } else if (fault.kind === "short-writes") {
    files.shortenWrites({ mostBytes: 1 + random.below(1500), times: Number.POSITIVE_INFINITY });
  } else {
    const code = fault.operation === "open" ? "EMFILE" : "EIO";
    const path = random.chance(0.8) ? /seg-|data$/ : undefined;
    const times = fault.operation === "sync" ? 1 : 1 + random.below(3);
    files.fail({ operation: fault.operation, code, path, skip: random.below(8), times });
  }
}

/** Whether an error is what a failing disk leads to, and not a fault of the engine. */
export function isOfTheDisk(error: unknown): error is Error {
  return error instanceof FileSystemError || error instanceof LogReadError || error instanceof DataDirectoryError;
}
