import { decompressPayload } from "../../src/log/compressed-payload.ts";
import {
  type Codec,
  FIELD_FLAGS,
  FIELD_HEADERS,
  FIELD_HEADERS_LENGTH,
  FIELD_KEY,
  FIELD_KEY_LENGTH,
  FIELD_PAYLOAD,
  FIELD_PAYLOAD_LENGTH,
  FIELDS,
} from "../../src/runtime/codec.ts";
import type { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { readPubRow } from "../../src/wire/pub-table.ts";

/** What a publisher hands over and every reader must get back. */
export interface Content {
  readonly key: Uint8Array;
  readonly headers: Uint8Array;
  readonly payload: Uint8Array;
}

const COMPRESSED = 0x01;
const EMPTY = new Uint8Array(0);

/** Contents of mixed sizes: mostly small, some of several sectors or blocks, some that compress, some that do not. */
export class ContentMaker {
  readonly #random: SeededRandom;
  readonly #mostBytes: number;
  #made = 0;

  /** `mostBytes`: the largest key, headers and payload together. */
  constructor(random: SeededRandom, mostBytes: number) {
    this.#random = random;
    this.#mostBytes = mostBytes;
  }

  next(): Content {
    const random = this.#random;
    // A number that no other record has, so that none can be taken for another.
    const mark = new TextEncoder().encode(`${this.#made++}/`);
    const key = random.chance(0.2) ? random.bytes(1 + random.below(12)) : EMPTY;
    const headers = random.chance(0.1) ? random.bytes(1 + random.below(30)) : EMPTY;
    const room = Math.max(0, this.#mostBytes - key.length - headers.length - mark.length);
    const size = Math.min(room, this.#size());
    const payload = new Uint8Array(mark.length + size);
    payload.set(mark);
    if (random.chance(0.5)) payload.set(random.bytes(size), mark.length);
    else payload.fill(97 + random.below(26), mark.length);
    return { key, headers, payload };
  }

  #size(): number {
    const random = this.#random;
    const kind = random.below(20);
    if (kind === 0) return 0;
    if (kind < 14) return random.below(200);
    if (kind < 19) return random.below(3000);
    return random.below(14_000);
  }
}

/** Pub bodies back to back, with their table. */
export function publishes(contents: readonly Content[]): { chunk: Uint8Array; table: Int32Array } {
  const bodies = contents.map(({ key, headers, payload }) => {
    const body = new Uint8Array(13 + key.length + headers.length + payload.length);
    const view = new DataView(body.buffer);
    view.setUint16(9, key.length, true);
    body.set(key, 11);
    view.setUint16(11 + key.length, headers.length, true);
    body.set(headers, 13 + key.length);
    body.set(payload, 13 + key.length + headers.length);
    return body;
  });
  const chunk = new Uint8Array(Buffer.concat(bodies));
  const table = new Int32Array(contents.length * FIELDS);
  let at = 0;
  for (const [row, body] of bodies.entries()) {
    readPubRow(chunk, at, at + body.length, table, row);
    at += body.length;
  }
  return { chunk, table };
}

/** The content of a stored record: a row of a table that describes `buffer`. */
export function contentOfRow(buffer: Uint8Array, rows: Int32Array, row: number, codec: Codec): Content {
  const at = row * FIELDS;
  const part = (field: number, length: number): Uint8Array =>
    buffer.slice(rows[at + field], rows[at + field] + rows[at + length]);
  return contentOfParts(
    rows[at + FIELD_FLAGS],
    part(FIELD_KEY, FIELD_KEY_LENGTH),
    part(FIELD_HEADERS, FIELD_HEADERS_LENGTH),
    part(FIELD_PAYLOAD, FIELD_PAYLOAD_LENGTH),
    codec,
  );
}

/** The content of a stored record out of its parts; `stored` is the payload as the disk has it. */
export function contentOfParts(
  flags: number,
  key: Uint8Array,
  headers: Uint8Array,
  stored: Uint8Array,
  codec: Codec,
): Content {
  return { key, headers, payload: (flags & COMPRESSED) === 0 ? stored : decompressPayload(stored, codec) };
}

export function sameContent(left: Content, right: Content): boolean {
  return (
    Buffer.compare(left.payload, right.payload) === 0 &&
    Buffer.compare(left.key, right.key) === 0 &&
    Buffer.compare(left.headers, right.headers) === 0
  );
}

/** A content in few words, for a report. */
export function describeContent({ key, headers, payload }: Content): string {
  const start = Buffer.from(payload.subarray(0, 12)).toString("latin1");
  return `${key.length}+${headers.length}+${payload.length} bytes ${JSON.stringify(start)}`;
}
