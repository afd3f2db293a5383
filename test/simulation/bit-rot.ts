import { Log } from "../../src/log/log.ts";
import type { LossEvent } from "../../src/log/loss-report.ts";
import { parseSegmentName } from "../../src/log/names.ts";
import { SEGMENT_HEADER_LENGTH } from "../../src/log/segment.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { type Codec, Compression, FIELDS } from "../../src/runtime/codec.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { type Content, ContentMaker, contentOfRow, describeContent, publishes, sameContent } from "./contents.ts";
import { ROOT } from "./setup.ts";
import { readFile, readTree } from "./tree.ts";
import { demand } from "./violation.ts";

const MAX_SEGMENT_BYTES = 6000;
const RECORDS = 120;

/** Where a record lies. */
interface Span {
  readonly path: string;
  readonly start: number;
  readonly end: number;
}

/** A log of several segments, stopped, with every record's content and place. */
export interface Archive {
  readonly files: SimulatedFileSystem;
  readonly contents: readonly Content[];
  /** By offset. */
  readonly spans: readonly Span[];
  /** Ascending; the last one is not sealed. */
  readonly segments: readonly { readonly path: string; readonly writtenBytes: number }[];
}

export interface Flip {
  readonly path: string;
  readonly position: number;
  readonly bit: number;
}

export interface RotResult {
  /** Offsets that no reader gets any more, ascending. */
  readonly missing: readonly number[];
  readonly losses: readonly LossEvent[];
  readonly readOnly: boolean;
}

/** Publishes records of mixed sizes, half of them compressible, over several segments. */
export async function makeArchive(codec: Codec, seed: number): Promise<Archive> {
  const files = new SimulatedFileSystem({ seed, turns: "manual" });
  files.makeDirectory(ROOT);
  const log = openLog(files, codec, false);
  const maker = new ContentMaker(new SeededRandom(seed), 2500);
  const contents = Array.from({ length: RECORDS }, () => maker.next());
  for (let at = 0; at < RECORDS; ) {
    const { chunk, table } = publishes(contents.slice(at));
    at += log.append(chunk, table, 0, RECORDS - at);
    log.pump();
    files.runAll();
  }
  const spans: Span[] = [];
  const result = new Float64Array(4);
  const segments = log.segments.map(({ path, baseSequence, count, end }) => {
    const bytes = readFile(files, path);
    const rows = new Int32Array(FIELDS);
    let start = SEGMENT_HEADER_LENGTH;
    for (let index = 0; index < count; index++) {
      codec.scan(bytes, start, bytes.length, rows, 1, baseSequence + index, result);
      spans.push({ path, start, end: result[0] });
      start = result[0];
    }
    demand(start === end, "archive", () => `${path} ends at ${end}, its records at ${start}`);
    let writtenBytes = bytes.length;
    while (bytes[writtenBytes - 1] === 0) writtenBytes--;
    return { path, writtenBytes };
  });
  const closed = log.close();
  files.runAll();
  await closed;
  return { files, contents, spans, segments };
}

/** One to four flips: alone, in one byte, in one record's neighbourhood, or anywhere. */
export function drawFlips(archive: Archive, random: SeededRandom): Flip[] {
  const { segments } = archive;
  const anywhere = (): Flip => {
    const { path, writtenBytes } = segments[random.below(segments.length)];
    return { path, position: random.below(writtenBytes), bit: random.below(8) };
  };
  const first = anywhere();
  const flips = [first];
  const kind = random.below(10);
  if (kind >= 6) {
    for (let more = 1 + random.below(3); more > 0; more--) {
      if (kind < 8) {
        const { writtenBytes } = segments.find(({ path }) => path === first.path)!;
        const position = Math.min(writtenBytes - 1, first.position + (kind === 6 ? 0 : random.below(400)));
        flips.push({ path: first.path, position, bit: random.below(8) });
      } else {
        flips.push(anywhere());
      }
    }
  }
  // Twice the same is nothing at all.
  return flips.filter((flip, index) => flips.findIndex((other) => sameFlip(flip, other)) === index);
}

function sameFlip(left: Flip, right: Flip): boolean {
  return left.path === right.path && left.position === right.position && left.bit === right.bit;
}

/** Damages a copy of the archive, opens it and reads everything. Throws Violation. */
export async function rot(
  archive: Archive,
  flips: readonly Flip[],
  codec: Codec,
  fullScan: boolean,
): Promise<RotResult> {
  const files = archive.files.imageAfterPowerCut({ style: "kept", seed: 1, turns: "manual" });
  for (const { path, position, bit } of flips) files.flipBit(path, position, bit);
  const before = readTree(files, ROOT);
  const losses: LossEvent[] = [];
  const log = openLog(files, codec, fullScan, (found) => losses.push(...found));
  losses.push(...log.losses);

  const missing = readAll(log, archive, codec);
  checkReported(log, missing, losses, archive);
  checkSpared(missing, flips, archive);
  const closed = log.close();
  files.runAll();
  await closed;
  checkFiles(before, readTree(files, ROOT), log.readOnly !== undefined, archive);

  const again = openLog(files, codec, fullScan);
  const stillMissing = readAll(again, archive, codec);
  demand(stillMissing.join() === missing.join(), "I4", () => `missing ${missing}, after a restart ${stillMissing}`);
  return { missing, losses, readOnly: log.readOnly !== undefined };
}

function openLog(
  files: SimulatedFileSystem,
  codec: Codec,
  fullScan: boolean,
  lost?: (losses: readonly LossEvent[]) => void,
): Log {
  return Log.open(
    {
      root: ROOT,
      maxSegmentBytes: MAX_SEGMENT_BYTES,
      maxPendingBytes: 100_000,
      durability: { level: "sync", flushIntervalMs: 0, flushMaxBytes: 0 },
      compression: Compression.Lz4,
      recovery: "salvage",
      fullScan,
    },
    { files, codec, clock: new SimulatedClock() },
    { advanced() {}, rejected() {}, froze() {}, lost: (_, losses) => lost?.(losses) },
  );
}

/** Reads every offset and compares; returns those that were written and do not come back. */
function readAll(log: Log, { contents }: Archive, codec: Codec): number[] {
  const found = new Set<number>();
  const head = log.visibleHead;
  for (let offset = log.earliestOffset; offset < head; offset++) {
    const window = log.read(offset, head);
    if (window === undefined) {
      demand(log.gapAt(offset) !== undefined, "I3", () => `offset ${offset} is neither there nor in a gap`);
      continue;
    }
    const content = contentOfRow(window.buffer, window.rows, offset - window.firstOffset, codec);
    const written = contents[offset];
    demand(written !== undefined && sameContent(written, content), "I1", () => {
      return `offset ${offset} holds ${describeContent(content)}`;
    });
    found.add(offset);
  }
  return contents.map((_, offset) => offset).filter((offset) => !found.has(offset));
}

function checkReported(log: Log, missing: readonly number[], losses: readonly LossEvent[], archive: Archive): void {
  const { gaps, earliestOffset, visibleHead } = log;
  for (const offset of missing) {
    const inGap = gaps.some(({ start, end }) => offset >= start && offset < end);
    const atAnEnd = (offset < earliestOffset || offset >= visibleHead) && log.losses.length > 0;
    demand(inGap || atAnEnd, "I3", () => `offset ${offset} is missing without a word`);
    // The loss says where: in the record's segment.
    const id = Number(parseSegmentName(archive.spans[offset].path.slice(ROOT.length + 1)));
    demand(
      losses.some(({ segmentId }) => segmentId === id),
      "I3",
      () => `offset ${offset} of segment ${id} is missing, the losses are ${JSON.stringify(losses)}`,
    );
  }
}

/**
 * Every record that was hit is gone. Another one is only where it lies between two that were hit, whose lengths may both
 * be unknown; or, in the last segment, behind the first one: a power cut may have left the same (docs/decisions/0021).
 */
function checkSpared(missing: readonly number[], flips: readonly Flip[], { spans, segments }: Archive): void {
  const mayMiss = new Set<number>();
  for (const { path } of segments) {
    const hit: number[] = [];
    for (const flip of flips) {
      if (flip.path !== path) continue;
      const offset = spans.findIndex((span) => {
        return span.path === path && flip.position >= span.start && flip.position < span.end;
      });
      if (offset >= 0) hit.push(offset);
    }
    for (const offset of hit) {
      demand(missing.includes(offset), "I3", () => `offset ${offset} was hit and comes back: ${JSON.stringify(flips)}`);
    }
    const isLast = path === segments[segments.length - 1].path;
    const upTo = isLast ? spans.length - 1 : Math.max(...hit);
    for (let offset = Math.min(...hit); offset <= upTo; offset++) mayMiss.add(offset);
  }
  const tooMany = missing.filter((offset) => !mayMiss.has(offset));
  demand(tooMany.length === 0, "I3", () => {
    const where = flips.map((flip) => {
      const offset = spans.findIndex((s) => s.path === flip.path && flip.position >= s.start && flip.position < s.end);
      return `${flip.path.slice(-8)}@${flip.position}.${flip.bit}(${offset}+${flip.position - (spans[offset]?.start ?? 0)})`;
    });
    return `offsets ${tooMany} are missing and were not hit by ${where}`;
  });
}

/** Recovery keeps its hands off: it may cut the end of the last segment and add files. */
function checkFiles(
  before: ReadonlyMap<string, Uint8Array | undefined>,
  after: ReadonlyMap<string, Uint8Array | undefined>,
  readOnly: boolean,
  { segments }: Archive,
): void {
  const last = segments[segments.length - 1].path;
  for (const [path, bytes] of before) {
    if (bytes === undefined) continue;
    const now = after.get(path);
    demand(now !== undefined, "I3", () => `${path} is gone`);
    if (path === last && !readOnly) continue;
    demand(Buffer.compare(bytes, now) === 0, "I3", () => `${path} was changed`);
  }
  for (const path of after.keys()) {
    if (before.has(path)) continue;
    const added = /\/(quarantine(\/.*)?|recovery-report\.json|layout\.meta|seg-[0-9a-f]{16}\.log)$/.test(path);
    demand(added && !readOnly, "I3", () => `${path} was added${readOnly ? " to a read-only log" : ""}`);
  }
}
