import type { DirectoryNode, EntryChange, MemoryNode } from "./memory-nodes.ts";
import type { SeededRandom } from "./random-seeded.ts";
import type { CutStyle } from "./simulated-journal.ts";

type Step = readonly EntryChange[];

/** One directory's entries as the disk has them, and the changes that become durable with its next barrier. */
export class DirectoryJournal {
  #durable = new Map<string, MemoryNode>();
  #steps: Step[] = [];

  /** Makes these the durable entries, with nothing pending. */
  settle(entries: ReadonlyMap<string, MemoryNode>): void {
    this.#durable = new Map(entries);
    this.#steps = [];
  }

  /** Number of changes so far; a barrier covers those made before it began. */
  get mark(): number {
    return this.#steps.length;
  }

  changed(step: Step): void {
    this.#steps.push(step);
  }

  /**
   * A barrier on `directory` over its first `mark` changes succeeded. Where one of them also changed another directory
   * (a rename across), everything so far becomes durable there too, so that the change is never half done.
   */
  persist(directory: DirectoryNode, mark: number): void {
    const steps = this.#steps.splice(0, mark);
    for (const change of steps.flat()) {
      if (change.directory === directory) set(this.#durable, change);
      else change.directory.journal?.persist(change.directory, change.directory.journal.mark);
    }
  }

  /** The entries as a power cut now may leave them. `decided` keeps one fate for a step that touches two directories. */
  afterPowerCut(
    directory: DirectoryNode,
    style: CutStyle,
    random: SeededRandom,
    decided: Map<Step, boolean>,
  ): Map<string, MemoryNode> {
    const entries = new Map(this.#durable);
    const survivors = random.below(this.#steps.length + 1);
    for (const [index, step] of this.#steps.entries()) {
      let survives = decided.get(step);
      if (survives === undefined) {
        survives = style === "kept" || (style === "prefix" && index < survivors);
        if (style === "scattered" || style === "writes") survives = random.chance(0.5);
        decided.set(step, survives);
      }
      if (!survives) continue;
      for (const change of step) if (change.directory === directory) set(entries, change);
    }
    return entries;
  }
}

function set(entries: Map<string, MemoryNode>, { name, node }: EntryChange): void {
  if (node === undefined) entries.delete(name);
  else entries.set(name, node);
}
