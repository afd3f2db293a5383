import { CURSOR_CAPACITY, encodeCursor } from "../../src/log/checkpoint-payloads.ts";
import { encodeSlot, slotLength } from "../../src/log/checkpoint-slots.ts";
import { Log } from "../../src/log/log.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { Compression, FIELDS } from "../../src/runtime/codec.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { readPubRow } from "../../src/wire/pub-table.ts";
import { codec } from "../log/fixtures.ts";
import { captureImage, type Image } from "./image.ts";

/** One record as a producer gave it. */
export interface Published {
  readonly key?: string;
  readonly headers?: string;
  readonly payload: string | Uint8Array;
  /** Default: 1,700,000,000,000 plus a second for each offset. */
  readonly timestampMs?: number;
  /** The payload is a compressed object already. */
  readonly compressed?: boolean;
}

/** A directory that a broker left after writing `records`, one barrier each, with the default group's cursor at `committed`. */
export function written(
  records: readonly Published[],
  maxSegmentBytes: number,
  committed: number,
  compression: Compression = Compression.Lz4,
): Image {
  const files = new SimulatedFileSystem({ turns: "manual" });
  files.makeDirectory("/data");
  const log = Log.open(
    {
      root: "/data",
      maxSegmentBytes,
      maxPendingBytes: 1024 * 1024,
      durability: { level: "sync", flushIntervalMs: 1000, flushMaxBytes: 1024 * 1024 },
      compression,
    },
    { files, codec, clock: new SimulatedClock() },
    { advanced() {}, rejected: (from) => fail(`offset ${from} was rejected`), froze: (error) => fail(error.message) },
  );
  for (const [offset, record] of records.entries()) {
    const { chunk, table } = publish(record, offset);
    if (log.append(chunk, table, 0, 1) !== 1) fail(`offset ${offset} was not taken`);
    log.pump();
    files.runAll();
  }
  const image = captureImage(files, "/data");
  image.set("LOCK", new Uint8Array(0));
  image.set("cursor.ckpt", checkpoint(CURSOR_CAPACITY, [cursor(0), cursor(committed)]));
  return image;
}

/** Publishes as one chunk with its table. */
export function publish(record: Published, offset: number): { chunk: Uint8Array; table: Int32Array } {
  const { key = "", headers = "", payload, timestampMs = 1_700_000_000_000 + offset * 1000, compressed } = record;
  const fixed = Buffer.alloc(11);
  fixed[0] = compressed ? 1 : 0;
  fixed.writeBigUInt64LE(BigInt(timestampMs), 1);
  fixed.writeUInt16LE(key.length, 9);
  const headersLength = Buffer.alloc(2);
  headersLength.writeUInt16LE(headers.length);
  const chunk = new Uint8Array(
    Buffer.concat([fixed, Buffer.from(key), headersLength, Buffer.from(headers), Buffer.from(payload)]),
  );
  const table = new Int32Array(FIELDS);
  readPubRow(chunk, 0, chunk.length, table, 0);
  return { chunk, table };
}

export function cursor(committed: number): Uint8Array {
  return encodeCursor({ committed, runs: [] }, codec);
}

/** A checkpoint file after these payloads were saved in it, one after the other. */
export function checkpoint(capacity: number, payloads: readonly Uint8Array[]): Uint8Array {
  const length = slotLength(capacity);
  const bytes = new Uint8Array(2 * length);
  for (const [index, payload] of payloads.entries()) {
    const slot = ((index + 1) % 2) * length;
    encodeSlot(bytes.subarray(slot, slot + length), index + 1, payload, codec);
  }
  return bytes;
}

/** What `offset` of the small image holds: short and plain, of two parts beside the payload, or long enough for LZ4. */
export function smallRecord(offset: number): Published {
  if (offset % 3 === 0) return { key: `k${offset}`, payload: `record ${offset}, plain and short` };
  if (offset % 3 === 1) return { headers: "h=1", payload: `record ${offset} with headers` };
  return { payload: `record ${offset}, ${"again and ".repeat(12)}done` };
}

const SMALL_SEGMENT_BYTES = 260;

/** Three sealed segments of three records and an active one of two, which is preallocated. */
export function small(): Image {
  return written(
    Array.from({ length: 11 }, (_, offset) => smallRecord(offset)),
    SMALL_SEGMENT_BYTES,
    5,
  );
}

function fail(reason: string): never {
  throw new Error(reason);
}
