import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { BrokerError, connect, ProduceError } from "../../src/client/index.ts";
import { cleanUp, TestBroker } from "../e2e/harness.ts";
import { contentsOf } from "./audit.ts";
import { Ledger } from "./ledger.ts";
import {
  mountExt4,
  newImage,
  newPlace,
  repairImage,
  turnReadOnly,
  unmount,
  unmountAll,
  whyNoMounts,
} from "./mounts.ts";
import { identify, payloadOf } from "./payloads.ts";

const obstacle = whyNoMounts();

afterEach(async () => {
  await cleanUp();
  unmountAll();
});

const OTHER_WRITER = 99;
const MEBIBYTE = 1024 * 1024;
const pause = (delayMs: number) => new Promise((resolve) => setTimeout(resolve, delayMs));

/** Where a broker's data are, and what happens to them. */
interface Place {
  readonly dataDir: string;
  /** Takes the data directory away; gives what is at its path from then on and is not the broker's, if anything is. */
  event(): string | undefined;
  /** What has to be there before, if anything. */
  prepare?(): Promise<void>;
  /** Once the broker is gone: where its files are now, undefined when nowhere. */
  recovered(): string | undefined;
}

function removed(): Place {
  const dataDir = join(newPlace(), "data");
  return { dataDir, event: () => void rmSync(dataDir, { recursive: true }), recovered: () => undefined };
}

function moved(): Place {
  const place = newPlace();
  const dataDir = join(place, "data");
  const elsewhere = join(place, "elsewhere");
  return { dataDir, event: () => void renameSync(dataDir, elsewhere), recovered: () => elsewhere };
}

function replaced(): Place {
  const { dataDir, event, recovered } = moved();
  return {
    dataDir,
    event: () => {
      event();
      cpSync(recovered() as string, dataDir, { recursive: true });
      return dataDir;
    },
    recovered,
  };
}

/** The other log has as many records at the same offsets, and none of them is ours. */
function replacedByAnother(): Place {
  const { dataDir, event, recovered } = moved();
  const other = join(newPlace(), "data");
  return {
    dataDir,
    prepare: async () => {
      const broker = await TestBroker.start(["--max-segment-bytes", "65536"], other);
      const client = await connect(broker.address);
      await client.produceAll(Array.from({ length: 5000 }, (_, index) => payloadOf(OTHER_WRITER, index)));
      await client.close();
      await broker.stop();
    },
    event: () => {
      event();
      cpSync(other, dataDir, { recursive: true });
      return dataDir;
    },
    recovered,
  };
}

function unmountedLazily(): Place {
  const image = newImage(64 * MEBIBYTE);
  const path = mountExt4(image);
  const dataDir = join(path, "data");
  return {
    dataDir,
    event: () => {
      unmount(path, "-l");
      mkdirSync(dataDir);
      return dataDir;
    },
    recovered: () => join(mountExt4(image), "data"),
  };
}

function turnedReadOnly(): Place {
  const image = newImage(64 * MEBIBYTE);
  const path = mountExt4(image);
  return {
    dataDir: join(path, "data"),
    event: () => void turnReadOnly(path),
    recovered: () => {
      unmount(path);
      repairImage(image);
      return join(mountExt4(image), "data");
    },
  };
}

/**
 * When something was received at the latest that had arrived by now: a test that was held up must not take what waited in
 * the socket for something new.
 */
class Pulse {
  lastMs = performance.now();
  readonly #timer = setInterval(() => {
    this.lastMs = performance.now();
  }, 5);
  stop(): void {
    clearInterval(this.#timer);
  }
}

/** Publishes until it is refused; resolves with the reason. `acked` is called for each acknowledgement. */
async function publishUntilRefused(address: string, writer: number, ledger: Ledger, acked: () => void): Promise<Error> {
  const client = await connect(address);
  try {
    for (let first = 0; ; first += 20) {
      const payloads = Array.from({ length: 20 }, (_, at) => payloadOf(writer, first + at));
      await client.produceAll(payloads, {
        onAck: (at, offset) => {
          ledger.acknowledged(offset, writer, first + at);
          acked();
        },
      });
      await pause(3);
    }
  } catch (error) {
    return error as Error;
  } finally {
    await client.close();
  }
}

/** Names, lengths and contents of what is in a directory, short enough to be shown. */
function snapshot(directory: string): string[] {
  const entries = readdirSync(directory, { withFileTypes: true }).map((entry) => {
    if (!entry.isFile()) return entry.name;
    const bytes = readFileSync(join(directory, entry.name));
    return `${entry.name} ${bytes.length} ${createHash("sha1").update(bytes).digest("hex")}`;
  });
  return entries.sort();
}

/** Reads and settles as a new group until there is nothing more, or it is refused; which offsets came. */
async function read(address: string, ledger: Ledger): Promise<number> {
  await using client = await connect(address);
  await client.subscribe("reader");
  let count = 0;
  try {
    for (;;) {
      const { messages, advisories } = await client.fetch({ max: 100 });
      expect(advisories).toEqual([]);
      if (messages.length === 0) return count;
      for (const { offset, payload } of messages) expect(ledger.contradicts(offset, identify(payload))).toBe(false);
      count += messages.length;
      await client.ackAll(messages);
    }
  } catch (error) {
    expect((error as Error).message).toBe("fetch failed");
    await client.ping();
    return count;
  }
}

const EVENTS = [
  { name: "removed", prepare: removed },
  { name: "moved away", prepare: moved },
  { name: "replaced by a copy", prepare: replaced },
  { name: "replaced by another log's", prepare: replacedByAnother },
  { name: "unmounted, with another directory at its path", prepare: unmountedLazily },
  { name: "read-only from now on", prepare: turnedReadOnly },
];

const FLAGS = {
  sync: [],
  none: ["--durability-level", "none", "--async-loss-ack"],
} as const;

const CASES = EVENTS.flatMap((event) =>
  (["sync", "none"] as const).flatMap((level) =>
    // With small segments the next one is soon to be made where the directory is not any more.
    (["67108864", "65536"] as const).map((segmentBytes) => ({ ...event, level, segmentBytes })),
  ),
).filter(({ name, level, segmentBytes }) => segmentBytes === "67108864" || (level === "sync") !== (name === "removed"));

describe.skipIf(obstacle !== undefined)(
  `README ruling 12: a data directory that is not there any more ${obstacle ?? ""}`,
  () => {
    it.for(CASES)(
      "$name, at level $level with segments of $segmentBytes bytes: acknowledgements stop, all hear of it, reads go on",
      async ({ name, prepare, level, segmentBytes }) => {
        const place = prepare();
        await place.prepare?.();
        const flags = [...FLAGS[level], "--max-segment-bytes", segmentBytes, "--health-addr", "127.0.0.1:0"];
        const broker = await TestBroker.start(flags, place.dataDir);
        const healthLine = /health endpoints on (\S+) /;
        await broker.process.until(({ stdout }) => healthLine.test(String(stdout)));
        const health = healthLine.exec(String(broker.process.stdout))?.[1];
        const ready = async () => {
          const response = await fetch(`http://${health}/readyz`);
          return [response.status, await response.text()];
        };
        expect(await ready()).toEqual([200, "ready"]);

        const ledger = new Ledger();
        const pulse = new Pulse();
        let lastAckMs = 0;
        const publishers = [0, 1, 2].map((writer) =>
          publishUntilRefused(broker.address, writer, ledger, () => {
            lastAckMs = pulse.lastMs;
          }),
        );
        while (ledger.size < 500) await pause(5);
        const foreign = place.event();
        const eventMs = performance.now();
        const before = foreign === undefined ? undefined : snapshot(foreign);
        const reasons = await Promise.all(publishers);
        pulse.stop();
        expect(lastAckMs - eventMs).toBeLessThan(1000);
        for (const reason of reasons) {
          expect(reason).toBeInstanceOf(ProduceError);
          expect(reason.cause).toBeInstanceOf(BrokerError);
          expect(reason.message).toContain("fatal storage error");
        }
        const late = await broker.run("pub", ["too late"]);
        expect([late.code, String(late.stdout)]).toEqual([70, ""]);
        expect(late.stderr).toContain("fatal storage error");
        expect(await ready()).toEqual([503, "writer frozen"]);
        expect(broker.process.stderr.match(/^ERROR: the log is frozen, .*$/gm)).toHaveLength(1);

        // What is open or still there can be read; what is not is an error, never a loss.
        const count = await read(broker.address, ledger);
        if (name === "read-only from now on" || segmentBytes === "67108864") expect(count).toBeGreaterThanOrEqual(500);

        const stopped = await broker.stop();
        expect(stopped.code).toBe(70);
        expect(stopped.stderr.trimEnd().split("\n").pop()).toMatch(/^error: the log was frozen: .{10,}$/);
        if (foreign !== undefined) expect(snapshot(foreign)).toEqual(before);

        const dataDir = place.recovered();
        if (dataDir === undefined) return;
        const again = await TestBroker.start(flags, dataDir);
        const contents = await contentsOf(again.address, "audit");
        // What level none acknowledged and no barrier covered may be lost with the file system; all else is there.
        if (level === "sync" || name !== "read-only from now on") expect(ledger.compare(contents)).toEqual([]);
        else expect(ledger.compare(contents).every((problem) => problem.endsWith("is missing"))).toBe(true);
        expect((await again.stop()).code).toBe(0);
      },
    );
  },
);
