import { Compression, FIELDS } from "../codec.ts";

/**
 * The argument checks of both codecs, so that they refuse the same calls with the same words. They look at what a call
 * brings once, never at each record.
 */

/** Positions in a table are 32 bits wide. */
const MAX_POSITION = 0x7fff_ffff;

function checkWhole(value: number, limit: number, name: string): void {
  if (!(Number.isInteger(value) && value >= 0 && value <= limit)) {
    throw new RangeError(`${name} must be a whole number from 0 to ${limit}, not ${value}`);
  }
}

/** [start, end) within `buffer`. Throws RangeError. */
export function checkRange(buffer: Uint8Array, start: number, end: number): void {
  checkWhole(end, buffer.length, "end");
  checkWhole(start, end, "start");
}

function checkDisjoint(a: ArrayBufferView, b: ArrayBufferView): void {
  if (a.buffer !== b.buffer || a.byteLength === 0 || b.byteLength === 0) return;
  if (a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength) {
    throw new RangeError("the arrays of one call must not overlap");
  }
}

/** The arguments of Codec.seal, rows apart. Throws RangeError. */
export function checkSeal(
  chunk: Uint8Array,
  table: Int32Array,
  first: number,
  count: number,
  out: Uint8Array,
  outStart: number,
  outLimit: number,
  sequence: number,
  result: Float64Array,
  compression: number,
): void {
  checkWhole(compression, Compression.Lz4, "compression");
  checkWhole(count, Math.floor(table.length / FIELDS), "count");
  checkWhole(first, count, "first");
  checkWhole(sequence, Number.MAX_SAFE_INTEGER - Math.max(count - first - 1, 0), "sequence");
  checkRange(out, outStart, outLimit);
  checkDisjoint(out, chunk);
  checkDisjoint(out, table);
  checkResult(result, 1, out, chunk, table);
}

/** The arguments of Codec.expand, rows apart. Throws RangeError. */
export function checkExpand(
  buffer: Uint8Array,
  table: Int32Array,
  first: number,
  count: number,
  out: Uint8Array,
  spots: Int32Array,
): void {
  checkWhole(out.length, MAX_POSITION, "length of out");
  checkWhole(count, Math.floor(table.length / FIELDS), "count");
  checkWhole(first, count, "first");
  checkWhole(count - first, Math.floor(spots.length / 2), "count - first");
  checkDisjoint(out, buffer);
  checkDisjoint(out, table);
  checkDisjoint(spots, buffer);
  checkDisjoint(spots, table);
  checkDisjoint(spots, out);
}

/** The arguments of Codec.scan. Throws RangeError. */
export function checkScan(
  buffer: Uint8Array,
  start: number,
  end: number,
  table: Int32Array,
  maxRecords: number,
  sequence: number,
  result: Float64Array,
): void {
  checkWhole(end, Math.min(buffer.length, MAX_POSITION), "end");
  checkWhole(start, end, "start");
  checkWhole(maxRecords, Math.floor(table.length / FIELDS), "maxRecords");
  if (sequence !== -1) checkWhole(sequence, Number.MAX_SAFE_INTEGER, "sequence");
  checkDisjoint(table, buffer);
  checkResult(result, 4, buffer, table, buffer);
}

function checkResult(
  result: Float64Array,
  entries: number,
  a: ArrayBufferView,
  b: ArrayBufferView,
  c: ArrayBufferView,
): void {
  if (result.length < entries) throw new RangeError(`result must have ${entries} entries`);
  checkDisjoint(result, a);
  checkDisjoint(result, b);
  checkDisjoint(result, c);
}

/** The arguments of Codec.lz4Decompress. Throws RangeError. */
export function checkLz4(
  source: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
  at: number,
  length: number,
): void {
  checkRange(source, start, end);
  checkWhole(at, target.length, "at");
  checkWhole(length, target.length - at, "length");
  checkDisjoint(source, target);
}

/** What seal() throws for a row whose positions or lengths do not fit the chunk or exceed a record's limits. */
export function badRow(row: number): RangeError {
  return new RangeError(`row ${row} of the table does not fit the chunk or the limits of a record`);
}
