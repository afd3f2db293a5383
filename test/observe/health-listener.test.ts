import { describe, expect, it } from "vitest";
import { HealthListener } from "../../src/observe/health-listener.ts";
import type { HealthState } from "../../src/observe/shared-health.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { type MemoryEndpoint, MemoryNetwork } from "../../src/runtime/sockets-memory.ts";
import { Turns } from "../../src/runtime/turns.ts";

const WELL: HealthState = { draining: false, frozen: false, stopped: false, wedged: false };

class HealthWorld {
  readonly turns = new Turns("manual");
  readonly clock = new SimulatedClock();
  readonly network: MemoryNetwork;
  readonly listener: HealthListener;
  state: HealthState = WELL;
  progressing = true;
  /** What a scrape is answered with; undefined: never. */
  metrics: string | undefined = "m 1\n";
  errors: unknown[] = [];

  constructor(windowBytes?: number) {
    this.network = new MemoryNetwork({ turns: this.turns, windowBytes, report: (error) => this.errors.push(error) });
    const world = this;
    this.listener = new HealthListener(this.clock, {
      get state() {
        return world.state;
      },
      get progressing() {
        return world.progressing;
      },
      scrape: (done) => {
        const { metrics } = world;
        if (metrics !== undefined) this.turns.add(() => done(metrics));
      },
    });
    void this.network.listen({ host: "127.0.0.1", port: 9 }, this.listener);
  }

  connect(): MemoryEndpoint {
    return this.network.connect({ port: 9 });
  }

  settle(): void {
    this.turns.runAll();
    expect(this.errors).toEqual([]);
  }

  advance(durationMs: number): void {
    this.settle();
    this.clock.advance(durationMs);
    this.settle();
  }

  /** The whole answer to what one connection sends. */
  ask(request: string | Uint8Array): string {
    const peer = this.connect();
    peer.send(typeof request === "string" ? Buffer.from(request, "latin1") : request);
    this.settle();
    const answer = Buffer.from(peer.take()).toString();
    expect(peer.ended, "the server sends a FIN after its answer").toBe(true);
    peer.end();
    this.settle();
    expect(peer.closed).toBe(true);
    return answer;
  }

  body(request: string): string {
    const [head, body] = this.ask(request).split("\r\n\r\n");
    return `${head.split(" ")[1]} ${body}`;
  }
}

describe("requests", () => {
  it("observability.md 13.1: the answer is exact", () => {
    expect(new HealthWorld().ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")).toBe(
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
    );
  });

  it("observability.md 13.2 and 13.37: paths are exact, a query is dropped", () => {
    const world = new HealthWorld();
    expect(world.body("GET /readyz HTTP/1.1\r\n\r\n")).toBe("200 ready");
    expect(world.body("GET /readyz?x=1 HTTP/1.1\r\n\r\n")).toBe("200 ready");
    for (const path of ["/readyz/", "/Healthz", "/", "/admin", "", "readyz"]) {
      expect(world.body(`GET ${path} HTTP/1.1\r\n\r\n`), path).toBe("404 unknown endpoint");
    }
    expect(world.ask("GET /nope\n")).toMatch(/^HTTP\/1\.1 404 Not Found\r\n/);
  });

  it("observability.md 13.3: the method comes before the path", () => {
    const world = new HealthWorld();
    for (const line of ["POST /healthz", "HEAD /metrics", "get /healthz", "POST /nope", "", "   "]) {
      expect(world.body(`${line}\r\n\r\n`), line).toBe("405 only GET is supported");
    }
    expect(world.ask("PUT /healthz\n")).toMatch(/^HTTP\/1\.1 405 Method Not Allowed\r\n/);
  });

  it("observability.md 13.4: a line that does not end is 414", () => {
    const world = new HealthWorld();
    expect(world.ask(`GET /${"a".repeat(8187)}`)).toMatch(
      /^HTTP\/1\.1 414 URI Too Long\r\n[\s\S]*\r\n\r\nrequest line too long$/,
    );
    expect(world.ask("x".repeat(1_000_000))).toMatch(/^HTTP\/1\.1 414 /);
    // One byte less leaves room for the newline.
    expect(world.body(`GET /${"a".repeat(8186)}\n`)).toBe("404 unknown endpoint");
  });

  it("observability.md 13.4: a line that dribbles in is 408, silence is just closed", () => {
    const world = new HealthWorld();
    const slow = world.connect();
    const silent = world.connect();
    for (let second = 0; second < 5; second++) {
      slow.send(Buffer.from("8 bytes "));
      world.advance(999);
      expect(world.body("GET /healthz\n")).toBe("200 ok");
      expect([slow.ended, silent.ended]).toEqual([false, false]);
    }
    world.advance(10);
    expect(Buffer.from(slow.take()).toString()).toMatch(
      /^HTTP\/1\.1 408 Request Timeout\r\n[\s\S]*\r\n\r\nrequest line not received in time$/,
    );
    expect(silent.take().length).toBe(0);
    expect(silent.closed).toBe(true);
  });

  it("observability.md 13.5: a line in two pieces is answered, without waiting for more", () => {
    const world = new HealthWorld();
    const peer = world.connect();
    peer.send(Buffer.from("GET /hea"));
    world.advance(200);
    expect(peer.take().length).toBe(0);
    peer.send(Buffer.from("lthz\n"));
    world.settle();
    expect(Buffer.from(peer.take()).toString()).toMatch(/ok$/);
  });

  it("observability.md 13.6: bytes that are no text are answered", () => {
    const world = new HealthWorld();
    expect(world.ask(new Uint8Array([0xff, 0xfe, 0x80, 0x0a]))).toMatch(/^HTTP\/1\.1 405 /);
    expect(world.ask(Buffer.concat([Buffer.from("GET /"), Buffer.from([0xff, 0x80, 0x0a])]))).toMatch(/ 404 /);
  });

  it("an end before a whole line is closed without an answer, one behind it is answered", () => {
    const world = new HealthWorld();
    const cut = world.connect();
    cut.send(Buffer.from("GET /healthz"));
    cut.end();
    const whole = world.connect();
    whole.send(Buffer.from("GET /healthz\n"));
    whole.end();
    world.settle();
    expect([cut.take().length, cut.closed]).toEqual([0, true]);
    expect(Buffer.from(whole.take()).toString()).toMatch(/ok$/);
    expect(whole.closed).toBe(true);
  });

  it("observability.md 13.7: the 33rd connection at once is closed unheard and counted", () => {
    const world = new HealthWorld();
    const peers = Array.from({ length: 40 }, () => world.connect());
    world.settle();
    expect(peers.map(({ ended }) => ended)).toEqual(peers.map((_, index) => index >= 32));
    expect(world.listener.shed).toBe(8);
    for (const peer of peers) peer.reset();
    world.settle();
    expect(world.body("GET /healthz\n")).toBe("200 ok");
    expect(world.listener.shed).toBe(8);
  });

  it("a peer that does not read its answer is cut off after five seconds", () => {
    const world = new HealthWorld(100);
    world.metrics = "x".repeat(10_000);
    const peer = world.connect();
    peer.pauseReading();
    peer.send(Buffer.from("GET /metrics\n"));
    world.advance(4_900);
    expect(peer.ended || peer.closed).toBe(false);
    world.advance(200);
    peer.resumeReading();
    world.settle();
    expect(peer.closed).toBe(true);
    expect(peer.take().length).toBeLessThan(200);
  });

  it("an answer larger than the socket takes arrives whole", () => {
    const world = new HealthWorld(100);
    world.metrics = "x".repeat(10_000);
    expect(world.ask("GET /metrics\n")).toMatch(/\r\n\r\nx{10000}$/);
  });

  it("a peer that never closes is closed soon after its answer", () => {
    const world = new HealthWorld();
    const peer = world.connect();
    peer.send(Buffer.from("GET /healthz\n"));
    world.settle();
    expect([peer.ended, peer.closed]).toEqual([true, false]);
    world.advance(600);
    peer.send(Buffer.from("more"));
    world.settle();
    expect(peer.closed).toBe(true);
  });
});

describe("answers", () => {
  const probe = (state: Partial<HealthState>, progressing = true) => {
    const world = new HealthWorld();
    world.state = { ...WELL, ...state };
    world.progressing = progressing;
    return [world.body("GET /healthz\n"), world.body("GET /readyz\n")];
  };

  it.each([
    [{}, "200 ok", "200 ready"],
    [{ frozen: true }, "200 ok", "503 writer frozen"],
    [{ wedged: true }, "503 append actor wedged", "503 append actor wedged"],
    [{ wedged: true, frozen: true }, "503 append actor wedged", "503 append actor wedged"],
    [{ stopped: true }, "503 append actor gone", "503 append actor gone"],
    [{ draining: true }, "200 ok", "503 draining"],
    [{ draining: true, stopped: true, frozen: true }, "200 ok", "503 draining"],
  ])("observability.md 1.3: %j", (state, healthz, readyz) => {
    expect(probe(state)).toEqual([healthz, readyz]);
  });

  it("observability.md 13.11: no progress comes before everything else, for liveness", () => {
    expect(probe({ wedged: true, stopped: true }, false)[0]).toBe("503 no event-loop progress");
    expect(probe({}, false)).toEqual(["503 no event-loop progress", "200 ready"]);
  });

  it("metrics come from the broker, or in time a 503", () => {
    const world = new HealthWorld();
    expect(world.ask("GET /metrics\n")).toBe(
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 4\r\nConnection: close\r\n\r\nm 1\n",
    );
    world.metrics = undefined;
    const peer = world.connect();
    peer.send(Buffer.from("GET /metrics\n"));
    world.advance(2_900);
    expect(peer.take().length).toBe(0);
    world.advance(200);
    expect(Buffer.from(peer.take()).toString()).toMatch(/^HTTP\/1\.1 503 [\s\S]*no event-loop progress$/);
    world.state = { ...WELL, stopped: true, draining: true };
    expect(world.body("GET /metrics\n")).toBe("503 shutting down");
  });
});
