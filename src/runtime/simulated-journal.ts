import type { Barrier } from "./file-system.ts";
import type { FileBytes } from "./memory-nodes.ts";
import { Pages } from "./memory-pages.ts";
import type { SeededRandom } from "./random-seeded.ts";

/** The unit that a disk writes whole or not at all. */
export const SECTOR_BYTES = 512;

/**
 * What a power cut does to changes that no barrier covers:
 * - `lost`: none survives, `kept`: all survive;
 * - `prefix`: they survive up to a point, the change there possibly torn;
 * - `writes`: each change is kept, lost or torn by itself, whatever became of the others;
 * - `scattered`: each sector holds what the cache had at some moment, whatever became of the others.
 */
export type CutStyle = "lost" | "kept" | "prefix" | "writes" | "scattered";

interface Write {
  readonly kind: "write";
  readonly position: number;
  readonly bytes: Uint8Array;
}

type Change = Write | { readonly kind: "resize"; readonly from: number; readonly to: number };

/**
 * One file's changes that a power cut may undo (storage.md 22). fdatasync makes written bytes and growth durable but
 * not a shrink; fsync makes all of it durable.
 */
export class FileJournal {
  /** What surely survives, a shrink that only fdatasync covered not done. */
  #durable = new Pages();
  /** The same with such a shrink done; which of the two survives is open until fsync. */
  #shrunk: Pages | undefined;
  #changes: Change[] = [];
  /** By sector, what a failed barrier kept from the disk: the cache has it still, and counts it as clean. */
  readonly #clean = new Map<number, Write[]>();

  static of(durable: Pages): FileJournal {
    const journal = new FileJournal();
    journal.#durable = durable.clone();
    return journal;
  }

  /** Number of changes so far; a barrier covers those made before it began. */
  get mark(): number {
    return this.#changes.length;
  }

  wrote(bytes: Uint8Array, offset: number, length: number, position: number): void {
    if (length === 0) return;
    const write: Write = { kind: "write", position, bytes: new Uint8Array(bytes.subarray(offset, offset + length)) };
    for (const { sector } of sectorsOf(write)) {
      // The sector is written as the cache has it.
      this.#changes.push(...(this.#clean.get(sector) ?? []));
      this.#clean.delete(sector);
    }
    this.#changes.push(write);
  }

  resized(from: number, to: number): void {
    for (const [sector, writes] of this.#clean) {
      if ((sector + 1) * SECTOR_BYTES <= to) continue;
      const kept = writes.filter(({ position }) => position < to);
      this.#clean.set(
        sector,
        kept.map((write) => ({ ...write, bytes: write.bytes.subarray(0, to - write.position) })),
      );
    }
    if (from !== to) this.#changes.push({ kind: "resize", from, to });
  }

  /** A barrier over the first `mark` changes succeeded. */
  persist(mark: number, barrier: Barrier): void {
    if (barrier === "none") return;
    const changes = this.#changes.splice(0, mark);
    const shrinks = changes.some((change) => change.kind === "resize" && change.to < change.from);
    if (this.#shrunk === undefined && shrinks) this.#shrunk = this.#durable.clone();
    for (const change of changes) {
      apply(this.#durable, change, true);
      if (this.#shrunk !== undefined) apply(this.#shrunk, change, false);
    }
    if (barrier === "full" && this.#shrunk !== undefined) {
      this.#durable = this.#shrunk;
      this.#shrunk = undefined;
    }
  }

  /**
   * A barrier over the first `mark` changes failed. As on Linux the pages count as clean afterwards: each sector either
   * reached the disk or never will, unless it is written to again. The length is not of the pages: growth is there, and a
   * shrink is still to come, as after fdatasync.
   */
  fail(mark: number, random: SeededRandom): void {
    const covered = this.#changes.splice(0, mark);
    const later = this.#changes;
    const writtenLater = new Set<number>();
    for (const change of later) {
      if (change.kind === "write") for (const { sector } of sectorsOf(change)) writtenLater.add(sector);
    }
    const stillDirty: Write[] = [];
    const fates = new Map<number, boolean>();
    this.#changes = [];
    for (const change of covered) {
      if (change.kind === "resize") {
        this.#changes.push(change);
        continue;
      }
      for (const { sector, part } of sectorsOf(change)) {
        const reached = fates.get(sector) ?? random.chance(0.5);
        fates.set(sector, reached);
        if (reached) this.#changes.push(part);
        else if (writtenLater.has(sector)) stillDirty.push(part);
        else this.#clean.set(sector, [...(this.#clean.get(sector) ?? []), part]);
      }
    }
    this.persist(this.#changes.length, "data");
    this.#changes = [...stillDirty, ...later];
  }

  /** The bytes as a power cut now may leave them. */
  afterPowerCut(style: CutStyle, random: SeededRandom): Pages {
    const shrunk = this.#shrunk !== undefined && (style === "kept" || (style !== "lost" && random.chance(0.5)));
    const result = (shrunk ? this.#shrunk! : this.#durable).clone();
    if (style === "lost") return result;
    const whole = style === "prefix" ? random.below(this.#changes.length + 1) : this.#changes.length;
    const sectors = style === "writes" ? new WriteFates(this.#changes, random) : new SectorFates(this.#changes, random);
    for (const [index, change] of this.#changes.entries()) {
      if (style === "kept" || (style === "prefix" && index < whole)) apply(result, change, false);
      else if (style === "prefix" && index === whole) applyPart(result, change, random);
      else if (style === "scattered" || style === "writes") scatter(result, index, change, sectors, random);
    }
    return result;
  }

  /** Damages the medium itself: neither a barrier nor a power cut undoes it. */
  flipBit(position: number, bit: number): void {
    for (const pages of [this.#durable, this.#shrunk]) {
      if (pages !== undefined) flip(pages, position, bit);
    }
  }
}

/** Flips one bit of one byte; beyond the end nothing happens. */
export function flip(pages: FileBytes, position: number, bit: number): void {
  const byte = new Uint8Array(1);
  if (pages.read(byte, 0, 1, position) === 0) return;
  byte[0] ^= 1 << bit;
  pages.write(byte, 0, 1, position);
}

/** The sectors that a write touches, and its part of each. */
function* sectorsOf({ position, bytes }: Write): Generator<{ sector: number; part: Write }> {
  const end = position + bytes.length;
  for (let at = position; at < end; ) {
    const sector = Math.floor(at / SECTOR_BYTES);
    const sectorEnd = Math.min(end, (sector + 1) * SECTOR_BYTES);
    yield { sector, part: { kind: "write", position: at, bytes: bytes.subarray(at - position, sectorEnd - position) } };
    at = sectorEnd;
  }
}

function apply(pages: Pages, change: Change, growOnly: boolean): void {
  if (change.kind === "write") pages.write(change.bytes, 0, change.bytes.length, change.position);
  else if (!growOnly || change.to > pages.length) pages.resize(change.to);
}

function applyPart(pages: Pages, change: Change, random: SeededRandom): void {
  if (change.kind === "resize") return;
  const end = change.position + change.bytes.length;
  const firstSector = Math.floor(change.position / SECTOR_BYTES);
  const sectors = Math.ceil(end / SECTOR_BYTES) - firstSector;
  const tearAt = (firstSector + random.below(sectors + 1)) * SECTOR_BYTES;
  const length = Math.max(0, Math.min(change.bytes.length, tearAt - change.position));
  pages.write(change.bytes, 0, length, change.position);
}

function scatter(pages: Pages, index: number, change: Change, sectors: Fates, random: SeededRandom): void {
  if (change.kind === "resize") {
    if (random.chance(0.5)) apply(pages, change, false);
    return;
  }
  const end = change.position + change.bytes.length;
  // The new length can reach the disk without the bytes: they read as zeros then.
  if (end > pages.length && random.chance(0.5)) pages.resize(end);
  for (let at = change.position; at < end; ) {
    const sector = Math.floor(at / SECTOR_BYTES);
    const sectorEnd = Math.min(end, (sector + 1) * SECTOR_BYTES);
    if (sectors.has(sector, index)) pages.write(change.bytes, at - change.position, sectorEnd - at, at);
    at = sectorEnd;
  }
}

/** Whether a sector on the disk has a change of the cache. It is the cached sector of some moment: a prefix of its changes. */
interface Fates {
  has(sector: number, change: number): boolean;
}

/** Every sector got as far as it happened to, by itself. */
class SectorFates implements Fates {
  readonly #changes: number;
  readonly #random: SeededRandom;
  readonly #survival: number;
  readonly #reached = new Map<number, number>();

  constructor(changes: readonly Change[], random: SeededRandom) {
    this.#changes = changes.length;
    this.#random = random;
    this.#survival = random.next();
  }

  has(sector: number, change: number): boolean {
    let reached = this.#reached.get(sector);
    if (reached === undefined) {
      reached = this.#random.chance(this.#survival) ? this.#changes : this.#random.below(this.#changes + 1);
      this.#reached.set(sector, reached);
    }
    return change < reached;
  }
}

/** Every write is kept, lost, or torn into two of which one is kept; a kept one brings along what its sectors had before. */
class WriteFates implements Fates {
  /** The last change that each sector has; none for a sector that got nothing. */
  readonly #last = new Map<number, number>();

  constructor(changes: readonly Change[], random: SeededRandom) {
    for (const [index, change] of changes.entries()) {
      if (change.kind === "resize") continue;
      const first = Math.floor(change.position / SECTOR_BYTES);
      const end = Math.ceil((change.position + change.bytes.length) / SECTOR_BYTES);
      const fate = random.below(4);
      if (fate === 0) continue;
      const tear = fate === 1 ? end : first + random.below(end - first + 1);
      const [from, to] = fate === 3 ? [tear, end] : [first, tear];
      for (let sector = from; sector < to; sector++) this.#last.set(sector, index);
    }
  }

  has(sector: number, change: number): boolean {
    return change <= (this.#last.get(sector) ?? -1);
  }
}
