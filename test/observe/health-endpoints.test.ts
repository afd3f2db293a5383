import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import type { Worker } from "node:worker_threads";
import { afterEach, describe, expect, it } from "vitest";
import { BrokerHealth } from "../../src/broker/health.ts";
import {
  type HealthEndpoints,
  type HealthEndpointsOptions,
  startHealthEndpoints,
} from "../../src/observe/health-endpoints.ts";
import { startHealthWorker } from "../../src/observe/health-worker-start.ts";
import { systemClock } from "../../src/runtime/clock-system.ts";
import { findNode } from "../support/real-node.ts";

const started: HealthEndpoints[] = [];

afterEach(() => {
  for (const endpoints of started.splice(0)) endpoints.stop();
});

async function start(
  health: BrokerHealth,
  options: Partial<HealthEndpointsOptions> = {},
  metrics: (shed: number) => string = () => "m 1\n",
): Promise<number> {
  const endpoints = await startHealthEndpoints(
    { host: "127.0.0.1", port: 0, livenessWindowMs: 10_000, watchdogBoundMs: 30_000, ...options },
    health,
    systemClock,
    metrics,
    (message) => expect.unreachable(message),
  );
  started.push(endpoints);
  return endpoints.port;
}

function get(port: number, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect({ host: "127.0.0.1", port }, () => socket.write(`GET ${path}\n`));
    socket.on("data", (chunk) => {
      text += chunk;
    });
    socket.once("close", () => resolve(`${text.split(" ")[1]} ${text.split("\r\n\r\n")[1]}`));
    socket.once("error", reject);
  });
}

async function until(port: number, path: string, wanted: string): Promise<void> {
  while ((await get(port, path)) !== wanted) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** Asks /healthz and /readyz in turn from another process until `wanted` was seen; prints what it got, each answer once. */
const PROBE = `
const { connect } = require("node:net");
const [port, wanted] = process.argv.slice(1);
const seen = new Set();
const ask = (path) => {
  let text = "";
  const socket = connect({ host: "127.0.0.1", port: Number(port) }, () => socket.write("GET " + path + "\\n"));
  socket.on("data", (chunk) => { text += chunk; });
  socket.on("error", () => {});
  socket.on("close", () => {
    const answer = path + " " + text.split("\\r\\n\\r\\n")[1];
    if (!seen.has(answer)) console.log(answer);
    seen.add(answer);
    if (answer === wanted) return;
    setTimeout(ask, 20, path === "/healthz" ? "/readyz" : "/healthz");
  });
};
ask("/healthz");`;

describe("health endpoints on their thread", () => {
  it("show the broker's state as soon as it changes", async () => {
    const health = new BrokerHealth();
    const port = await start(health);
    expect([await get(port, "/healthz"), await get(port, "/readyz")]).toEqual(["200 ok", "200 ready"]);
    health.freeze(new Error("x"));
    expect([await get(port, "/healthz"), await get(port, "/readyz")]).toEqual(["200 ok", "503 writer frozen"]);
    health.drain();
    expect(await get(port, "/readyz")).toBe("503 draining");
    expect(await get(port, "/metrics")).toBe("200 m 1\n");
    health.stop();
    expect(await get(port, "/metrics")).toBe("503 shutting down");
    expect(await get(port, "/healthz")).toBe("200 ok");
  });

  it("observability.md 13.10: a barrier that hangs beyond the bound fails both probes, until it ends", async () => {
    const health = new BrokerHealth();
    let startedMs: number | undefined;
    health.watch(() => startedMs);
    const port = await start(health, { watchdogBoundMs: 500 });
    startedMs = systemClock.monotonicMs();
    expect(await get(port, "/healthz")).toBe("200 ok");
    await until(port, "/healthz", "503 append actor wedged");
    expect(systemClock.monotonicMs() - startedMs).toBeGreaterThan(500);
    expect(await get(port, "/readyz")).toBe("503 append actor wedged");
    startedMs = undefined;
    await until(port, "/healthz", "200 ok");
    expect(await get(port, "/readyz")).toBe("200 ready");
  });

  it("observability.md 13.10: a bound of 0 is no bound", async () => {
    const health = new BrokerHealth();
    health.watch(() => systemClock.monotonicMs() - 1_000_000);
    const port = await start(health, { watchdogBoundMs: 0 });
    expect(await get(port, "/healthz")).toBe("200 ok");
  });

  it("observability.md 13.11: a stuck event loop is reported while it is stuck", async () => {
    const port = await start(new BrokerHealth(), { livenessWindowMs: 400 });
    const wanted = "/healthz no event-loop progress";
    const probe = spawn(findNode(), ["-e", PROBE, String(port), wanted], { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    probe.stdout.on("data", (chunk) => {
      output += chunk;
    });
    await once(probe.stdout, "data");
    // Nothing of this thread runs until the probe, which is another process, has seen it and is gone.
    const deadlineMs = systemClock.monotonicMs() + 20_000;
    const alive = (): boolean => {
      const [state] = readFileSync(`/proc/${probe.pid}/stat`, "utf8").split(") ")[1];
      return state !== "Z";
    };
    while (alive() && systemClock.monotonicMs() < deadlineMs) {
      // Busy on purpose.
    }
    await once(probe, "close");
    expect(output.trim().split("\n").sort()).toEqual([
      "/healthz no event-loop progress",
      "/healthz ok",
      "/readyz ready",
    ]);
    await until(port, "/healthz", "200 ok");
  });

  it("a port that is taken is an error with its code", async () => {
    const port = await start(new BrokerHealth());
    await expect(start(new BrokerHealth(), { port })).rejects.toMatchObject({ code: "EADDRINUSE" });
  });

  it("a worker that died is followed by another one on the same port, and what it counted is kept", async () => {
    const workers: Worker[] = [];
    const warnings: string[] = [];
    const endpoints = await startHealthEndpoints(
      { host: "127.0.0.1", port: 0, livenessWindowMs: 10_000, watchdogBoundMs: 0 },
      new BrokerHealth(),
      systemClock,
      () => "m 1\n",
      (message) => warnings.push(message),
      (data) => {
        const worker = startHealthWorker(data);
        workers.push(worker);
        return worker;
      },
    );
    started.push(endpoints);
    expect(await get(endpoints.port, "/healthz")).toBe("200 ok");
    await workers[0].terminate();
    while (workers.length < 2) await new Promise((resolve) => setTimeout(resolve, 20));
    const again = (): Promise<string> => get(endpoints.port, "/healthz").catch(again);
    expect(await again()).toBe("200 ok");
    expect(await get(endpoints.port, "/metrics")).toBe("200 m 1\n");
    expect(warnings).toEqual([]);
  });

  it("metrics that cannot be made are a 503 and a warning, and no end of the broker", async () => {
    const warnings: string[] = [];
    const endpoints = await startHealthEndpoints(
      { host: "127.0.0.1", port: 0, livenessWindowMs: 10_000, watchdogBoundMs: 0 },
      new BrokerHealth(),
      systemClock,
      () => {
        throw new Error("a fault");
      },
      (message) => warnings.push(message),
    );
    started.push(endpoints);
    expect(await get(endpoints.port, "/metrics")).toBe("503 no event-loop progress");
    expect(warnings).toEqual(["metrics cannot be given: Error: a fault"]);
    expect(await get(endpoints.port, "/healthz")).toBe("200 ok");
  });

  it("a large text of metrics arrives whole, and so does the count of the unheard", async () => {
    const port = await start(new BrokerHealth(), {}, (shed) => `${"x".repeat(500_000)} ${shed}\n`);
    const answer = await get(port, "/metrics");
    expect(answer.length).toBe("200 ".length + 500_000 + " 0\n".length);
  });
});
