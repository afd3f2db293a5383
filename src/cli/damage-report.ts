import { LOSS_REASONS, skippedBytes } from "../log/loss-report.ts";
import type { Damage, Span } from "../offline/scrub.ts";
import type { CheckedCursor } from "../offline/verify.ts";
import { jsonString } from "./envelope.ts";

/** How `scrub`, `verify` and `repair` show damage (cli.md 5.3). What lies outside of the default stream's log is marked so. */

function place(root: string): string {
  return root === "" ? "" : `${root}/ `;
}

function spanLine({ root, event }: Span): string {
  const { label, dataLoss } = LOSS_REASONS[event.reason];
  const end = event.start + skippedBytes(event);
  const meaning = dataLoss ? "data-loss" : "torn-tail (no data loss)";
  return `  ${place(root)}segment ${event.segmentId} bytes [${event.start}, ${end}) reason=${label} ${meaning}`;
}

/** A line for each span, then one for each range of offsets that holds no record any more. */
export function damageLines(damage: Damage): string[] {
  return [
    ...damage.spans.map(spanLine),
    ...damage.gaps.map(({ root, gap }) => `  ${place(root)}offsets [${gap.start}, ${gap.end}) are lost`),
  ];
}

/** One line per cursor outside of its log. */
export function cursorLines(cursors: readonly CheckedCursor[]): string[] {
  return cursors
    .filter(({ inRange }) => !inRange)
    .map(
      ({ root, group, committed }) =>
        `  ${place(root)}cursor group=${group === "" ? "(default)" : group} committed=${committed} out-of-range (cursor-vs-log mismatch)`,
    );
}

/** The damage's part of a result object, from `data_dir` to `torn_tail_bytes`, without braces. */
export function damageJson(directory: string, damage: Damage): string {
  return (
    `"data_dir":${jsonString(directory)},"segments":${damage.segments},"skipped_spans":${damage.spans.length},` +
    `"data_loss_spans":${damage.dataLossSpans},"data_loss_bytes":${damage.dataLossBytes},` +
    `"torn_tail_bytes":${damage.tornTailBytes}`
  );
}

/** `"events":[...]`; an event outside of the default stream's log names its directory. */
export function eventsJson(damage: Damage): string {
  const events = damage.spans.map(({ root, event }) => {
    const { label, dataLoss } = LOSS_REASONS[event.reason];
    return (
      `{"segment":${event.segmentId},"start":${event.start},"end":${event.end},"reason":"${label}",` +
      `"data_loss":${dataLoss}${logJson(root)}}`
    );
  });
  return `"events":[${events.join(",")}]`;
}

/** `"cursors":[...]` */
export function cursorsJson(cursors: readonly CheckedCursor[]): string {
  const items = cursors.map(
    ({ root, group, committed, inRange }) =>
      `{"group":${jsonString(group)},"committed":${committed},"in_range":${inRange}${logJson(root)}}`,
  );
  return `"cursors":[${items.join(",")}]`;
}

/** The end of a result object; `lost_offsets` is there only when there are some. */
export function outcomeJson(exitCode: number, damage: Damage): string {
  const gaps = damage.gaps.map(({ root, gap }) => `{"start":${gap.start},"end":${gap.end}${logJson(root)}}`);
  const lost = gaps.length === 0 ? "" : `,"lost_offsets":[${gaps.join(",")}]`;
  return `"ok":${exitCode === 0},"exit_code":${exitCode}${lost}`;
}

function logJson(root: string): string {
  return root === "" ? "" : `,"log":${jsonString(root)}`;
}
