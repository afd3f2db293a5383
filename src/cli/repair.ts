import { type Repair, repair } from "../offline/repair.ts";
import { type Damage, damageOf, type ScrubbedLog, type ScrubOptions, scrub } from "../offline/scrub.ts";
import { createRuntime } from "../runtime/runtime.ts";
import { OwnerAdoption } from "./adopt-owner.ts";
import { damageJson, eventsJson, outcomeJson } from "./damage-report.ts";
import { exitCodeOf, type InspectOptions, lossFailure, summaryLines } from "./inspect.ts";
import { withProgress } from "./progress.ts";
import { storageFailure } from "./storage-failure.ts";
import type { Context } from "./verb.ts";

/** Roll size that a plan assumes when it says what a start would think of the loss. */
const DEFAULT_SEGMENT_BYTES = 64 * 1024 * 1024;

/**
 * `repair` (cli.md 5.3), a plan only unless `apply` is set. Returns 0; throws CliError handled_corruption when data was
 * lost, all output written.
 */
export async function runRepair(
  { directory, recovery, json }: InspectOptions,
  apply: boolean,
  { output }: Context,
): Promise<number> {
  const { runtime } = createRuntime();
  const { files, codec } = runtime;
  const adoption = apply ? new OwnerAdoption(directory) : undefined;
  let found: Repair;
  try {
    found = withProgress("repair", !json && !output.captures, (progress) => {
      const options: ScrubOptions = { dataDirectory: directory, recovery, progress };
      return apply ? repair(files, codec, options) : { logs: scrub(files, codec, options), problems: [] };
    });
  } catch (error) {
    throw storageFailure(error, apply ? "repairing" : "reading", directory);
  } finally {
    adoption?.finish();
  }
  const damage = damageOf(found.logs);
  if (json) {
    output.line(
      `{"schema":"ironbus.cli.repair.v1",${damageJson(directory, damage)},"applied":${apply},` +
        `${eventsJson(damage)},${outcomeJson(exitCodeOf(damage.lost), damage)}}`,
    );
  } else {
    const lines = [...summaryLines("repair", directory, damage), ...(apply ? done(damage) : plan(damage, found.logs))];
    for (const line of lines) output.line(line);
  }
  await output.flush();
  for (const problem of found.problems) output.note(`note: a lesser step failed: ${problem.message}`);
  if (damage.lost) throw lossFailure("repair", apply ? "quarantined" : "would quarantine", damage);
  return 0;
}

function done(damage: Damage): string[] {
  return damage.spans.length === 0
    ? []
    : ["  applied: quarantined the corrupt span(s) to quarantine/ and truncated to the longest valid prefix"];
}

function plan(damage: Damage, logs: readonly ScrubbedLog[]): string[] {
  if (damage.spans.length === 0) return ["  nothing to repair (read-only plan; pass --apply to act)"];
  const refused = logs.some(({ inspection }) => inspection.overCap(DEFAULT_SEGMENT_BYTES) !== undefined);
  return [
    ...(refused
      ? ["  the loss is over the caps of a start: a broker opens the log read-only until it is repaired"]
      : []),
    "  read-only plan: --apply would quarantine the corrupt span(s), truncate to the longest valid prefix and accept what " +
      "is lost before it (nothing changed)",
  ];
}
