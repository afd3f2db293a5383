import type { Opening } from "../log/counters.ts";
import type { Log } from "../log/log.ts";
import { quarantineHeldBytes } from "../log/quarantine.ts";
import type { Clock } from "../runtime/clock.ts";
import { FileSystemError } from "../runtime/file-system.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { BrokerHealth } from "./health.ts";
import type { BrokerOptions } from "./options.ts";
import type { Stream } from "./stream.ts";

/** What those who look on may read of a running broker, at any moment and without waiting. */
export interface ObservedBroker {
  readonly options: BrokerOptions;
  readonly clock: Clock;
  readonly health: BrokerHealth;
  readonly stream: Stream;
  /** What recovery met at this start. */
  readonly opening: Pick<Opening, "losses" | "quarantined">;
  /** Bytes in `quarantine/`, looked up once at the start. */
  readonly quarantineBytes: number;
  /** Wall and monotonic clock at the start, milliseconds. */
  readonly startedWallMs: number;
  readonly startedMs: number;
  /** Free space of the data directory's file system; undefined when it cannot be had, or there is none. */
  freeBytes(): number | undefined;
}

/** To be called at the start. What the file system does not tell counts as unknown. */
export function observe(
  options: BrokerOptions,
  { files, clock }: Pick<Runtime, "files" | "clock">,
  stream: Stream,
  health: BrokerHealth,
): ObservedBroker {
  const { losses, quarantined } = stream.log;
  return {
    options,
    clock,
    health,
    stream,
    opening: { losses, quarantined },
    quarantineBytes: ifTold(() => quarantineHeldBytes(files, options.dataDir)) ?? 0,
    startedWallMs: clock.wallMs(),
    startedMs: clock.monotonicMs(),
    freeBytes: () =>
      options.storage === "memory" ? undefined : ifTold(() => files.freeSpace(options.dataDir)?.freeBytes),
  };
}

/**
 * The offset that the losses of an opening end at. Damage that was left in place is met at every start, and does not move; what
 * was cut off ended at the head.
 */
export function lossEndOf({ gaps, losses, nextOffset }: Pick<Log, "gaps" | "losses" | "nextOffset">): number {
  const last = gaps.at(-1);
  return last === undefined || losses.some(({ reason }) => reason === "TornTail") ? nextOffset : last.end;
}

function ifTold<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch (error) {
    if (error instanceof FileSystemError) return undefined;
    throw error;
  }
}
