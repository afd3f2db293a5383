import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { BrokerError, connect, ProduceError } from "../../src/client/index.ts";
import { cleanUp, TestBroker } from "../e2e/harness.ts";
import { contentsOf } from "./audit.ts";
import { Ledger } from "./ledger.ts";
import { drain, GroupRecord } from "./load.ts";
import {
  fill,
  mountExt4,
  mountMemory,
  newImage,
  repairImage,
  shutDown,
  unmount,
  unmountAll,
  whyNoMounts,
} from "./mounts.ts";
import { payloadOf } from "./payloads.ts";

const obstacle = whyNoMounts();

afterEach(async () => {
  await cleanUp();
  unmountAll();
});

const MEBIBYTE = 1024 * 1024;

interface Disk {
  readonly path: string;
  fail(): Promise<void>;
  /** Once nothing uses it: where the file system is mounted again. */
  mend(): string;
}

/**
 * A file system on a disk that can be made to fail writing: the file behind it is sparse and lies on a small file system
 * of its own. Once that is full, what the outer one takes cannot be brought to the "disk", which only a barrier tells.
 */
function failingToWrite(): Disk {
  const medium = mountMemory("tmpfs", 24 * MEBIBYTE);
  const image = newImage(64 * MEBIBYTE, medium);
  const path = mountExt4(image, "errors=continue");
  let ballast = "";
  return {
    path,
    async fail() {
      ballast = await fill(dirname(image));
    },
    mend() {
      rmSync(ballast);
      unmount(path);
      repairImage(image);
      return mountExt4(image);
    },
  };
}

/** A file system that the kernel gives up at once, as when its disk is pulled out: nothing can be written or read. */
function pulledOut(): Disk {
  const image = newImage(64 * MEBIBYTE);
  const path = mountExt4(image);
  return {
    path,
    fail: async () => shutDown(path),
    mend: () => {
      unmount(path);
      repairImage(image);
      return mountExt4(image);
    },
  };
}

describe.skipIf(obstacle !== undefined)(`storage.md 17: a disk that fails for real ${obstacle ?? ""}`, () => {
  it.for([
    { level: "sync", mode: "buffered", failure: "barriers fail", prepare: failingToWrite },
    { level: "interval", mode: "buffered", failure: "barriers fail", prepare: failingToWrite },
    { level: "sync", mode: "buffered", failure: "pulled out", prepare: pulledOut },
    { level: "sync", mode: "direct", failure: "pulled out", prepare: pulledOut },
  ])(
    "$failure, at level $level, $mode: the writer freezes for good, and nothing safe is lost or passed over",
    async ({ level, mode, failure, prepare }) => {
      const disk = prepare();
      const flags = ["--durability-level", level, "--io-mode", mode, "--max-segment-bytes", "4194304"];
      const limits = ["--flush-interval-ms", "100", "--health-addr", "127.0.0.1:0"];
      const broker = await TestBroker.start([...flags, ...limits], join(disk.path, "data"));
      await broker.process.until(({ stdout }) => String(stdout).includes("health endpoints on "));
      const health = /health endpoints on (\S+) /.exec(String(broker.process.stdout))?.[1];
      const ledger = new Ledger();
      const client = await connect(broker.address);
      let next = 0;
      const batch = async () => {
        const first = next;
        next += 50;
        await client.produceAll(
          Array.from({ length: 50 }, (_, at) => payloadOf(0, first + at)),
          { onAck: (at, offset) => ledger.acknowledged(offset, 0, first + at) },
        );
      };
      while (ledger.size < 1000) await batch();
      await client.subscribe("reader");
      await client.ackAll((await client.fetch({ max: 10 })).messages);
      execFileSync("sync", ["-f", disk.path]);
      const safe = ledger.size;
      await disk.fail();
      let reason: unknown;
      while (reason === undefined)
        await batch().catch((error: unknown) => {
          reason = error;
        });
      expect(reason).toBeInstanceOf(ProduceError);
      expect((reason as ProduceError).cause).toBeInstanceOf(BrokerError);
      expect((reason as Error).message).toContain("fatal storage error");
      await client.close();
      expect(broker.process.stderr).toMatch(/^ERROR: the log is frozen, .*: (sync|write) .*: E(IO|NOSPC)/m);
      const readiness = await fetch(`http://${health}/readyz`);
      expect([readiness.status, await readiness.text()]).toEqual([503, "writer frozen"]);
      expect((await fetch(`http://${health}/healthz`)).status).toBe(200);
      expect((await broker.run("pub", ["late"])).code).toBe(70);
      if (failure === "barriers fail") expect(ledger.compare(await contentsOf(broker.address, "audit"))).toEqual([]);
      // What this group settles now is not saved; and nothing is called lost that the mended disk will give back.
      const group = new GroupRecord("reader");
      await drain(broker.address, group).catch((error: Error) => expect(error.message).toBe("fetch failed"));
      expect(group.advisories).toEqual([]);
      const stopped = await broker.stop();
      expect(stopped.code).toBe(70);
      expect(stopped.stderr).toMatch(/error: the log was frozen: .*E(IO|NOSPC)\n$/);

      const again = await TestBroker.start(flags, join(disk.mend(), "data"));
      const contents = await contentsOf(again.address, "audit");
      if (level === "sync") expect(ledger.compare(contents)).toEqual([]);
      else expect(contents.identities.length).toBeGreaterThanOrEqual(safe);
      const resumed = new GroupRecord("reader");
      await drain(again.address, resumed);
      expect(resumed.advisories).toEqual([]);
      if (failure === "pulled out") expect(Math.min(...resumed.settled)).toBe(10);
      expect((await again.stop()).code).toBe(0);
    },
  );
});
