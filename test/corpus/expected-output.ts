import type { LossEvent } from "../../src/log/loss-report.ts";
import type { Expected } from "./examine.ts";

// What the contract makes of losses and gaps, written without the code that is tested.

/** `segment [start, end) reason, records`, e.g. `1 [135, 203) CorruptRecordBody 1`. */
export type LossText = string;

export function lossText({ segmentId, start, end, reason, recordsLostEstimate }: LossEvent): LossText {
  return `${segmentId} [${start}, ${end}) ${reason} ${recordsLostEstimate}`;
}

interface LossFields {
  readonly segment: number;
  readonly start: number;
  readonly end: number;
  readonly reason: string;
  readonly records: number;
}

function fieldsOf(loss: LossText): LossFields {
  const [, segment, start, end, reason, records] = /^(\d+) \[(\d+), (\d+)\) (\w+) (\d+)$/.exec(loss) as string[];
  return { segment: Number(segment), start: Number(start), end: Number(end), reason, records: Number(records) };
}

export function isDataLoss(loss: LossText): boolean {
  return fieldsOf(loss).reason !== "TornTail";
}

export function costs(loss: LossText): boolean {
  const { start, end } = fieldsOf(loss);
  return end > start;
}

/** The report as storage.md 19 writes it. */
export function reportOf(losses: readonly LossText[]): Uint8Array {
  const events = losses
    .map(fieldsOf)
    .map(
      ({ segment, start, end, reason, records }) =>
        `{"segment_id":${segment},"byte_offset_start":${start},"byte_offset_end":${end},"bytes_skipped":${end - start},` +
        `"records_lost_estimate":${records},"reason_code":"${reason}"}`,
    );
  return new Uint8Array(Buffer.from(`{"schema_version":1,"events":[${events}]}\n`));
}

/** The common part of cli.md 5.3's objects. */
export function damageJson(directory: string, { losses = [], segments = 4 }: Expected): string {
  const fields = losses.map(fieldsOf);
  const data = fields.filter(({ reason }) => reason !== "TornTail");
  const bytes = (some: readonly LossFields[]) => some.reduce((sum, { start, end }) => sum + end - start, 0);
  const events = fields.map(({ segment, start, end, reason }) => {
    const label = reason.replace(/(?<!^)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
    return `{"segment":${segment},"start":${start},"end":${end},"reason":"${label}","data_loss":${reason !== "TornTail"}}`;
  });
  return (
    `"data_dir":"${directory}","segments":${segments},"skipped_spans":${losses.length},` +
    `"data_loss_spans":${data.length},"data_loss_bytes":${bytes(data)},` +
    `"torn_tail_bytes":${bytes(fields) - bytes(data)},"events":[${events}]`
  );
}

export function outcomeJson(exitCode: number, { gaps = [] }: Expected): string {
  const lost = gaps.map(([start, end]) => `{"start":${start},"end":${end}}`);
  return `"ok":${exitCode === 0},"exit_code":${exitCode}${lost.length > 0 ? `,"lost_offsets":[${lost}]` : ""}`;
}
