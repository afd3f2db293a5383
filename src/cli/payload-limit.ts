import { MAX_FRAME_LENGTH } from "../wire/limits.ts";

/** Tag and fixed fields of a Deliver frame (wire.md 9.3), which takes more room than the Pub frame of the same record. */
const DELIVER_OVERHEAD_BYTES = 30;

/** The longest payload that can be published with such a key and delivered again. */
export function maxPayloadBytes(keyBytes: number): number {
  return MAX_FRAME_LENGTH - DELIVER_OVERHEAD_BYTES - keyBytes;
}
