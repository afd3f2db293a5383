import { CountersFile } from "../log/counters-file.ts";
import { openDataDirectory } from "../log/data-directory.ts";
import { Dictionaries } from "../log/dictionaries.ts";
import { type ResolvedIoMode, resolveIoMode } from "../log/io-mode.ts";
import { Log } from "../log/log.ts";
import { describeLoss, LOSS_REASONS } from "../log/loss-report.ts";
import { zstdCodec } from "../log/zstd-codec.ts";
import { detectBlockDevice, UNKNOWN_DEVICE } from "../runtime/block-device.ts";
import type { Timer } from "../runtime/clock.ts";
import { type Codec, Compression } from "../runtime/codec.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { zstd } from "../runtime/zstd.ts";
import { type BrokerContext, PublishTable } from "./context.ts";
import { BrokerHealth } from "./health.ts";
import { type ConnectionLimits, DEFAULT_CONNECTION_LIMITS } from "./limits.ts";
import { Listener } from "./listener.ts";
import { NoticeLimit } from "./notice-limit.ts";
import { lossEndOf, type ObservedBroker, observe } from "./observed.ts";
import type { BrokerOptions } from "./options.ts";
import { Scratch } from "./output.ts";
import { RefusalNotices } from "./refusal-notices.ts";
import { Stream } from "./stream.ts";

const TICK_MS = 250;
/** How long connections may take to receive their last replies, once everything is on disk. */
const GOODBYE_MS = 1_000;
/** The lease cap of semantics.md 5. */
const MIN_HARD_CAP_MS = 300_000;
const MAX_ACKED_AHEAD_RUNS = 1024;

/** What an operator should hear about; each is said once where it happens. */
export interface BrokerEvents {
  /** Something is wrong and was dealt with: the torn end of a log, a damaged checkpoint, a checkpoint that could not be written. */
  warned(message: string): void;
  /** What was chosen on the operator's behalf. */
  noted?(message: string): void;
  /** The writer stopped for good: publishing is refused, reading goes on. */
  froze(error: Error): void;
  /** More is lost than a recovery may lose by itself: reading goes on, and nothing on the disk is changed. */
  openedReadOnly?(error: Error): void;
}

export interface RunningBroker {
  /** The actual address, port 0 resolved. */
  readonly host: string;
  readonly port: number;
  /** Offset of the next record. */
  readonly nextOffset: number;
  readonly connections: number;
  /** What probes may ask at any moment, also while stop() is under way. */
  readonly health: BrokerHealth;
  /** The log was opened read-only; `health.frozen` says why. */
  readonly readOnly: boolean;
  /** What those who look on may read. */
  readonly observed: ObservedBroker;
  /**
   * Stops gracefully: no new connections or requests, appended publishes are synced (at every durability level) and
   * acknowledged, groups are saved, the lock is released. Resolves when all of that is done. Idempotent.
   */
  stop(): Promise<void>;
}

/**
 * Opens the data directory and listens. Throws what the directory or the recovery refuse (`log/storage-error.ts`), or the
 * error of a failed bind, whose `code` is the errno name; in both cases nothing is left open.
 */
export async function startBroker(
  options: BrokerOptions,
  runtime: Runtime,
  events: BrokerEvents,
  limits: ConnectionLimits = DEFAULT_CONNECTION_LIMITS,
): Promise<RunningBroker> {
  const { files, clock, codec } = runtime;
  const health = new BrokerHealth();
  const directory = openDataDirectory(files, codec, options.dataDir);
  let log: Log | undefined;
  let countersFile: CountersFile | undefined;
  const notices = new RefusalNotices(events.warned, (message) => events.noted?.(message));
  const undecodable = new NoticeLimit(
    events.warned,
    (count) => `${count} more record(s) cannot be decompressed either`,
  );
  const checkpointQueue = files.createQueue();
  try {
    const ioMode = ioModeOf(options, runtime);
    if (ioMode.note?.level === "WARN") events.warned(ioMode.note.message);
    else if (ioMode.note !== undefined) events.noted?.(ioMode.note.message);
    let stream: Stream | undefined;
    const dictionaries = new Dictionaries(files, options.dataDir);
    log = Log.open(
      {
        root: options.dataDir,
        maxSegmentBytes: options.maxSegmentBytes,
        maxPendingBytes: options.maxPendingBytes,
        durability: options.durability,
        directWrites: ioMode.mode === "direct",
        maxTotalBytes: options.maxTotalBytes,
        minFreeBytes: options.minFreeBytes,
        dailyWriteBudgetBytes: options.dailyWriteBudgetBytes,
        compression: options.compression === "lz4" ? Compression.Lz4 : Compression.None,
        recovery: options.recovery,
        fullScan: options.fullScan,
      },
      { files, clock, codec: options.compression === "zstd" ? storingZstd(options, codec, dictionaries) : codec },
      {
        advanced: () => stream?.advanced(),
        rejected: (from, refusal) => stream?.rejected(from, refusal),
        froze: (error) => {
          health.freeze(error);
          events.froze(error);
          stream?.froze();
        },
        lost: (gaps, losses) => {
          for (const loss of losses) events.warned(`damage was met while reading: ${describeLoss(loss)}`);
          if (log === undefined) return;
          log.counters.lost(losses, Math.max(...gaps.map(({ end }) => end)));
          log.counters.segmentRepairs += losses.length;
        },
      },
    );
    for (const loss of log.losses) events.warned(`recovery of ${options.dataDir}: ${describeLoss(loss)}`);
    for (const path of log.foreign) events.warned(`${path} is named as a segment and is none; it is left alone`);
    if (directory.diskFull !== undefined) notices.startedFull(directory.diskFull, clock.monotonicMs());
    notices.observe(log.refusal, clock.monotonicMs());
    for (const problem of log.problems) {
      notices.failed(`recovery of ${options.dataDir}`, problem, clock.monotonicMs());
    }
    const { readOnly } = log;
    if (readOnly !== undefined) {
      health.freeze(readOnly);
      (events.openedReadOnly ?? events.froze)(readOnly);
    }
    const { counters } = log;
    countersFile = new CountersFile(
      counters,
      { losses: log.losses, quarantined: log.quarantined, repairs: log.repairs, lossEnd: lossEndOf(log) },
      { files, codec, queue: checkpointQueue, root: options.dataDir, readOnly: readOnly !== undefined },
    );
    const openLog = log;
    stream = new Stream(
      log,
      {
        root: options.dataDir,
        group: {
          maxInFlight: options.maxInFlight,
          visibility: options.visibilityTimeoutMs,
          hardCap: Math.max(MIN_HARD_CAP_MS, options.visibilityTimeoutMs),
          backoff: options.backoffMs,
          maxAckedAheadRuns: MAX_ACKED_AHEAD_RUNS,
          // On the wire a generation is never 0 (wire.md 22.36).
          firstGeneration: 1,
        },
        checkpointInterval: options.checkpointInterval,
        maxGroups: options.maxGroups,
        reaping: {
          retention: options.retention,
          diskFullPolicy: options.diskFullPolicy,
          maxTotalBytes: options.maxTotalBytes,
          onError: (error) => events.warned(`segments not removed: ${error.message}`),
        },
        dictionaries,
        onUndecodable: ({ segmentId, start, end, reason }, offset, error) =>
          undecodable.tell(
            `record ${offset} is intact and cannot be decompressed (${error.message}), so consumers of plain payloads ` +
              `go on without it: segment ${segmentId} bytes [${start}, ${end}), reason=${LOSS_REASONS[reason].label}`,
            clock.monotonicMs(),
          ),
      },
      {
        codec,
        queue: checkpointQueue,
        readOnly: readOnly !== undefined,
        isInPlace: () => openLog.isInPlace(),
        onError: (error) => notices.failed("checkpoint not written", error, clock.monotonicMs()),
        onAhead: (group, until, head) =>
          events.warned(
            `group ${group === "" ? "(default)" : group} had settled records up to offset ${until}, and the log ends at ` +
              `${head}: at least ${until - head} record(s) are lost, and their offsets are given to new records`,
          ),
        onDamaged: (path) => {
          counters.cursorRepairs += 1;
          events.warned(`checkpoint ${path} is damaged: what was settled is delivered again`);
        },
      },
      files,
    );
    const context: BrokerContext = {
      options,
      limits,
      clock,
      codec,
      stream,
      scratch: new Scratch(),
      publishTable: new PublishTable(),
    };
    const sessions = new Listener(context);
    const socket = await runtime.network.listen({ host: options.host, port: options.port }, sessions);
    const openStream = stream;
    const openCounters = countersFile;
    health.watch(() => openLog.batchStartedMs);
    const ticks: Timer = clock.every(TICK_MS, () => {
      openStream.tick(clock.monotonicMs(), clock.wallMs());
      sessions.tick();
      notices.observe(openStream.refusal, clock.monotonicMs());
      undecodable.tick(clock.monotonicMs());
      openCounters.tick(clock.monotonicMs());
    });

    let stopped: Promise<void> | undefined;
    const stop = async (): Promise<void> => {
      health.drain();
      ticks.cancel();
      socket.stop();
      sessions.drainAll();
      await openStream.close();
      undecodable.flush();
      const unsaved = [...openStream.groups].filter(({ positionUnsaved }) => positionUnsaved).length;
      if (unsaved > 0) {
        events.warned(
          `the position of ${unsaved} group(s) could not be written: what they settled since their last checkpoint is ` +
            "delivered again after the next start",
        );
      }
      await openCounters.close();
      health.stop();
      // The last acknowledgements were handed to the sockets; give them a moment to arrive.
      const goodbyeMs = clock.monotonicMs() + GOODBYE_MS;
      while (sessions.connections > 0 && clock.monotonicMs() < goodbyeMs) {
        await new Promise<void>((resolve) => clock.after(10, resolve));
      }
      sessions.closeAll();
      await new Promise<void>((resolve) => checkpointQueue.close(resolve));
      directory.lock.release();
    };
    return {
      host: socket.host,
      port: socket.port,
      get nextOffset() {
        return openLog.nextOffset;
      },
      get connections() {
        return sessions.connections;
      },
      health,
      readOnly: readOnly !== undefined,
      observed: observe(options, runtime, openStream, health),
      stop: () => {
        stopped ??= stop();
        return stopped;
      },
    };
  } catch (error) {
    await log?.close();
    await countersFile?.close();
    await new Promise<void>((resolve) => checkpointQueue.close(resolve));
    directory.lock.release();
    throw error;
  }
}

/** Throws where the runtime has no zstd, and without the dictionary that is asked for. */
function storingZstd(options: BrokerOptions, codec: Codec, dictionaries: Dictionaries): Codec {
  if (zstd === undefined) throw new Error("compression zstd needs a runtime with zstd");
  const { zstdLevel: level, zstdDictionaryId: id = 0 } = options;
  if (id === 0) return zstdCodec(codec, zstd, { level });
  const content = dictionaries.get(id);
  if (content === undefined) throw new Error(`there is no intact dictionary ${id} in ${options.dataDir}`);
  return zstdCodec(codec, zstd, { level, dictionary: { id, content } });
}

/** How segments are written, now that the data directory is there (storage.md 16). */
function ioModeOf({ storage, ioMode, dataDir }: BrokerOptions, { files, sysfs }: Runtime): ResolvedIoMode {
  if (storage === "memory") return { mode: "buffered", note: undefined };
  return resolveIoMode(ioMode, files, dataDir, () => {
    const status = files.stat(dataDir);
    return status === undefined || sysfs === undefined ? UNKNOWN_DEVICE : detectBlockDevice(status.device, sysfs);
  });
}
