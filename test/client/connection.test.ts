import { createServer } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import {
  BrokerError,
  type Client,
  ConnectError,
  ConnectionClosedError,
  type ConnectOptions,
  connect,
  ProtocolError,
  TimeoutError,
} from "../../src/client/index.ts";
import { Tag } from "../../src/wire/tags.ts";
import { answer, empty, errorFrame, FakeBroker, frame, type Handler, info, pubAck, until } from "./fake-broker.ts";

let broker: FakeBroker | undefined;
let client: Client | undefined;

afterEach(async () => {
  await broker?.[Symbol.asyncDispose]();
  await client?.close();
  broker = undefined;
  client = undefined;
});

describe.each(["auto", "node"] as const)("connection, %s sockets", (sockets) => {
  async function start(
    handler?: Handler,
    options: ConnectOptions = {},
  ): Promise<{ client: Client; broker: FakeBroker }> {
    broker = await FakeBroker.start(handler);
    client = await connect({ ...options, port: broker.port, sockets });
    return { client, broker };
  }

  describe("handshake", () => {
    it("wire.md 4.1: asks for gap markers and nothing else", async () => {
      broker = await FakeBroker.start();
      let connectBody = "";
      broker.onConnect = (peer, body) => {
        connectBody = Buffer.from(body).toString("hex");
        peer.send(info(100, 0n));
      };
      client = await connect(`127.0.0.1:${broker.port}`, { sockets });
      expect(connectBody).toBe("010d0004000000000000000000000000");
      expect(client.limits).toEqual({ credit: 100, creditBytes: 0 });
      await client.close();
      client = await connect({ port: broker.port, sockets, credit: 10, creditBytes: 2 ** 40 });
      expect(connectBody).toBe("010d00070a0000000000000000010000");
    });

    it("wire.md 4.2: takes the empty Info of an old broker", async () => {
      broker = await FakeBroker.start();
      broker.onConnect = (peer) => peer.send(frame(Tag.Info));
      client = await connect({ port: broker.port, sockets });
      expect(client.limits).toEqual({ credit: undefined, creditBytes: undefined });
    });

    it("reads an Info that comes byte by byte", async () => {
      broker = await FakeBroker.start();
      broker.onConnect = (peer) => void peer.trickle(info(7));
      client = await connect({ port: broker.port, sockets });
      expect(client.limits.credit).toBe(7);
    });

    it("rejects with the broker's refusal and closes", async () => {
      broker = await FakeBroker.start();
      broker.onConnect = (peer) => peer.send(errorFrame("", "Authorization Violation"));
      const closed = new Promise<void>((resolve) => {
        const ask = setInterval(() => {
          if (broker!.peers[0]?.socket.readableEnded || broker!.peers[0]?.socket.destroyed) {
            clearInterval(ask);
            resolve();
          }
        }, 1);
      });
      const refused = await connect({ port: broker.port, sockets }).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(BrokerError);
      expect((refused as BrokerError).message).toBe("Authorization Violation");
      await closed;
    });

    it.each([
      { what: "a close without a word", act: "close", type: ConnectionClosedError },
      { what: "another frame", act: "pong", type: ProtocolError },
      { what: "an Info of another version", act: "version", type: ProtocolError },
      { what: "silence", act: "silence", type: TimeoutError },
    ])("rejects on $what", async ({ act, type }) => {
      broker = await FakeBroker.start();
      broker.onConnect = (peer) => {
        if (act === "close") peer.socket.end();
        else if (act === "pong") peer.send(empty(Tag.Pong));
        else if (act === "version") peer.send(frame(Tag.Info, Uint8Array.of(2, 0, 0)));
      };
      const connecting = connect({ port: broker.port, sockets, connectTimeoutMs: act === "silence" ? 30 : 10_000 });
      await expect(connecting).rejects.toBeInstanceOf(type);
    });

    it.each([
      {
        what: "words",
        bytes: Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"),
        detail: "frame length 1347703880 exceeds",
      },
      { what: "an empty frame", bytes: Buffer.alloc(4), detail: "frame length prefix is zero" },
      { what: "another frame", bytes: empty(Tag.Pong), detail: "Pong as the reply to a connect" },
    ])("says that the other side is no broker on $what", async ({ bytes, detail }) => {
      broker = await FakeBroker.start();
      broker.onConnect = (peer) => peer.send(bytes);
      const refused = await connect({ port: broker.port, sockets }).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(ProtocolError);
      expect((refused as ProtocolError).message).toMatch(/^the other side does not speak the IronBus protocol: /);
      expect((refused as ProtocolError).message).toContain(detail);
    });

    it("does not say so of a broker of another version", async () => {
      broker = await FakeBroker.start();
      broker.onConnect = (peer) => peer.send(frame(Tag.Info, Uint8Array.of(2, 0, 0)));
      const connecting = connect({ port: broker.port, sockets });
      await expect(connecting).rejects.toThrow(/^unknown handshake body version 2$/);
    });

    it("says of silence that the connection was made", async () => {
      broker = await FakeBroker.start();
      broker.onConnect = () => undefined;
      const connecting = connect({ port: broker.port, sockets, connectTimeoutMs: 1_000 });
      await expect(connecting).rejects.toThrow(
        `the connection to 127.0.0.1:${broker.port} was made, but nothing answered within 1000 ms`,
      );
    });

    it("rejects with ConnectError where nobody listens", async () => {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as { port: number };
      await new Promise((resolve) => server.close(resolve));
      const failed = await connect({ port, sockets }).catch((error: unknown) => error);
      expect(failed).toBeInstanceOf(ConnectError);
      expect((failed as ConnectError).message).toContain(`cannot connect to 127.0.0.1:${port}`);
      expect((failed as ConnectError).code).toBe("CONNECT_FAILED");
    });

    it("rejects with the signal's reason, before and during", async () => {
      broker = await FakeBroker.start();
      broker.onConnect = () => undefined;
      const port = broker.port;
      const early = connect({ port, sockets, signal: AbortSignal.abort("early") });
      await expect(early).rejects.toBe("early");
      expect(broker.peers.length).toBe(0);
      const control = new AbortController();
      const late = connect({ port, sockets, signal: control.signal });
      late.catch(() => undefined);
      await until(() => broker!.peers.length === 1, "the connection");
      control.abort("late");
      await expect(late).rejects.toBe("late");
    });
  });

  describe("replies", () => {
    it("pairs replies that come byte by byte", async () => {
      const { client } = await start((_, peer) => {
        if (peer.requests.length < 4) return;
        void peer.trickle(pubAck(70_000), empty(Tag.Pong), errorFrame("", "produce failed"), pubAck(2 ** 40));
      });
      const results = await Promise.allSettled([
        client.produce("a"),
        client.ping(),
        client.produce("b"),
        client.produce("c"),
      ]);
      expect(results.map((result) => result.status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
      expect((results[3] as PromiseFulfilledResult<number>).value).toBe(2 ** 40);
    });

    it("wire.md 19: a reply that nobody is owed ends the connection", async () => {
      const { client, broker } = await start();
      await client.ping();
      broker.peer.send(empty(Tag.Pong));
      await until(() => !client.connected, "the end of the connection");
      expect(client.failure).toBeInstanceOf(ProtocolError);
      expect(client.failure?.message).toBe("Pong although no reply is owed");
    });

    it("rejects everything owed, in order, when the broker closes", async () => {
      const { client } = await start((_, peer) => {
        if (peer.requests.length === 3) {
          peer.send(pubAck(0));
          peer.socket.end();
        }
      });
      const results = await Promise.allSettled([client.produce("a"), client.produce("b"), client.ping()]);
      expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "rejected"]);
      expect((results[1] as PromiseRejectedResult).reason).toBeInstanceOf(ConnectionClosedError);
    });
  });

  describe("time", () => {
    it("wire.md 19: gives the connection up when a reply does not come in time", async () => {
      const { client } = await start(() => undefined, { readTimeoutMs: 60 });
      const [first, second] = await Promise.allSettled([client.produce("a"), client.ping()]);
      expect((first as PromiseRejectedResult).reason).toBeInstanceOf(TimeoutError);
      expect((second as PromiseRejectedResult).reason).toBeInstanceOf(TimeoutError);
      expect(client.connected).toBe(false);
    });

    it("does not mind silence while nothing is owed", async () => {
      const { client } = await start(undefined, { readTimeoutMs: 40, keepAliveMs: 0 });
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(client.connected).toBe(true);
      await client.ping();
    });

    it("does not give up while replies keep coming", async () => {
      const { client } = await start(
        (_, peer) => {
          if (peer.requests.length === 8) {
            const slowly = setInterval(() => {
              peer.send(pubAck(peer.nextOffset++));
              if (peer.nextOffset === 8) clearInterval(slowly);
            }, 60);
          }
        },
        { readTimeoutMs: 400 },
      );
      const offsets = await Promise.all(Array.from({ length: 8 }, () => client.produce("x")));
      expect(offsets).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    });

    it("does not blame the broker for a program that was busy", async () => {
      const { client } = await start(undefined, { readTimeoutMs: 200 });
      const reply = client.ping();
      await new Promise((resolve) => setImmediate(resolve));
      const end = performance.now() + 600;
      while (performance.now() < end) Math.sqrt(end);
      await reply;
      expect(client.connected).toBe(true);
    });

    it("wire.md 19: gives the connection up when nothing can be sent for too long", async () => {
      const { client, broker } = await start(undefined, { writeTimeoutMs: 80, readTimeoutMs: 0 });
      await client.ping();
      broker.peer.socket.pause();
      const payload = new Uint8Array(16 * 1024 * 1024);
      const stuck = await client.produce(payload).catch((error: unknown) => error);
      expect(stuck).toBeInstanceOf(TimeoutError);
      expect((stuck as Error).message).toContain("could be sent");
    });

    it("wire.md 22.73: pings when idle, so that the broker does not hang up", async () => {
      const { client, broker } = await start(undefined, { keepAliveMs: 20 });
      await until(() => broker.tags.length >= 3, "three pings");
      expect(new Set(broker.tags)).toEqual(new Set([Tag.Ping]));
      expect(client.connected).toBe(true);
    });
  });

  describe("abort", () => {
    it("before the call sends nothing and keeps the connection", async () => {
      const { client, broker } = await start();
      const signal = AbortSignal.abort("never mind");
      const calls = [
        client.produce("x", { signal }),
        client.fetch({ signal }),
        client.subscribe("g", { signal }),
        client.unsubscribe({ signal }),
        client.ping({ signal }),
      ];
      for (const result of await Promise.allSettled(calls)) {
        expect((result as PromiseRejectedResult).reason).toBe("never mind");
      }
      await client.ping();
      expect(broker.tags).toEqual([Tag.Ping]);
      expect(client.group).toBe("");
    });

    it("wire.md 19: during the call rejects with the reason and closes the connection", async () => {
      const { client } = await start(() => undefined);
      const control = new AbortController();
      const aborted = client.produce("x", { signal: control.signal }).catch((error: unknown) => error);
      const other = client.ping().catch((error: unknown) => error);
      control.abort("enough");
      expect(await aborted).toBe("enough");
      expect(await other).toBeInstanceOf(ConnectionClosedError);
      expect((await other) as Error).toHaveProperty("cause", "enough");
      expect(client.connected).toBe(false);
    });

    it("after the call has no effect", async () => {
      const { client } = await start();
      const control = new AbortController();
      await client.produce("x", { signal: control.signal });
      control.abort();
      await client.ping();
      expect(client.connected).toBe(true);
    });

    it("takes AbortSignal.timeout as a time limit of one call", async () => {
      const { client } = await start(() => undefined);
      const late = await client.ping({ signal: AbortSignal.timeout(20) }).catch((error: unknown) => error);
      expect((late as Error).name).toBe("TimeoutError");
    });
  });

  describe("close and reconnect", () => {
    it("waits for the replies that are owed, takes no new calls, and leaves with a FIN", async () => {
      const { client, broker } = await start((request, peer) => {
        setTimeout(() => answer(request, peer), 30);
      });
      const published = client.produce("x");
      const closing = client.close();
      await expect(client.produce("y")).rejects.toBeInstanceOf(ConnectionClosedError);
      expect(client.connected).toBe(false);
      expect(await published).toBe(0);
      await closing;
      await until(() => broker.peer.socket.readableEnded, "the FIN");
      expect(broker.tags).toEqual([Tag.Pub]);
      await client.close();
    });

    it("closes at the end of an await using", async () => {
      broker = await FakeBroker.start();
      {
        await using scoped = await connect({ port: broker.port, sockets });
        expect(await scoped.produce("x")).toBe(0);
      }
      await until(() => broker!.peer.socket.readableEnded, "the FIN");
    });

    it("closes although the broker never answers, once the read timeout is over", async () => {
      const { client } = await start(() => undefined, { readTimeoutMs: 40 });
      const lost = client.ping().catch((error: unknown) => error);
      await client.close();
      expect(await lost).toBeInstanceOf(TimeoutError);
    });

    it("reconnects when told to, to the same group, and sends nothing again", async () => {
      const { client, broker } = await start((request, peer) => {
        if (request.tag === Tag.Pub && broker!.peers.length === 1) peer.socket.destroy();
        else answer(request, peer);
      });
      await client.subscribe("workers");
      await expect(client.produce("lost")).rejects.toBeInstanceOf(ConnectionClosedError);
      await expect(client.produce("also refused")).rejects.toBeInstanceOf(ConnectionClosedError);
      expect(broker.peers.length).toBe(1);
      await client.reconnect();
      expect(client.connected).toBe(true);
      expect(await client.produce("new")).toBe(0);
      expect(broker.peers[1].requests.map((request) => request.tag)).toEqual([Tag.Sub, Tag.Pub]);
      expect(Buffer.from(broker.peers[1].requests[0].body).toString()).toBe("workers");
    });

    it("can reconnect again after a reconnect that failed", async () => {
      const { client, broker } = await start();
      broker.onConnect = (peer) => peer.send(errorFrame("", "not now"));
      await expect(client.reconnect()).rejects.toBeInstanceOf(BrokerError);
      expect(client.connected).toBe(false);
      broker.onConnect = (peer) => peer.send(info());
      await client.reconnect();
      await client.ping();
      expect(client.connected).toBe(true);
    });
  });
});
