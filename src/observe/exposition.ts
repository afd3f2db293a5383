export type FamilyType = "counter" | "gauge" | "histogram";

/** Text in the Prometheus exposition format (observability.md 2.1): families one after the other, each sample below its family. */
export class Exposition {
  readonly #lines: string[] = [];
  #name = "";

  /** Begins the next family. */
  family(name: string, type: FamilyType, help: string): this {
    this.#name = name;
    this.#lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    return this;
  }

  /** A family with one sample and no label. */
  value(name: string, type: FamilyType, help: string, value: number | string): void {
    this.family(name, type, help).sample(value);
  }

  /** `value` is a whole number, or text that is already in its form. `suffix` is that of a histogram's series. */
  sample(value: number | string, label?: string, labelValue = "", suffix = ""): this {
    const labels = label === undefined ? "" : `{${label}="${escaped(labelValue)}"}`;
    this.#lines.push(`${this.#name}${suffix}${labels} ${value}`);
    return this;
  }

  text(): string {
    return `${this.#lines.join("\n")}\n`;
  }
}

function escaped(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

/** A ratio of whole numbers in thousandths, rounded to the nearest: `1.234` (no floating point on the way). */
export function ratio(numerator: number, denominator: number): string {
  if (denominator <= 0) return "0.000";
  const thousandths = (BigInt(numerator) * 2000n + BigInt(denominator)) / (BigInt(denominator) * 2n);
  return `${thousandths / 1000n}.${String(thousandths % 1000n).padStart(3, "0")}`;
}
