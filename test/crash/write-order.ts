import { Tag } from "../../src/wire/tags.ts";
import type { Call } from "./trace.ts";

const isWrite = ({ name }: Call) => /^(p?writev?2?|pwrite64)$/.test(name);
const isBarrier = ({ name, result }: Call) => (name === "fdatasync" || name === "fsync") && result === 0;
const isSegment = ({ path }: Call) => /\/seg-[0-9a-f]{16}\.log$/.test(path);
const isCheckpoint = ({ path }: Call) => path.endsWith(".ckpt");
const directoryOf = (path: string) => path.slice(0, path.lastIndexOf("/"));

const HEADER_MAGIC = Buffer.from("IRONBUS\0");
const HEADER_BYTES = 64;
const FOOTER_MAGIC = Buffer.from("SF");
const FOOTER_BYTES = 32;

/** Offsets that each write to a socket acknowledges (wire.md 8.2). */
export function acknowledgements(calls: readonly Call[]): { readonly call: Call; readonly offsets: number[] }[] {
  const found: { call: Call; offsets: number[] }[] = [];
  /** What a short write left of a frame, by socket. */
  const left = new Map<string, Buffer>();
  for (const call of calls) {
    if (!call.path.startsWith("socket:") || call.result <= 0) continue;
    if (call.cutShort) throw new Error(`a ${call.name} to a socket is cut short in the trace`);
    const bytes = Buffer.concat([left.get(call.path) ?? Buffer.alloc(0), call.data.subarray(0, call.result)]);
    const offsets: number[] = [];
    let at = 0;
    while (at + 4 <= bytes.length && at + 4 + bytes.readUInt32LE(at) <= bytes.length) {
      if (bytes[at + 4] === Tag.PubAck) offsets.push(Number(bytes.readBigUInt64LE(at + 5)));
      at += 4 + bytes.readUInt32LE(at);
    }
    left.set(call.path, bytes.subarray(at));
    if (offsets.length > 0) found.push({ call, offsets });
  }
  return found;
}

/** A barrier on the file of `write`, begun after the write had ended and over before `until` began. */
function barrierBetween(calls: readonly Call[], write: Call, until: Call, name?: "fsync"): Call | undefined {
  return calls.find(
    (call) =>
      isBarrier(call) &&
      (name === undefined || call.name === name) &&
      call.path === write.path &&
      call.begun > write.ended &&
      call.ended < until.begun,
  );
}

/**
 * Acknowledgements that were sent before a barrier covered their record. `markerOf` gives what the record's stored bytes
 * contain and no other record's do.
 */
export function unsafeAcknowledgements(calls: readonly Call[], markerOf: (offset: number) => string): string[] {
  const writes = calls.filter((call) => isWrite(call) && isSegment(call));
  return acknowledgements(calls).flatMap(({ call, offsets }) =>
    offsets.flatMap((offset) => {
      const marker = Buffer.from(markerOf(offset));
      const stored = writes.filter(({ data, result }) => data.subarray(0, Math.max(0, result)).includes(marker));
      if (stored.length === 0) return [`offset ${offset} was acknowledged and is in no write`];
      const safe = stored.some((write) => barrierBetween(calls, write, call) !== undefined);
      return safe ? [] : [`offset ${offset} was acknowledged before a barrier covered its write`];
    }),
  );
}

/** What is out of order in the making and sealing of segments (storage.md 14.3). */
export function segmentDisorder(calls: readonly Call[]): string[] {
  const problems: string[] = [];
  for (const created of calls.filter((call) => isSegment(call) && isCreation(call))) {
    const { path } = created;
    const own = calls.filter((call) => call.path === path && call.begun > created.ended);
    const header = own.find((call) => isWrite(call) && call.data.subarray(0, HEADER_MAGIC.length).equals(HEADER_MAGIC));
    if (header === undefined) {
      problems.push(`${path} has no header`);
      continue;
    }
    // In direct mode the header's block is written again with the first records.
    const records = own.find((call) => isWrite(call) && call !== header && holdsRecords(call));
    if (records !== undefined) {
      const headerBarrier = barrierBetween(calls, header, records);
      if (headerBarrier === undefined) problems.push(`${path}: records before the header's barrier`);
      const named = calls.some(
        (call) =>
          call.name === "fsync" &&
          call.result === 0 &&
          call.path === directoryOf(path) &&
          call.begun > (headerBarrier ?? header).ended &&
          call.ended < records.begun,
      );
      if (!named) problems.push(`${path}: records before the directory's barrier`);
    }
    problems.push(...sealDisorder(calls, own, path));
  }
  return problems;
}

/** Footer, cut, full barrier, and only then the next segment. */
function sealDisorder(calls: readonly Call[], own: readonly Call[], path: string): string[] {
  const id = Number.parseInt(path.slice(-20, -4), 16);
  const next = calls.find((call) => isSegment(call) && isCreation(call) && call.path === nextPath(path, id));
  if (next === undefined) return [];
  const footer = own.find((call) => isWrite(call) && endsWithFooter(call));
  if (footer === undefined) return [`${path} was followed by another segment and has no footer`];
  const cut = own.find(({ name, result, begun }) => name === "ftruncate" && result === 0 && begun > footer.ended);
  if (cut === undefined || cut.ended > next.begun)
    return [`${path}: the next segment was made before this one was cut`];
  const barrier = barrierBetween(calls, cut, next, "fsync");
  return barrier === undefined ? [`${path}: the next segment was made before the seal's barrier`] : [];
}

/** Checkpoints whose slot was not written, synced and named before the broker was used (storage.md 14.5, README ruling 13). */
export function checkpointDisorder(calls: readonly Call[]): string[] {
  const problems: string[] = [];
  for (const created of calls.filter((call) => isCheckpoint(call) && isCreation(call))) {
    const { path } = created;
    const slot = calls.find((call) => call.path === path && isWrite(call) && call.begun > created.ended);
    if (slot === undefined) {
      problems.push(`${path} was made and not written`);
      continue;
    }
    const synced = calls.some((call) => call.path === path && call.name === "fsync" && call.begun > slot.ended);
    if (!synced) problems.push(`${path} was written and not synced`);
    const named = calls.some(
      (call) =>
        call.path === directoryOf(path) &&
        call.name === "fsync" &&
        call.result === 0 &&
        call.begun > created.ended &&
        call.ended < slot.begun,
    );
    if (!named) problems.push(`${path} was written before its directory's barrier`);
  }
  return problems;
}

function isCreation({ name, rest, result }: Call): boolean {
  return name === "openat" && result >= 0 && rest.includes("O_CREAT");
}

/** Whether a write holds more than a header and zeros. */
function holdsRecords({ data, position }: Call): boolean {
  return data.subarray(Math.max(0, HEADER_BYTES - position)).some((byte) => byte !== 0);
}

function endsWithFooter({ data }: Call): boolean {
  let end = data.length;
  for (; end > 0; end--) {
    if (end >= FOOTER_BYTES && data.subarray(end - FOOTER_BYTES, end - FOOTER_BYTES + 2).equals(FOOTER_MAGIC))
      return true;
    // Behind the footer of a direct write there are only the zeros that fill its block.
    if (data[end - 1] !== 0) return false;
  }
  return false;
}

function nextPath(path: string, id: number): string {
  return `${path.slice(0, -20)}${(id + 1).toString(16).padStart(16, "0")}.log`;
}
