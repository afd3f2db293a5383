import { load, pinnedLoad, Server } from "./processes.ts";

/** One row: a durability level in an I/O mode. */
export interface LevelRow {
  readonly level: "sync" | "interval" | "async" | "none";
  readonly mode: "buffered" | "direct";
}

export const LEVEL_ROWS: readonly LevelRow[] = (["sync", "interval", "async", "none"] as const).flatMap((level) =>
  (["buffered", "direct"] as const).map((mode) => ({ level, mode })),
);

/** Payload bytes of these rows: one size, so that eight pairs of rows stay below a minute a round. */
export const LEVEL_SIZE = 1024;

export const pipelinedName = ({ level, mode }: LevelRow) => `P2 ${LEVEL_SIZE} ${level} ${mode}`;
export const singleName = ({ level, mode }: LevelRow) => `P1 ${LEVEL_SIZE} ${level} ${mode}`;

/** P2 and P1 at every level in every mode, each on a fresh data directory and shorter than the rows of their own. */
export async function levelRows(
  dir: string,
  count: (records: number) => number,
  window: number,
  record: (row: string, result: Record<string, number>) => void,
): Promise<void> {
  for (const row of LEVEL_ROWS) {
    const flags = ["--io-mode", row.mode, "--durability-level", row.level];
    // These two want to hear that it is known what they lose.
    if (row.level === "async" || row.level === "none") flags.push("--async-loss-ack");
    const pipelined = await Server.broker(dir, flags);
    try {
      const options = { addr: pipelined.address, size: LEVEL_SIZE, window, connections: 1 };
      record(pipelinedName(row), await load("publish", { ...options, count: count(300_000) }));
    } finally {
      await pipelined.stop();
    }
    const single = await Server.broker(dir, flags, true);
    try {
      const options = { addr: single.address, size: LEVEL_SIZE, window: 1 };
      record(singleName(row), await pinnedLoad("publish", { ...options, count: count(4000) }));
    } finally {
      await single.stop();
    }
  }
}
