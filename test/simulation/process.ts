import type { ConsumerGroup } from "../../src/broker/consumer-group.ts";
import { Stream } from "../../src/broker/stream.ts";
import { DataDirectoryError, openDataDirectory } from "../../src/log/data-directory.ts";
import { Log } from "../../src/log/log.ts";
import { StorageError } from "../../src/log/storage-error.ts";
import type { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { type Codec, Compression } from "../../src/runtime/codec.ts";
import type { FileSystem, IoQueue } from "../../src/runtime/file-system.ts";
import type { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import type { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { AwaitingPublisher } from "./awaiting-publisher.ts";
import { Consumer } from "./consumer.ts";
import { type ContentMaker, contentOfRow, publishes } from "./contents.ts";
import { inject, isOfTheDisk } from "./faults.ts";
import type { Model } from "./model.ts";
import { type Fate, type Fault, ROOT, type Setup } from "./setup.ts";
import { demand } from "./violation.ts";

export const GROUPS = ["", "workers"];

/** How a process ended, with the disk that the next one finds. */
export interface End {
  readonly kind: "cut" | "kill" | "stop";
  readonly files: SimulatedFileSystem;
  /** Whether the process got as far as having the log open; if not, what it was to cut off may still be there. */
  readonly started: boolean;
  /** Whether a write or barrier failed: then more than what all readers saw last may be on the disk. */
  readonly disturbed: boolean;
  /** The disk as all readers saw it last. */
  readonly cached: SimulatedFileSystem;
  /** The disk with nothing but what a barrier covered. */
  readonly durableOnly: SimulatedFileSystem;
}

export interface ProcessWorld {
  readonly files: SimulatedFileSystem;
  /** The same as the broker sees them. */
  readonly seen: FileSystem;
  readonly codec: Codec;
  readonly clock: SimulatedClock;
  readonly random: SeededRandom;
  readonly record: (line: string) => void;
}

/** One process of a broker: the real log, stream and groups, driven at random until its fate catches up with it. */
export class BrokerProcess {
  readonly #world: ProcessWorld;
  readonly #setup: Setup;
  readonly #fate: Fate;
  readonly #model: Model;
  readonly #contents: ContentMaker;
  #log: Log | undefined;
  #stream: Stream | undefined;
  #queue: IoQueue | undefined;
  #release: (() => void) | undefined;
  #end: End | undefined;
  #operationsLeft: number;
  #consumers: Consumer[] = [];
  readonly #synced = new Set<string>();
  /** A fault may have hit: errors and a frozen log are to be expected. */
  #faulty = false;
  /** The log gave up something that it had begun to write. */
  #disturbed = false;

  constructor(world: ProcessWorld, setup: Setup, fate: Fate, model: Model, contents: ContentMaker) {
    this.#world = world;
    this.#setup = setup;
    this.#fate = fate;
    this.#model = model;
    this.#contents = contents;
    this.#operationsLeft = fate.endAfter;
  }

  /** Lives through its fate. Throws Violation. */
  async live(): Promise<End> {
    const { files, record, random } = this.#world;
    files.onOperation = (operation, path) => {
      record(`${operation} ${path}`);
      if (operation === "sync" && path.endsWith(".ckpt")) this.#synced.add(path);
      this.#operationsLeft -= 1;
      if (this.#operationsLeft === 0 && this.#fate.end !== "stop") this.#die(this.#fate.end);
    };
    const { fault } = this.#fate;
    // A start that cannot read gives up more than what is lost; `examine` looks at that by itself.
    const early = random.chance(0.3) && !(fault?.kind === "fail" && fault.operation === "read");
    if (early) this.#inject(fault);
    this.#guarded(() => this.#start());
    if (this.#end !== undefined) return this.#end;
    if (this.#log === undefined || this.#stream === undefined) return this.#die("kill");
    if (!early) this.#inject(fault);
    const healAt = random.below(this.#fate.steps);
    for (let step = 0; step < this.#fate.steps && this.#end === undefined; step++) {
      if (step === healAt) {
        files.clearFaults();
        files.limitSpace(Number.POSITIVE_INFINITY);
      }
      this.#guarded(() => this.#step());
      this.#observe();
    }
    files.clearFaults();
    files.limitSpace(Number.POSITIVE_INFINITY);
    if (this.#end !== undefined) return this.#end;
    return this.#fate.end === "stop" ? await this.#stop() : this.#die(this.#fate.end);
  }

  /** Everything that is left comes to a consumer of the group now. Throws Violation. */
  drain(name: string): void {
    this.#world.files.onOperation = undefined;
    if (this.#log === undefined) this.#start();
    const log = this.#log as Log;
    const group = this.#stream?.group(name);
    if (group === undefined) return;
    const { committed } = group.group;
    const delivered = new Set<number>();
    const consumer = this.#consumerOf(group, log);
    while (consumer.poll(64, (offset) => delivered.add(offset)) > 0) consumer.settle(64);
    for (let offset = Math.max(log.earliestOffset, 0); offset < log.visibleHead; offset++) {
      demand(
        delivered.has(offset) || this.#model.group(name).settled.has(offset),
        "I5b",
        () => `group ${JSON.stringify(name)}, committed ${committed}, never got offset ${offset}`,
      );
    }
  }

  #die(kind: "cut" | "kill"): End {
    if (this.#end !== undefined) return this.#end;
    const { files, random, record } = this.#world;
    record(kind);
    const cached = files.copyAsSeen({ seed: 1, turns: "manual" });
    const durableOnly = files.imageAfterPowerCut({ style: "lost", seed: 1, turns: "manual" });
    files.onOperation = undefined;
    for (const path of this.#synced) this.#model.syncedCheckpoints.add(path);
    const seed = random.word();
    const left = kind === "cut" ? files.cutPower({ seed, turns: "manual" }) : files.kill({ seed, turns: "manual" });
    this.#end = {
      kind,
      files: left,
      started: this.#log !== undefined,
      disturbed: this.#disturbed,
      cached,
      durableOnly,
    };
    return this.#end;
  }

  #inject(fault: Fault | undefined): void {
    if (fault === undefined) return;
    this.#faulty = true;
    inject(fault, this.#world.files, this.#world.random);
  }

  #start(): void {
    const { seen, codec, clock, record } = this.#world;
    const { durability, maxPendingBytes, maxSegmentBytes, checkpointInterval } = this.#setup;
    const { compressed, directWrites, maxTotalBytes } = this.#setup;
    const compression = compressed ? Compression.Lz4 : Compression.None;
    const directory = openDataDirectory(seen, codec, ROOT);
    this.#release = () => directory.lock.release();
    const options = {
      root: ROOT,
      maxSegmentBytes,
      maxPendingBytes,
      durability,
      compression,
      directWrites,
      maxTotalBytes,
      recovery: "salvage" as const,
    };
    const log = Log.open(
      options,
      { files: seen, codec, clock },
      {
        advanced: () => {
          this.#observe();
          if (this.#end === undefined) this.#stream?.advanced();
        },
        rejected: (from, refusal) => {
          if (this.#end !== undefined) return;
          record(`rejected ${from}`);
          this.#disturbed = true;
          this.#model.rejected(from);
          this.#observe();
          this.#stream?.rejected(from, refusal);
        },
        froze: (error) => {
          if (this.#end !== undefined) return;
          record(`froze ${error.message}`);
          this.#disturbed = true;
          demand(this.#faulty, "17", () => `froze on a healthy disk: ${error.message}`);
          // A batch may have become visible right before the one that failed. What is taken and not written is forgotten.
          if (this.#log !== undefined) {
            this.#model.heads(this.#log.visibleHead, this.#log.durableHead, this.#model.next);
          }
          this.#stream?.froze();
        },
        lost: (gaps) => {
          if (this.#end === undefined) record(`lost ${gaps.map(({ start, end }) => `${start}-${end}`).join(" ")}`);
          demand(this.#mayLose, "I3", () => `gaps on a healthy medium: ${JSON.stringify(gaps)}`);
        },
      },
    );
    if (this.#end !== undefined) return;
    demand(this.#mayLose || log.readOnly === undefined, "I3", () => `read-only: ${log.readOnly?.message}`);
    demand(log.visibleHead >= this.#model.durable && log.visibleHead <= this.#model.next, "I5", () => {
      return `opened at ${log.visibleHead}, [${this.#model.durable}, ${this.#model.next}] was left`;
    });
    this.#queue = seen.createQueue();
    const stream = new Stream(
      log,
      {
        root: ROOT,
        group: {
          maxInFlight: 256,
          visibility: 2000,
          hardCap: 10_000,
          backoff: [100],
          maxAckedAheadRuns: 64,
          firstGeneration: 1,
        },
        checkpointInterval,
        maxGroups: 8,
      },
      {
        codec,
        queue: this.#queue,
        readOnly: false,
        onError: (error) => {
          if (this.#end === undefined) demand(this.#faulty, "17", () => `checkpoint not written: ${error.message}`);
        },
        onDamaged: (path) => {
          if (this.#end !== undefined) return;
          demand(!this.#model.syncedCheckpoints.has(path), "I4", () => `checkpoint ${path} is damaged`);
        },
      },
      seen,
    );
    if (this.#end !== undefined) return;
    this.#model.recovered(log.earliestOffset, log.visibleHead, true);
    this.#log = log;
    this.#stream = stream;
    for (const name of GROUPS) {
      const group = stream.group(name);
      if (group !== undefined) this.#consumers.push(this.#consumerOf(group, log));
    }
    record(`opened ${log.earliestOffset} ${log.visibleHead}`);
  }

  #step(): void {
    const { files, random, clock } = this.#world;
    const log = this.#log as Log;
    const action = random.below(22);
    if (action < 8) this.#publish(1 + random.below(random.chance(0.2) ? 30 : 5));
    else if (action < 12) this.#anyConsumer().poll(1 + random.below(20));
    else if (action < 15) this.#anyConsumer().settle(1 + random.below(20));
    else if (action === 15) this.#anyConsumer().return(1 + random.below(4));
    else if (action === 16) {
      clock.advance(random.below(1200));
      this.#stream?.tick(clock.monotonicMs(), clock.wallMs());
    } else if (action === 17) this.#leave();
    else if (action === 18) this.#tryLock();
    else if (action === 19) this.#reap(log);
    else if (action === 20) this.#letTheWindowPass(log);
    else this.#readAnywhere(log);
    for (let turns = random.below(14); turns > 0 && this.#end === undefined; turns--) if (!files.step()) break;
  }

  #publish(count: number): void {
    const log = this.#log as Log;
    const contents = Array.from({ length: count }, () => this.#contents.next());
    const { chunk, table } = publishes(contents);
    const first = log.nextOffset;
    const taken = log.append(chunk, table, 0, count);
    for (let index = 0; index < taken; index++) this.#model.appended(first + index, contents[index]);
    if (taken > 0)
      this.#stream?.await(new AwaitingPublisher(first + taken, this.#model, () => this.#end !== undefined));
    log.pump();
    if (this.#world.random.chance(0.1)) this.#stream?.advanced();
  }

  #consumerOf(group: ConsumerGroup, log: Log): Consumer {
    return new Consumer(group, log, this.#world, this.#model, () => this.#mayLose);
  }

  #anyConsumer(): Consumer {
    return this.#consumers[this.#world.random.below(this.#consumers.length)];
  }

  /** A consumer goes away and another one comes; what it settled is on disk soon. */
  #leave(): void {
    const { files } = this.#world;
    const index = this.#world.random.below(this.#consumers.length);
    const { group } = this.#consumers[index];
    this.#consumers[index].leave();
    this.#consumers[index] = this.#consumerOf(group, this.#log as Log);
    if (this.#faulty) return;
    const { committed } = group.group;
    files.runAll();
    if (this.#end === undefined) this.#model.group(group.name).savedFloor = committed;
  }

  /** Storage.md 26.32: at level `interval` nothing stays unsynced for longer than its window. */
  #letTheWindowPass(log: Log): void {
    const { files, clock } = this.#world;
    const { level, flushIntervalMs } = this.#setup.durability;
    log.pump();
    files.runAll();
    clock.advance(flushIntervalMs + 1);
    this.#stream?.tick(clock.monotonicMs(), clock.wallMs());
    files.runAll();
    if (this.#end !== undefined || this.#faulty || level !== "interval" || flushIntervalMs === 0) return;
    const { durableHead, visibleHead } = log;
    demand(
      durableHead === visibleHead,
      "26.32",
      () => `after ${flushIntervalMs} ms ${durableHead} of ${visibleHead} are durable`,
    );
  }

  /** Retention: what all groups have settled goes, and now and then more than that, as under `drop-oldest`. */
  #reap(log: Log): void {
    const { random, record } = this.#world;
    const committed = GROUPS.map((name) => this.#stream?.group(name)?.group.committed ?? 0);
    const floor = random.chance(0.2) ? Number.POSITIVE_INFINITY : Math.min(...committed);
    const { segments } = log;
    const most = segments.findIndex(({ sealed, endOffset }) => !sealed || endOffset > floor);
    const count = most === -1 ? segments.length - 1 : Math.min(most, segments.length - 1);
    if (count <= 0) return;
    const bases = segments.map(({ baseOffset }) => baseOffset);
    const before = this.#model.removingBelow;
    this.#model.removingBelow = Math.max(before, bases[count]);
    const begun = log.removeOldest(count, (removed, error) => {
      if (this.#end !== undefined) return;
      record(`removed ${removed}`);
      demand(this.#faulty || error === undefined, "17", () => `removal failed: ${error?.message}`);
      // Fewer than asked for when the log is closed meanwhile.
      demand(removed <= count && log.earliestOffset === bases[removed], "14.5", () => {
        return `${removed} of ${count} are removed, the log begins at ${log.earliestOffset}`;
      });
      this.#model.removedBelow = bases[removed];
    });
    if (!begun && this.#end === undefined) this.#model.removingBelow = before;
  }

  /** Storage.md I8. */
  #tryLock(): void {
    const { seen, codec } = this.#world;
    try {
      openDataDirectory(seen, codec, ROOT).lock.release();
    } catch (error) {
      if (error instanceof DataDirectoryError && error.kind === "Locked") return;
      throw error;
    }
    if (this.#end === undefined) demand(false, "I8", () => "a second process took the directory");
  }

  #readAnywhere(log: Log): void {
    const { random, codec } = this.#world;
    const { earliestOffset, visibleHead } = log;
    if (earliestOffset === visibleHead) return;
    const offset = earliestOffset + random.below(visibleHead - earliestOffset);
    const window = log.read(offset, visibleHead);
    if (window === undefined) {
      demand(this.#mayLose, "I3", () => `offset ${offset} lies in a gap of a healthy log`);
      return;
    }
    for (let row = 0; row < window.count; row++) {
      this.#model.seen(window.firstOffset + row, contentOfRow(window.buffer, window.rows, row, codec));
    }
  }

  /** What the medium does not give back counts as lost as long as the process lives; nothing of it may be destroyed. */
  get #mayLose(): boolean {
    return (
      this.#end !== undefined ||
      (this.#faulty && this.#fate.fault?.kind === "fail" && this.#fate.fault.operation === "read")
    );
  }

  #observe(): void {
    if (this.#end !== undefined || this.#log === undefined) return;
    const { visibleHead, durableHead, nextOffset, frozen } = this.#log;
    // A frozen log forgets what it had taken and not written.
    if (frozen === undefined) this.#model.heads(visibleHead, durableHead, nextOffset);
  }

  async #stop(): Promise<End> {
    const { files, clock, record } = this.#world;
    record("stop");
    const log = this.#log as Log;
    for (const consumer of this.#consumers) consumer.leave();
    let done = false;
    const closed = (this.#stream as Stream).close().then(() => {
      done = true;
    });
    for (let turn = 0; !done; turn++) {
      files.runAll();
      if (turn % 10 === 9) clock.advance(10);
      await new Promise((resolve) => setImmediate(resolve));
      demand(turn < 1000, "stop", () => "the log never closes");
    }
    await closed;
    if (log.frozen === undefined) {
      demand(log.durableHead === this.#model.next, "26.32", () => `stopped with ${log.durableHead} durable`);
      this.#model.heads(log.visibleHead, log.durableHead, log.nextOffset);
    }
    for (const name of GROUPS) {
      const group = this.#stream?.group(name)?.group;
      if (group !== undefined && !this.#faulty) this.#model.group(name).savedFloor = group.committed;
    }
    let freed = false;
    this.#queue?.close(() => {
      freed = true;
    });
    files.runAll();
    demand(freed, "stop", () => "the queue of the checkpoints never closes");
    this.#release?.();
    this.#die(this.#fate.cutAtRest ? "cut" : "kill");
    return { ...(this.#end as unknown as End), kind: this.#fate.cutAtRest ? "cut" : "stop" };
  }

  /** Runs a piece of the process's life; the errors of a dead or faulty disk end that piece and nothing else. */
  #guarded(piece: () => void): void {
    try {
      piece();
    } catch (error) {
      const ofTheDisk = isOfTheDisk(error) || (error instanceof StorageError && this.#end !== undefined);
      if (!ofTheDisk || !(this.#faulty || this.#end !== undefined)) throw error;
      this.#world.record(`failed ${error.message}`);
    }
  }
}
