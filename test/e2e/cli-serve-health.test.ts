import { existsSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { cleanUp, run, TestBroker, temporaryDirectory } from "./harness.ts";

afterEach(cleanUp);

const HEALTH_LINE = /^ironbus health endpoints on (\S+) \(\/healthz, \/readyz, \/metrics\)$/m;

interface HealthyBroker {
  readonly broker: TestBroker;
  readonly port: number;
}

async function start(flags: readonly string[] = []): Promise<HealthyBroker> {
  const broker = await TestBroker.start(["--health-addr", "127.0.0.1:0", ...flags]);
  await broker.process.until(({ stdout }) => HEALTH_LINE.test(String(stdout)));
  const address = HEALTH_LINE.exec(String(broker.process.stdout))?.[1] ?? "";
  return { broker, port: Number(address.split(":")[1]) };
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port }, () => resolve(socket));
    socket.once("error", reject);
  });
}

/** Everything that arrives until the other side ends. */
function answerOn(socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
    });
    socket.once("end", () => resolve(text));
    socket.once("close", () => resolve(text));
    socket.once("error", reject);
  });
}

async function ask(port: number, request: string | Uint8Array): Promise<string> {
  const socket = await open(port);
  const answer = answerOn(socket);
  socket.write(request);
  return await answer;
}

/** Status and body. */
async function get(port: number, path: string): Promise<string> {
  const [head, body] = (await ask(port, `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)).split("\r\n\r\n");
  return `${head.split(" ")[1]} ${body}`;
}

async function metric(port: number, series: string): Promise<number> {
  const line = (await get(port, "/metrics")).split("\n").find((text) => text.startsWith(`ironbus_${series} `));
  return Number(line?.split(" ")[1]);
}

/** Asks again until the answer is the one, also when one too many is hung up on; the test's time limit is the safety net. */
async function until(port: number, path: string, wanted: string): Promise<void> {
  while ((await get(port, path).catch((error: Error) => error.message)) !== wanted)
    await new Promise((resolve) => setTimeout(resolve, 20));
}

describe("serve --health-addr", () => {
  it("cli.md 13.27, observability.md 13.1, 13.2 and 13.37: probes of an idle broker", async () => {
    const { port } = await start();
    expect(await ask(port, "GET /healthz HTTP/1.1\r\n\r\n")).toBe(
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
    );
    expect(await get(port, "/readyz")).toBe("200 ready");
    expect(await get(port, "/readyz?x=1")).toBe("200 ready");
    expect(await get(port, "/readyz/")).toBe("404 unknown endpoint");
    expect(await get(port, "/admin")).toBe("404 unknown endpoint");
    // What monitors really use.
    const response = await fetch(`http://127.0.0.1:${port}/healthz`);
    expect([response.status, await response.text()]).toEqual([200, "ok"]);
  });

  it("observability.md 13.3 to 13.6: other methods, long lines, pieces, bytes that are no text", async () => {
    const { broker, port } = await start();
    for (const line of ["POST /healthz HTTP/1.1", "HEAD /metrics HTTP/1.1", "get /healthz HTTP/1.1", "POST /nope"]) {
      expect(await ask(port, `${line}\r\n\r\n`)).toMatch(/^HTTP\/1\.1 405 [\s\S]*only GET is supported$/);
    }
    expect(await ask(port, "a".repeat(8192))).toMatch(/^HTTP\/1\.1 414 [\s\S]*request line too long$/);
    const pieces = await open(port);
    const answer = answerOn(pieces);
    pieces.write("GET /hea");
    await new Promise((resolve) => setTimeout(resolve, 200));
    pieces.write("lthz\n");
    expect(await answer).toMatch(/ok$/);
    expect(await ask(port, new Uint8Array([0xff, 0xfe, 0x80, 0x0a]))).toMatch(/^HTTP\/1\.1 40[45] /);
    expect(await broker.text("pub", ["m"])).toBe("0\n");
  });

  it("observability.md 13.4 and 13.7: held connections are bounded and wire traffic goes on", async () => {
    const { broker, port } = await start();
    const held = await Promise.all(Array.from({ length: 40 }, () => open(port)));
    const closed = held.map((socket) => {
      const state = { closed: false };
      socket.once("close", () => {
        state.closed = true;
      });
      socket.on("error", () => {});
      socket.resume();
      return state;
    });
    while (closed.filter((state) => state.closed).length < 8) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(closed.filter((state) => state.closed).length).toBe(8);
    expect(await broker.text("pub", ["m"])).toBe("0\n");
    for (const socket of held) socket.destroy();
    await until(port, "/healthz", "200 ok");
    expect(await metric(port, 'health_shed_total{reason="at_cap"}')).toBeGreaterThanOrEqual(8);
    expect(await metric(port, "produced_total")).toBe(1);
  });

  it("cli.md 13.38, observability.md 13.8: beyond this machine only with consent, which is loud", async () => {
    const dataDir = join(temporaryDirectory(), "data");
    const flags = ["serve", "--data-dir", dataDir, "--addr", "127.0.0.1:0", "--health-addr", "0.0.0.0:0"];
    const refused = await run(flags);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain("refusing to bind `--health-addr` 0.0.0.0:0");
    expect(existsSync(dataDir)).toBe(false);
    const broker = await TestBroker.start(["--health-addr", "0.0.0.0:0", "--health-allow-public"]);
    await broker.process.until(({ stdout }) => HEALTH_LINE.test(String(stdout)));
    const lines = String(broker.process.stdout).split("\n");
    expect(lines[1]).toMatch(/^WARN: --health-allow-public: health and metrics are served on 0\.0\.0\.0:\d+ without/);
    expect(lines[2]).toMatch(HEALTH_LINE);
  });

  it("a health port in use is 70 and leaves the directory free", async () => {
    const { port } = await start();
    const dataDir = join(temporaryDirectory(), "data");
    const flags = ["serve", "--data-dir", dataDir, "--addr", "127.0.0.1:0", "--health-addr", `127.0.0.1:${port}`];
    const result = await run(flags);
    expect(result.code).toBe(70);
    expect(result.stderr).toContain(`cannot bind 127.0.0.1:${port}: the address is in use by another program`);
    expect(result.stderr).toContain("--health-addr");
    expect(result.stdout.length).toBe(0);
    await TestBroker.start([], dataDir);
  });

  it("observability.md 13.9: a frozen writer is live and not ready", async () => {
    const { broker, port } = await start();
    await broker.text("pub", ["m"]);
    expect(await metric(port, "writer_healthy")).toBe(1);
    rmSync(broker.dataDir, { recursive: true });
    await until(port, "/readyz", "503 writer frozen");
    expect(await get(port, "/healthz")).toBe("200 ok");
    expect(await metric(port, "writer_healthy")).toBe(0);
  });

  it("observability.md 13.12: while it drains, a broker is live and not ready, to the end", async () => {
    const { broker, port } = await start();
    const [host, wirePort] = broker.address.split(":");
    // A peer that does not close holds the drain up for a moment.
    const silent = connect({ host, port: Number(wirePort), allowHalfOpen: true });
    silent.on("error", () => {});
    await new Promise((resolve) => silent.once("connect", resolve));
    await broker.text("pub", ["m"]);
    const stopped = broker.stop();
    await until(port, "/readyz", "503 draining");
    expect(await get(port, "/healthz")).toBe("200 ok");
    const result = await stopped;
    silent.destroy();
    expect(result.code).toBe(0);
  });

  it("observability.md 13.30: a restart goes on counting", async () => {
    const first = await start();
    await first.broker.text("pub", ["m"]);
    await first.broker.stop();
    const broker = await first.broker.restart(["--health-addr", "127.0.0.1:0"]);
    await broker.process.until(({ stdout }) => HEALTH_LINE.test(String(stdout)));
    const port = Number(HEALTH_LINE.exec(String(broker.process.stdout))?.[1].split(":")[1]);
    expect(await metric(port, "produced_total")).toBe(1);
    expect(await metric(port, 'recovery_runs_total{outcome="clean"}')).toBe(2);
  });

  it("wire and health on one port are refused", async () => {
    const result = await run([
      "serve",
      "--data-dir",
      "d",
      "--addr",
      "127.0.0.1:7001",
      "--health-addr",
      "127.0.0.1:7001",
    ]);
    expect(result.code).toBe(1);
    expect(result.stderr).toContain("`--addr` and `--health-addr` use the same port 7001");
  });
});
