import { LEVEL_ROWS, LEVEL_SIZE, pipelinedName, singleName } from "./levels.ts";
import type { Samples } from "./main.ts";

/** Prints the medians of each row and every target's ratio, met or not. */
export function printReport(machine: string, samples: Samples): void {
  const median = (row: string, field: string): number => {
    const sorted = (samples.get(row) ?? []).map((sample) => sample[field] ?? Number.NaN).sort((a, b) => a - b);
    return sorted[sorted.length >> 1] ?? Number.NaN;
  };
  const rate = (row: string) => median(row, "records_per_second");
  const p50 = (row: string) => median(row, "p50_us");
  const peak = (row: string, field: string) =>
    Math.max(...(samples.get(row) ?? []).map((sample) => sample[field] ?? 0));

  const lines = [`machine: ${machine}`, "", "row                                    records/s    p50 us    p99 us"];
  for (const [row, list] of samples) {
    const cell = (field: string, digits: number) => {
      const value = median(row, field);
      return list.some((sample) => field in sample) ? value.toFixed(digits) : "-";
    };
    const cells = [
      cell("records_per_second", 0).padStart(12),
      cell("p50_us", 1).padStart(9),
      cell("p99_us", 1).padStart(9),
    ];
    lines.push(`${row.padEnd(34)} ${cells.join(" ")}`);
  }

  lines.push("", "level     mode       P2 bytes / bare sync 1 MiB   P1 p50 / bare");
  for (const row of LEVEL_ROWS) {
    const suffix = row.mode === "direct" ? " direct" : "";
    const stored = rate(pipelinedName(row)) * (LEVEL_SIZE + 44);
    const bareBytes = (1 << 20) / (p50(`bare sync 1 MiB${suffix}`) / 1e6);
    const sync = row.mode === "direct" ? "bare sync 4 KiB direct" : `bare sync ${LEVEL_SIZE}`;
    // Only level sync has a barrier in the way of each acknowledgement.
    const bare = p50(`bare echo ${LEVEL_SIZE}`) + (row.level === "sync" ? p50(sync) : 0);
    const cells = [(stored / bareBytes).toFixed(2).padStart(26), (p50(singleName(row)) / bare).toFixed(2).padStart(15)];
    lines.push(`${row.level.padEnd(9)} ${row.mode.padEnd(9)} ${cells.join(" ")}`);
  }

  lines.push("", "target                                                        measured     wanted");
  const target = (name: string, value: number, comparison: "<=" | ">=", wanted: number) => {
    const met = comparison === ">=" ? value >= wanted : value <= wanted;
    const shown = value >= 100 ? value.toFixed(0) : value.toFixed(2);
    lines.push(`${met ? "met   " : "MISSED"} ${name.padEnd(52)} ${shown.padStart(9)}  ${comparison} ${wanted}`);
  };
  for (const size of [128, 1024]) {
    const share = size === 128 ? 0.2 : 0.25;
    target(`P2 ${size} / sink`, rate(`P2 ${size}`) / rate(`sink ${size}`), ">=", share);
    target(`P4 ${size} / P2`, rate(`P4 ${size}`) / rate(`P2 ${size}`), ">=", 1.1);
    const bare = p50(`bare sync ${size}`) + p50(`bare echo ${size}`);
    target(`P1 ${size} p50 / (bare sync + bare echo)`, p50(`P1 ${size}`) / bare, "<=", 1.3);
    target(`P2 ${size}, 8 connections / one`, rate(`P2 ${size} x8`) / rate(`P2 ${size}`), ">=", 1);
    target(`L2 ${size} p50 / bare echo`, p50(`L2 ${size}`) / p50(`bare echo ${size}`), "<=", 1.5);
    target(`C1 ${size} / P4`, rate(`C1 ${size}`) / rate(`P4 ${size}`), ">=", 0.2);
    target(`P2 ${size} through the SDK / lean client`, rate(`P2 ${size} sdk`) / rate(`P2 ${size}`), ">=", 0.4);
    target(`P4 ${size} through the SDK / lean client`, rate(`P4 ${size} sdk`) / rate(`P4 ${size}`), ">=", 0.4);
    target(`C1 ${size} through the SDK / lean client`, rate(`C1 ${size} sdk`) / rate(`C1 ${size}`), ">=", 0.4);
    target(`RssAnon under P2 ${size}, MB`, peak(`P2 ${size}`, "peak_mb"), "<=", 64);
  }
  target("RssAnon idle, MB", peak("start 128", "idle_mb"), "<=", 10);
  target("start to ready, ms", median("start 128", "ready_ms"), "<=", 80);
  process.stdout.write(`${lines.join("\n")}\n`);
}
