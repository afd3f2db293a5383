/** Below this the collector's share of the memory is small, and asking for the buffer costs as much as the rest of a turn. */
const WORTH_FREEING_BYTES = 16 * 1024;

type Transferable = ArrayBuffer & { transfer?(newByteLength: number): ArrayBuffer };

/**
 * Gives the memory behind `bytes` back now rather than at some later garbage collection. Nobody may touch it afterwards:
 * the array becomes empty. What a busy socket leaves behind would otherwise be most of the process's memory (under load
 * 60-70 MB of it instead of 20). Does nothing for a few bytes, where `bytes` is only a part of its buffer, or the runtime cannot do it
 * (Node 20).
 */
export function freeMemory(bytes: Uint8Array): void {
  if (bytes.length < WORTH_FREEING_BYTES) return;
  const buffer = bytes.buffer as Transferable;
  if (bytes.length === buffer.byteLength) buffer.transfer?.(0);
}
