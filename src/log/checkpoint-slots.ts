import type { Codec } from "../runtime/codec.ts";
import type { File, FileSystem } from "../runtime/file-system.ts";
import { readExactly } from "./read-exactly.ts";
import { readUint64, viewOf, writeUint64 } from "./u64.ts";

/**
 * The two-slot container of a checkpoint file (storage.md 8.1): two slots, each
 * sequence u64 | length u16 | capacity bytes, the first `length` used | crc u32
 * Write number n goes to slot n mod 2, so the one before it stays whole while n is written.
 */

const SLOT_OVERHEAD = 14;
const SLOT_HEADER_LENGTH = 10;

/**
 * - `valid`: a slot holds a payload that was once written
 * - `empty`: nothing was written yet, or the first write was cut
 * - `damaged`: no crash leaves this once the file was synced; whatever it held is lost
 */
export type CheckpointState = "valid" | "empty" | "damaged";

export interface CheckpointContent {
  readonly state: CheckpointState;
  readonly payload: Uint8Array | undefined;
  /** Number of the write that made `payload`; 0 without one. */
  readonly writeNumber: number;
}

/** Bytes of one slot. */
export function slotLength(capacity: number): number {
  return capacity + SLOT_OVERHEAD;
}

/** Fills `slot` with write number `writeNumber` of `payload`. */
export function encodeSlot(slot: Uint8Array, writeNumber: number, payload: Uint8Array, codec: Codec): void {
  const view = viewOf(slot);
  const used = SLOT_HEADER_LENGTH + payload.length;
  writeUint64(view, 0, writeNumber);
  view.setUint16(8, payload.length, true);
  slot.set(payload, SLOT_HEADER_LENGTH);
  slot.fill(0, used, slot.length - 4);
  view.setUint32(slot.length - 4, codec.crc32c(slot, 0, used), true);
}

/** What an open checkpoint file holds. Throws FileSystemError. */
export function readSlots(file: File, capacity: number, codec: Codec): CheckpointContent {
  const length = slotLength(capacity);
  const { size } = file.status();
  // Read as zeros (storage.md 8.1). Without a byte its creation was cut; any other size is not how a checkpoint is left.
  if (size < 2 * length) return { state: size === 0 ? "empty" : "damaged", payload: undefined, writeNumber: 0 };
  const both = new Uint8Array(2 * length);
  readExactly(file, both, 0, both.length, 0);

  let best: CheckpointContent | undefined;
  let corrupt = 0;
  for (const slot of [both.subarray(0, length), both.subarray(length)]) {
    const view = viewOf(slot);
    const writeNumber = readUint64(view, 0);
    if (writeNumber === 0) continue;
    const used = SLOT_HEADER_LENGTH + view.getUint16(8, true);
    const valid =
      writeNumber > 0 && used <= length - 4 && view.getUint32(length - 4, true) === codec.crc32c(slot, 0, used);
    if (!valid) corrupt++;
    else if (best === undefined || writeNumber > best.writeNumber) {
      best = { state: "valid", payload: slot.slice(SLOT_HEADER_LENGTH, used), writeNumber };
    }
  }
  if (best !== undefined) return best;
  // A checkpoint is written and synced when it is created, so zeros throughout are damage too (README ruling 13).
  const zeroed = both.every((byte) => byte === 0);
  return { state: corrupt === 2 || zeroed ? "damaged" : "empty", payload: undefined, writeNumber: 0 };
}

/** What the checkpoint file at `path` holds, or undefined when there is none. Writes nothing. Throws FileSystemError. */
export function readCheckpoint(
  files: FileSystem,
  path: string,
  capacity: number,
  codec: Codec,
): CheckpointContent | undefined {
  if (files.stat(path) === undefined) return undefined;
  const file = files.open(path, "read");
  try {
    return readSlots(file, capacity, codec);
  } finally {
    file.close();
  }
}
