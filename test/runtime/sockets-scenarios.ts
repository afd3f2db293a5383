import * as assert from "node:assert/strict";
import type { Connection, ConnectionHandler, Listener, Network } from "../../src/runtime/sockets.ts";

/** The other end of a connection, whichever network it came through. */
export interface Peer {
  send(bytes: Uint8Array): void;
  end(): void;
  reset(): void;
  pause(): void;
  resume(): void;
  onReceive: (bytes: Uint8Array) => void;
  ended: boolean;
  closed: boolean;
}

export interface Place {
  createNetwork(report: (error: unknown) => void): Network;
  connect(network: Network, listener: Listener): Promise<Peer>;
}

export interface Scenario {
  readonly title: string;
  run(place: Place): Promise<void>;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Waits for something that must come; the deadline only turns a hang into a failure. */
async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + 30_000;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Byte `position` of a stream whose order and completeness can be checked. */
function patternAt(position: number): number {
  return (position * 31 + (position >>> 8) * 17 + (position >>> 16) * 7) & 0xff;
}

function fillPattern(buffer: Uint8Array, position: number): void {
  for (let index = 0; index < buffer.length; index++) buffer[index] = patternAt(position + index);
}

class PatternCheck {
  bytes = 0;
  wrongAt = -1;

  take(chunk: Uint8Array): void {
    for (let index = 0; index < chunk.length && this.wrongAt < 0; index++) {
      if (chunk[index] !== patternAt(this.bytes + index)) this.wrongAt = this.bytes + index;
    }
    this.bytes += chunk.length;
  }
}

/** Sends `total` bytes of the pattern out of one buffer that is refilled after each write, then calls `finished`. */
class PatternSender {
  sent = 0;
  shortWrites = 0;
  readonly #buffer = new Uint8Array(64 * 1024);
  readonly #total: number;
  readonly #finished: (connection: Connection) => void;

  constructor(total: number, finished: (connection: Connection) => void) {
    this.#total = total;
    this.#finished = finished;
  }

  pump(connection: Connection): void {
    while (this.sent < this.#total) {
      const length = Math.min(this.#buffer.length, this.#total - this.sent);
      fillPattern(this.#buffer.subarray(0, length), this.sent);
      const taken = connection.write(this.#buffer, 0, length);
      this.#buffer.fill(0xee);
      assert.ok(taken >= 0, `write returned ${taken}`);
      this.sent += taken;
      if (taken < length) {
        this.shortWrites++;
        return;
      }
    }
    this.#finished(connection);
  }
}

interface Events {
  opens: number;
  ends: number;
  closes: number;
  connections: Connection[];
}

const ignore: ConnectionHandler = { open() {}, data() {}, drain() {}, end() {}, close() {} };

async function serve(
  place: Place,
  handler: Partial<ConnectionHandler>,
): Promise<{ network: Network; listener: Listener; events: Events; errors: unknown[]; join(): Promise<Peer> }> {
  const errors: unknown[] = [];
  const network = place.createNetwork((error) => errors.push(error));
  const events: Events = { opens: 0, ends: 0, closes: 0, connections: [] };
  const full = { ...ignore, ...handler };
  const listener = await network.listen(
    { host: "127.0.0.1", port: 0 },
    {
      open(connection) {
        events.opens++;
        events.connections.push(connection);
        full.open(connection);
      },
      data: (connection, chunk) => full.data(connection, chunk),
      drain: (connection) => full.drain(connection),
      end(connection) {
        events.ends++;
        full.end(connection);
      },
      close(connection) {
        events.closes++;
        full.close(connection);
      },
    },
  );
  return { network, listener, events, errors, join: () => place.connect(network, listener) };
}

/** A few exchanges on a connection of its own: whatever was on its way to the process before has arrived after it. */
async function settle(place: Place): Promise<void> {
  const { listener, join } = await serve(place, echo);
  const peer = await join();
  let bytes = 0;
  peer.onReceive = (chunk) => {
    bytes += chunk.length;
  };
  for (let round = 1; round <= 20; round++) {
    peer.send(encoder.encode("x"));
    await until(() => bytes === round, "an echo");
  }
  listener.stop();
  peer.reset();
}

const echo: Partial<ConnectionHandler> = {
  data(connection, chunk) {
    assert.equal(connection.write(chunk, 0, chunk.length), chunk.length);
  },
};

export const scenarios: readonly Scenario[] = [
  {
    title: "echoes, with the port resolved and an address of the peer",
    async run(place) {
      const { listener, join, events } = await serve(place, echo);
      assert.ok(listener.port > 0 && listener.port < 65_536);
      assert.equal(listener.host, "127.0.0.1");
      const peer = await join();
      let text = "";
      peer.onReceive = (chunk) => {
        text += decoder.decode(chunk);
      };
      peer.send(encoder.encode("hello "));
      peer.send(encoder.encode("edge"));
      await until(() => text === "hello edge", "the echo");
      assert.match(events.connections[0].remoteAddress, /^[0-9]+\./);
      peer.reset();
      listener.stop();
    },
  },
  {
    title: "takes part of a write when the peer reads slowly, and goes on after drain, from a reused buffer",
    async run(place) {
      const total = 24 * 1024 * 1024;
      const sender = new PatternSender(total, () => {});
      const { listener, join, events } = await serve(place, {
        open: (connection) => sender.pump(connection),
        drain: (connection) => sender.pump(connection),
      });
      const peer = await join();
      const check = new PatternCheck();
      peer.onReceive = (chunk) => check.take(chunk);
      peer.pause();
      await until(() => events.opens === 1 && sender.shortWrites > 0, "a short write");
      assert.ok(sender.sent < total);
      peer.resume();
      await until(() => check.bytes === total, "all bytes");
      assert.equal(check.wrongAt, -1);
      peer.reset();
      listener.stop();
    },
  },
  {
    title: "refuses a write between a short one and drain",
    async run(place) {
      const outcomes: unknown[] = [];
      const { listener, join, errors, events } = await serve(place, {
        data(connection) {
          const block = new Uint8Array(1024 * 1024);
          while (connection.write(block, 0, block.length) === block.length);
          outcomes.push("short");
          connection.write(block, 0, 1);
          outcomes.push("not reached");
        },
      });
      const peer = await join();
      peer.pause();
      peer.send(encoder.encode("go"));
      await until(() => events.closes === 1, "close");
      assert.deepEqual(outcomes, ["short"]);
      assert.match(String(errors[0]), /written before drain/);
      listener.stop();
    },
  },
  {
    title: "calls no data while paused, from open on and again later, and loses nothing",
    async run(place) {
      const total = 4 * 1024 * 1024;
      const check = new PatternCheck();
      let calls = 0;
      const { listener, join, events } = await serve(place, {
        open: (connection) => connection.pause(),
        data(connection, chunk) {
          calls++;
          check.take(chunk);
          connection.pause();
        },
      });
      const peer = await join();
      const block = new Uint8Array(total);
      fillPattern(block, 0);
      peer.send(block);
      await until(() => events.opens === 1, "open");
      await settle(place);
      assert.equal(calls, 0);
      events.connections[0].resume();
      await until(() => calls === 1, "the first chunk");
      await settle(place);
      assert.equal(calls, 1);
      while (check.bytes < total) {
        const before: number = calls;
        events.connections[0].resume();
        await until(() => calls > before, "the next chunk");
        assert.equal(calls, before + 1);
      }
      assert.equal(check.bytes, total);
      assert.equal(check.wrongAt, -1);
      peer.reset();
      listener.stop();
    },
  },
  {
    title: "lets replies out after the peer's half-close",
    async run(place) {
      let request = "";
      const { listener, join, events } = await serve(place, {
        data(_connection, chunk) {
          request += decoder.decode(chunk);
        },
        end(connection) {
          // Later, as a reply that waits for a barrier would be.
          setTimeout(() => {
            const reply = encoder.encode(`reply to ${request}`);
            assert.equal(connection.write(reply, 0, reply.length), reply.length);
            connection.shutdown();
          }, 5);
        },
      });
      const peer = await join();
      let text = "";
      peer.onReceive = (chunk) => {
        text += decoder.decode(chunk);
      };
      peer.send(encoder.encode("question"));
      peer.end();
      await until(() => peer.ended, "the FIN");
      assert.equal(text, "reply to question");
      await until(() => events.closes === 1, "close");
      assert.equal(events.ends, 1);
      listener.stop();
    },
  },
  {
    title: "delivers 32 MiB before the FIN of shutdown, to a peer that reads late and has sent input nobody reads",
    async run(place) {
      const total = 32 * 1024 * 1024;
      const sender = new PatternSender(total, (connection) => connection.shutdown());
      const { listener, join, events } = await serve(place, {
        open: (connection) => sender.pump(connection),
        drain: (connection) => sender.pump(connection),
      });
      const peer = await join();
      const check = new PatternCheck();
      peer.onReceive = (chunk) => check.take(chunk);
      peer.pause();
      peer.send(new Uint8Array(100_000));
      await until(() => sender.shortWrites > 0, "a short write");
      peer.resume();
      await until(() => peer.ended, "the FIN");
      assert.equal(check.bytes, total);
      assert.equal(check.wrongAt, -1);
      assert.equal(events.closes, 0);
      assert.equal(events.connections[0].write(new Uint8Array(1), 0, 1), -1);
      peer.end();
      await until(() => events.closes === 1, "close");
      listener.stop();
    },
  },
  {
    title: "goes on reading between its shutdown and the peer's end",
    async run(place) {
      let text = "";
      const { listener, join, events } = await serve(place, {
        open: (connection) => connection.shutdown(),
        data(_connection, chunk) {
          text += decoder.decode(chunk);
        },
      });
      const peer = await join();
      await until(() => peer.ended, "the FIN");
      peer.send(encoder.encode("last words"));
      peer.end();
      await until(() => events.closes === 1, "close");
      assert.equal(text, "last words");
      assert.equal(events.ends, 1);
      listener.stop();
    },
  },
  {
    title: "calls close exactly once, last and never from within close() or terminate()",
    async run(place) {
      const endings: Record<string, (connection: Connection, peer: Peer) => void> = {
        close: (connection) => connection.close(),
        "close twice": (connection) => {
          connection.close();
          connection.close();
          connection.terminate();
        },
        terminate: (connection) => connection.terminate(),
        "terminate twice": (connection) => {
          connection.terminate();
          connection.terminate();
          connection.close();
        },
        "reset by the peer": (_connection, peer) => peer.reset(),
        "shutdown, then end": (connection, peer) => {
          connection.shutdown();
          peer.end();
        },
      };
      for (const [name, finish] of Object.entries(endings)) {
        const calls: string[] = [];
        const { listener, join, events } = await serve(place, {
          data: () => calls.push("data"),
          end: () => calls.push("end"),
          close: () => calls.push("close"),
        });
        const peer = await join();
        peer.send(encoder.encode("x"));
        await until(() => calls.length === 1, `data (${name})`);
        finish(events.connections[0], peer);
        assert.deepEqual(calls, ["data"], name);
        await until(() => events.closes > 0, `close (${name})`);
        peer.reset();
        await settle(place);
        assert.equal(events.closes, 1, name);
        assert.equal(calls.at(-1), "close", name);
        assert.equal(events.connections[0].write(new Uint8Array(1), 0, 1), -1, name);
        events.connections[0].pause();
        events.connections[0].resume();
        events.connections[0].shutdown();
        events.connections[0].close();
        events.connections[0].terminate();
        listener.stop();
      }
    },
  },
  {
    title: "terminates only the connection whose handler threw, whichever call it was, and reports the error",
    async run(place) {
      for (const culprit of ["open", "data", "drain", "end", "close"] as const) {
        let first = true;
        const victims = new Set<Connection>();
        const thrower = (call: string) => (connection: Connection) => {
          if (victims.has(connection) && call === culprit) throw new Error(`thrown in ${call}`);
        };
        const { listener, join, events, errors } = await serve(place, {
          open(connection) {
            if (first) victims.add(connection);
            first = false;
            thrower("open")(connection);
          },
          data(connection, chunk) {
            thrower("data")(connection);
            if (victims.has(connection) && culprit === "drain") {
              const block = new Uint8Array(1024 * 1024);
              while (connection.write(block, 0, block.length) === block.length);
            } else {
              connection.write(chunk, 0, chunk.length);
            }
          },
          drain: thrower("drain"),
          end: thrower("end"),
          close: thrower("close"),
        });
        // A reset right after the handshake can reach the peer before its own success does.
        const victim = await join().catch(() => undefined);
        await until(() => events.opens === 1, "open");
        const witness = await join();
        let echoed = 0;
        witness.onReceive = (chunk) => {
          echoed += chunk.length;
        };
        if (culprit === "drain") victim?.pause();
        victim?.send(encoder.encode("x"));
        if (culprit === "end") victim?.end();
        if (culprit === "drain") {
          await settle(place);
          victim?.resume();
        }
        if (culprit === "close") victim?.reset();
        await until(() => events.closes === 1, `close after a throw in ${culprit}`);
        assert.deepEqual(errors.map(String), [`Error: thrown in ${culprit}`]);
        witness.send(encoder.encode("still here"));
        await until(() => echoed === 10, "the echo");
        assert.equal(events.closes, 1);
        witness.reset();
        listener.stop();
      }
    },
  },
  {
    title: "rejects with EADDRINUSE for a port that is taken",
    async run(place) {
      const { listener, network } = await serve(place, {});
      await assert.rejects(network.listen({ host: "127.0.0.1", port: listener.port }, ignore), { code: "EADDRINUSE" });
      listener.stop();
      const again = await network.listen({ host: "127.0.0.1", port: listener.port }, ignore);
      assert.equal(again.port, listener.port);
      again.stop();
    },
  },
  {
    title: "stops accepting while established connections live on",
    async run(place) {
      const { listener, join, events } = await serve(place, echo);
      const peer = await join();
      await until(() => events.opens === 1, "open");
      listener.stop();
      await assert.rejects(join());
      let bytes = 0;
      peer.onReceive = (chunk) => {
        bytes += chunk.length;
      };
      peer.send(encoder.encode("abc"));
      await until(() => bytes === 3, "the echo");
      peer.reset();
      await until(() => events.closes === 1, "close");
    },
  },
  {
    title: "notices a reset while paused",
    async run(place) {
      const { listener, join, events } = await serve(place, { open: (connection) => connection.pause() });
      const peer = await join();
      await until(() => events.opens === 1, "open");
      peer.reset();
      await until(() => events.closes === 1, "close");
      listener.stop();
    },
  },
];
