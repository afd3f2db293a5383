/** The storage engine broke a promise: which one, and how far the run had come. */
export class Violation extends Error {
  override readonly name = "Violation";
  /** The invariant of storage.md 23, or the numbered check. */
  readonly rule: string;

  constructor(rule: string, detail: string) {
    super(`${rule}: ${detail}`);
    this.rule = rule;
  }
}

/** Throws a Violation unless `holds`. */
export function demand(holds: boolean, rule: string, detail: () => string): asserts holds {
  if (!holds) throw new Violation(rule, detail());
}
