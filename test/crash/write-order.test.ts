import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { connect } from "../../src/client/index.ts";
import { cleanUp, TestBroker, temporaryDirectory } from "../e2e/harness.ts";
import { type Call, parseTrace, tracing, whyNoTrace } from "./trace.ts";
import { acknowledgements, checkpointDisorder, segmentDisorder, unsafeAcknowledgements } from "./write-order.ts";

afterEach(cleanUp);

const LONE = 4;
const BATCH = 400;
const markerOf = (offset: number) => `<record ${offset}>`;
const escaped = (text: string) => [...Buffer.from(text)].map((byte) => `\\x${byte.toString(16)}`).join("");
const obstacle = whyNoTrace();

/** What a broker does for some publishes, each alone and then many at once, over several segments, and for a consumer. */
async function trace(flags: readonly string[]): Promise<Call[]> {
  const directory = temporaryDirectory();
  const file = join(directory, "trace");
  const broker = await TestBroker.start(
    ["--compression", "none", "--max-segment-bytes", "8192", ...flags],
    join(directory, "data"),
    { wrapper: tracing(file) },
  );
  const client = await connect(broker.address);
  for (let offset = 0; offset < LONE; offset++) await client.produce(markerOf(offset));
  await client.produceAll(Array.from({ length: BATCH }, (_, at) => markerOf(LONE + at)));
  await client.subscribe("group");
  const { messages } = await client.fetch({ max: 10 });
  await client.ackAll(messages);
  await client.close();
  expect((await broker.stop()).code).toBe(0);
  return parseTrace(readFileSync(file, "latin1"));
}

/** The calls as they would be if those that `changes` says something else of had been so, or (undefined) had not been. */
function doctored(calls: readonly Call[], change: (call: Call) => Call | undefined): Call[] {
  return calls.map(change).filter((call) => call !== undefined);
}

const isBarrier = ({ name }: Call) => name === "fdatasync" || name === "fsync";
const isSegmentCall = ({ path }: Call) => path.includes("/seg-");

describe.skipIf(obstacle !== undefined)(`the order of system calls ${obstacle ?? ""}`, () => {
  it.for(["buffered", "direct"])(
    "storage.md 14.2, 14.3, 14.5: %s: barriers before acknowledgements, files made and sealed in order",
    async (mode) => {
      const calls = await trace(["--io-mode", mode]);
      const acknowledged = acknowledgements(calls).flatMap(({ offsets }) => offsets);
      expect(acknowledged).toEqual(Array.from({ length: LONE + BATCH }, (_, offset) => offset));
      expect(unsafeAcknowledgements(calls, markerOf)).toEqual([]);
      expect(segmentDisorder(calls)).toEqual([]);
      expect(checkpointDisorder(calls)).toEqual([]);
      const made = (end: string) =>
        calls.filter(({ name, path, rest }) => name === "openat" && rest.includes("O_CREAT") && path.endsWith(end));
      expect(made(".log").length).toBeGreaterThan(2);
      expect(made(".ckpt").length).toBeGreaterThan(2);

      // The same trace with one thing wrong.
      const without = (gone: (call: Call) => boolean) => doctored(calls, (call) => (gone(call) ? undefined : call));
      const noBarriers = without((call) => isBarrier(call) && isSegmentCall(call));
      expect(unsafeAcknowledgements(noBarriers, markerOf)).toHaveLength(LONE + BATCH);
      expect(segmentDisorder(noBarriers).length).toBeGreaterThan(2);
      const failed = doctored(calls, (call) => (isBarrier(call) ? { ...call, result: -1 } : call));
      expect(unsafeAcknowledgements(failed, markerOf)).toHaveLength(LONE + BATCH);
      // One barrier that begins a moment before its write is over.
      const lone = calls.find(({ data, path }) => path.includes("/seg-") && data.includes(markerOf(1))) as Call;
      const covering = calls.find(
        (call) => isBarrier(call) && call.path === lone.path && call.begun > lone.ended,
      ) as Call;
      const early = doctored(calls, (call) => (call === covering ? { ...call, begun: lone.begun } : call));
      // With direct writes the block is written again with the next record, after the acknowledgement.
      expect(unsafeAcknowledgements(early, markerOf)).toEqual([
        "offset 1 was acknowledged before a barrier covered its write",
      ]);
      const late = doctored(calls, (call) => (call === covering ? { ...call, ended: Number.POSITIVE_INFINITY } : call));
      expect(unsafeAcknowledgements(late, markerOf).length).toBeGreaterThan(0);
      const noDirectory = without((call) => call.name === "fsync" && call.path.endsWith("/data"));
      expect(segmentDisorder(noDirectory)[0]).toContain("records before the directory's barrier");
      expect(checkpointDisorder(noDirectory)[0]).toContain("before its directory's barrier");
      const noCut = without(({ name, path }) => name === "ftruncate" && path.includes("/seg-"));
      expect(segmentDisorder(noCut)[0]).toContain("before this one was cut");
      const noSync = without((call) => isBarrier(call) && call.path.endsWith(".ckpt"));
      expect(checkpointDisorder(noSync)[0]).toContain("not synced");
    },
  );

  it("at level none an acknowledgement does not wait for a barrier, and the check sees that", async () => {
    const calls = await trace(["--durability-level", "none", "--async-loss-ack"]);
    expect(acknowledgements(calls).flatMap(({ offsets }) => offsets)).toHaveLength(LONE + BATCH);
    expect(unsafeAcknowledgements(calls, markerOf).length).toBeGreaterThanOrEqual(LONE);
    // What becomes of segments is the same at every level.
    expect(segmentDisorder(calls)).toEqual([]);
  });
});

describe("reading a trace", () => {
  it("joins what other threads interrupted, decodes paths and data, and knows failures", () => {
    const path = escaped("/d/seg-0000000000000000.log");
    const calls = parseTrace(
      [
        `10 openat(AT_FDCWD<\\x2f>, "${path}", O_RDWR|O_CREAT|O_EXCL, 0666) = 9<${path}>`,
        `11 pwrite64(9<${path}>, "\\x61\\x62", 2, 64 <unfinished ...>`,
        `10 fdatasync(9<${path}> <unfinished ...>`,
        "11 <... pwrite64 resumed>)          = 2",
        "10 <... fdatasync resumed>)         = -1 EIO (Input/output error)",
        "11 --- SIGTERM {si_signo=SIGTERM} ---",
        "11 +++ exited with 0 +++",
        "",
      ].join("\n"),
    );
    expect(calls.map(({ name, result, begun, ended }) => [name, result, begun, ended])).toEqual([
      ["openat", 9, 0, 0],
      ["pwrite64", 2, 1, 3],
      ["fdatasync", -1, 2, 4],
    ]);
    expect(calls.every((call) => call.path === "/d/seg-0000000000000000.log")).toBe(true);
    expect([String(calls[1].data), calls[1].position]).toEqual(["ab", 64]);
  });

  it("does not take what it cannot read, or what was cut short, for a trace", () => {
    expect(() => parseTrace("10 what is this")).toThrow("not a system call");
    expect(() => parseTrace("10 <... fsync resumed>) = 0")).toThrow("resumed before it began");
    const [file] = parseTrace('10 write(1<\\x61>, "\\x61"..., 99999) = 99999');
    expect([file.cutShort, String(file.data)]).toEqual([true, "a"]);
    const socket = parseTrace(`10 sendto(1<${escaped("socket:[1]")}>, "\\x61"..., 99999) = 99999`);
    expect(() => acknowledgements(socket)).toThrow("cut short");
  });
});
