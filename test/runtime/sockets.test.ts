import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createNetwork } from "../../src/runtime/network.ts";
import { SeededRandom } from "../../src/runtime/random-seeded.ts";
import { createBunNetwork } from "../../src/runtime/sockets-bun.ts";
import { MemoryNetwork } from "../../src/runtime/sockets-memory.ts";
import { createNodeNetwork } from "../../src/runtime/sockets-node.ts";
import { Turns } from "../../src/runtime/turns.ts";
import { findNode } from "../support/real-node.ts";
import { connectPeer } from "./sockets-peer.ts";
import { type Peer, type Place, scenarios } from "./sockets-scenarios.ts";

const memory = (random?: SeededRandom): Place => ({
  createNetwork: (report) => new MemoryNetwork({ report, random }),
  async connect(network, listener) {
    const endpoint = (network as MemoryNetwork).connect(listener);
    const peer: Peer = {
      send: (bytes) => endpoint.send(bytes),
      end: () => endpoint.end(),
      reset: () => endpoint.reset(),
      pause: () => endpoint.pauseReading(),
      resume: () => endpoint.resumeReading(),
      onReceive: () => {},
      get ended() {
        return endpoint.ended;
      },
      get closed() {
        return endpoint.closed;
      },
    };
    endpoint.onReceive = (bytes) => peer.onReceive(bytes);
    return peer;
  },
});

const places: Record<string, Place> = {
  "Bun's sockets": { createNetwork: createBunNetwork, connect: (_network, at) => connectPeer(at) },
  "Node's sockets in Bun": { createNetwork: createNodeNetwork, connect: (_network, at) => connectPeer(at) },
  "sockets in memory": memory(),
  "sockets in memory, chunks of any size": memory(new SeededRandom(7)),
};

for (const [name, place] of Object.entries(places)) {
  describe(name, () => {
    for (const { title, run } of scenarios) {
      it(title, async () => {
        expect.hasAssertions();
        await expect(run(place)).resolves.toBeUndefined();
      });
    }
  });
}

describe("Node's sockets in Node", () => {
  let directory: string;
  let results: { title: string; failure?: string; runtime: string; bun?: string }[];

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "ironbus-sockets-"));
    const bundle = join(directory, "sockets.mjs");
    execFileSync(process.execPath, [
      "build",
      "--target=node",
      `--outfile=${bundle}`,
      join(import.meta.dirname, "sockets-under-node.ts"),
    ]);
    const output = execFileSync(findNode(), [bundle], { encoding: "utf8", timeout: 300_000 });
    results = output
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  }, 300_000);

  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  for (const { title } of scenarios) {
    it(title, () => {
      const result = results.find((each) => each.title === title);
      expect(result).toMatchObject({ title });
      expect(result?.failure).toBeUndefined();
      expect(result?.bun).toBeUndefined();
    });
  }
});

describe("network", () => {
  it.each([createBunNetwork, createNodeNetwork])(
    "resolves a name to listen on, and says when there is none",
    async (create) => {
      const ignore = { open() {}, data() {}, drain() {}, end() {}, close() {} };
      const network = create(() => {});
      const listener = await network.listen({ host: "localhost", port: 0 }, ignore);
      listener.stop();
      expect(listener.host).toBe("127.0.0.1");
      const failed = network.listen({ host: "no.such.host.invalid", port: 0 }, ignore);
      await expect(failed).rejects.toMatchObject({ code: expect.stringMatching(/^(ENOTFOUND|EAI_AGAIN)$/) });
    },
  );

  it("picks the sockets of the runtime and turns what a handler throws into a warning", async () => {
    const warnings: string[] = [];
    const onWarning = (warning: Error) => warnings.push(warning.message);
    process.on("warning", onWarning);
    const listener = await createNetwork().listen(
      { host: "127.0.0.1", port: 0 },
      {
        open() {
          throw new Error("no guests");
        },
        data() {},
        drain() {},
        end() {},
        close() {},
      },
    );
    const peer = await connectPeer(listener);
    while (!peer.closed || warnings.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    process.off("warning", onWarning);
    listener.stop();
    expect(warnings).toEqual(["no guests"]);
  });
});

describe("a simulated network driven by hand", () => {
  it("gives the same chunks for the same seed, and does nothing between steps", async () => {
    const run = async (seed: number) => {
      const turns = new Turns("manual", new SeededRandom(seed));
      const network = new MemoryNetwork({ turns, random: new SeededRandom(seed), chunkBytes: 9 });
      const sizes: number[] = [];
      const listener = await network.listen(
        { host: "::", port: 0 },
        { open() {}, data: (_connection, chunk) => sizes.push(chunk.length), drain() {}, end() {}, close() {} },
      );
      const endpoint = network.connect(listener);
      endpoint.send(new Uint8Array(100));
      await new Promise((resolve) => setImmediate(resolve));
      expect(sizes).toEqual([]);
      turns.runAll();
      return sizes;
    };
    const first = await run(1);
    expect(first.reduce((sum, size) => sum + size, 0)).toBe(100);
    expect(first.length).toBeGreaterThan(11);
    expect(await run(1)).toEqual(first);
    expect(await run(2)).not.toEqual(first);
  });

  it("keeps a bounded window: what the peer does not read is not taken", async () => {
    const turns = new Turns("manual");
    const network = new MemoryNetwork({ turns, windowBytes: 1000 });
    const taken: number[] = [];
    const listener = await network.listen(
      { host: "::", port: 0 },
      {
        open: (connection) => taken.push(connection.write(new Uint8Array(1500), 0, 1500)),
        data() {},
        drain: (connection) => taken.push(connection.write(new Uint8Array(500), 0, 500)),
        end() {},
        close() {},
      },
    );
    const endpoint = network.connect(listener);
    endpoint.pauseReading();
    turns.runAll();
    expect(taken).toEqual([1000]);
    endpoint.resumeReading();
    turns.runAll();
    expect(taken).toEqual([1000, 500]);
    expect(endpoint.take().length).toBe(1500);
    expect(() => network.connect({ port: 1 })).toThrow("connection refused");
  });
});
