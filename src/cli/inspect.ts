import type { RecoveryMode } from "../log/inspection.ts";
import type { Damage } from "../offline/scrub.ts";
import { damageOf, scrub } from "../offline/scrub.ts";
import { type Verification, verify } from "../offline/verify.ts";
import { createRuntime } from "../runtime/runtime.ts";
import { cursorLines, cursorsJson, damageJson, damageLines, eventsJson, outcomeJson } from "./damage-report.ts";
import { CliError, EXIT_CODES } from "./errors.ts";
import { withProgress } from "./progress.ts";
import { storageFailure } from "./storage-failure.ts";
import type { Context } from "./verb.ts";

export interface InspectOptions {
  readonly directory: string;
  readonly recovery: RecoveryMode;
  readonly json: boolean;
}

/** Whether a finished verb has bad news to report. */
export function exitCodeOf(bad: boolean): 0 | 3 {
  return bad ? EXIT_CODES.handled_corruption : 0;
}

/** `scrub` (cli.md 5.3). Returns 0; throws CliError handled_corruption when data was lost, all output written. */
export async function runScrub({ directory, recovery, json }: InspectOptions, { output }: Context): Promise<number> {
  const { runtime } = createRuntime();
  let damage: Damage;
  try {
    const logs = withProgress("scrub", !json && !output.captures, (progress) =>
      scrub(runtime.files, runtime.codec, { dataDirectory: directory, recovery, progress }),
    );
    damage = damageOf(logs);
  } catch (error) {
    throw storageFailure(error, "reading", directory);
  }
  const exitCode = exitCodeOf(damage.lost);
  if (json) {
    output.line(
      `{"schema":"ironbus.cli.scrub.v1",${damageJson(directory, damage)},${eventsJson(damage)},${outcomeJson(exitCode, damage)}}`,
    );
  } else {
    for (const line of summaryLines("scrub", directory, damage)) output.line(line);
  }
  await output.flush();
  if (damage.lost) throw lossFailure("scrub", "would quarantine", damage);
  return 0;
}

/** What was found, as `scrub` and `repair` begin. */
export function summaryLines(verb: string, directory: string, damage: Damage): string[] {
  if (damage.spans.length === 0) {
    return [
      `${verb}: ${directory} is clean (${damage.segments} segment(s) scanned, no corruption or torn tail)`,
      ...damageLines(damage),
    ];
  }
  return [
    `${verb}: ${damage.segments} segment(s) scanned, ${damage.spans.length} skip span(s): ` +
      `${damage.dataLossBytes} byte(s) of data loss, ${damage.tornTailBytes} torn-tail byte(s) (not data loss)`,
    ...damageLines(damage),
  ];
}

/** The failure of a verb that finished and found data lost. */
export function lossFailure(verb: string, what: "would quarantine" | "quarantined", damage: Damage): CliError {
  return new CliError(
    "handled_corruption",
    `${verb} ${what} ${damage.dataLossSpans} corrupt span(s), ${damage.dataLossBytes} byte(s) of data loss ` +
      `(${damage.tornTailBytes} torn-tail byte(s) excluded)`,
  );
}

/** `verify` (cli.md 5.3). Returns 0; throws CliError handled_corruption for data lost or a cursor outside of its log. */
export async function runVerify({ directory, recovery, json }: InspectOptions, { output }: Context): Promise<number> {
  const { runtime } = createRuntime();
  let found: Verification;
  try {
    found = withProgress("verify", !json && !output.captures, (progress) =>
      verify(runtime.files, runtime.codec, { dataDirectory: directory, recovery, progress }),
    );
  } catch (error) {
    throw storageFailure(error, "reading", directory);
  }
  const damage = damageOf(found.logs);
  const mismatches = found.cursors.filter(({ inRange }) => !inRange).length;
  const bad = damage.lost || mismatches > 0;
  if (json) output.line(verifyJson(directory, damage, found, mismatches));
  else for (const line of verifyLines(directory, damage, found, mismatches)) output.line(line);
  await output.flush();
  if (!bad) return 0;
  throw new CliError(
    "handled_corruption",
    `verify found ${damage.dataLossSpans} data-loss corruption span(s) (${damage.dataLossBytes} byte(s)) ` +
      `and ${mismatches} cursor mismatch(es)`,
  );
}

function verifyJson(directory: string, damage: Damage, found: Verification, mismatches: number): string {
  const exitCode = exitCodeOf(damage.lost || mismatches > 0);
  return (
    `{"schema":"ironbus.cli.verify.v1",${damageJson(directory, damage)},${eventsJson(damage)},` +
    `${cursorsJson(found.cursors)},"cursor_mismatches":${mismatches},"dlq_records":${found.dlqRecords},` +
    `"quarantine_bytes":${found.quarantineBytes},"layout_version":${found.layoutVersion ?? null},` +
    `${outcomeJson(exitCode, damage)}}`
  );
}

function verifyLines(directory: string, damage: Damage, found: Verification, mismatches: number): string[] {
  const lines: string[] = [];
  if (damage.lost || mismatches > 0) {
    lines.push(
      `verify: ${directory} has issues: ${damage.segments} segment(s) scanned, ${damage.dataLossBytes} byte(s) of data ` +
        `loss, ${damage.tornTailBytes} torn-tail byte(s) (not data loss), ${mismatches} cursor mismatch(es)`,
      ...damageLines(damage),
      ...cursorLines(found.cursors),
    );
  } else {
    const layout =
      found.layoutVersion === undefined ? "absent (treated as v1, not written)" : `v${found.layoutVersion}`;
    lines.push(
      `verify: ${directory} is clean (${damage.segments} segment(s) CRC-valid, ${found.cursors.length} cursor(s) in ` +
        `range, ${found.dlqRecords} DLQ record(s), layout ${layout})`,
    );
    if (damage.tornTailBytes > 0) {
      lines.push(`  note: ${damage.tornTailBytes} torn-tail byte(s) present, which the next start cuts off`);
    }
  }
  if (found.quarantineBytes > 0) {
    lines.push(`  note: ${found.quarantineBytes} quarantined byte(s) present in quarantine/, kept from earlier damage`);
  }
  return lines;
}
