import { createServer, type Server, type Socket } from "node:net";
import { encodeInfo } from "../../src/wire/connect.ts";
import { FrameSplitter } from "../../src/wire/envelope.ts";
import { codedErrFrame, type ErrorCode } from "../../src/wire/error-body.ts";
import {
  writeAckStatus,
  writeDeliverHeader,
  writeEmpty,
  writeFlowEnd,
  writeFrameHeader,
  writePubAck,
  writeU16,
  writeU64Exact,
} from "../../src/wire/hot.ts";
import { Tag } from "../../src/wire/tags.ts";
import { Writer } from "../../src/wire/writer.ts";

export interface Request {
  readonly tag: number;
  readonly body: Uint8Array;
}

/** The other side of one client connection. */
export class Peer {
  readonly socket: Socket;
  /** Everything received on this connection after the handshake, in order. */
  readonly requests: Request[] = [];
  nextOffset = 0;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  send(...frames: Uint8Array[]): void {
    this.socket.write(Buffer.concat(frames));
  }

  /** One write per byte, each in its own turn of the loop. */
  async trickle(...frames: Uint8Array[]): Promise<void> {
    this.socket.setNoDelay(true);
    for (const byte of Buffer.concat(frames)) {
      this.socket.write(Buffer.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

export type Handler = (request: Request, peer: Peer) => void;

/** A scripted broker: answers the handshake, leaves every other frame to the handler. */
export class FakeBroker implements AsyncDisposable {
  readonly peers: Peer[] = [];
  /** Answers Connect; replace it for tests of the handshake. */
  onConnect: (peer: Peer, body: Uint8Array) => void = (peer) => peer.send(info());
  port = 0;
  readonly #server: Server;
  readonly #handler: Handler;

  private constructor(handler: Handler) {
    this.#handler = handler;
    this.#server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
  }

  static async start(handler: Handler = answer): Promise<FakeBroker> {
    const broker = new FakeBroker(handler);
    await new Promise<void>((resolve) => broker.#server.listen(0, "127.0.0.1", resolve));
    broker.port = (broker.#server.address() as { port: number }).port;
    return broker;
  }

  get peer(): Peer {
    return this.peers[this.peers.length - 1];
  }

  /** Tags of everything received after the handshake, over all connections. */
  get tags(): number[] {
    return this.peers.flatMap((peer) => peer.requests.map((request) => request.tag));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const peer of this.peers) peer.socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(socket: Socket): void {
    const peer = new Peer(socket);
    this.peers.push(peer);
    const splitter = new FrameSplitter();
    socket.on("error", () => undefined);
    socket.on("data", (chunk: Uint8Array) => {
      splitter.push(chunk);
      while (splitter.next()) {
        const request = { tag: splitter.tag, body: splitter.buffer.slice(splitter.bodyStart, splitter.bodyEnd) };
        if (request.tag === Tag.Connect) {
          this.onConnect(peer, request.body);
        } else {
          peer.requests.push(request);
          this.#handler(request, peer);
        }
      }
    });
  }
}

/** The plain answers: publishes get ascending offsets, queues are empty, settling is done. */
export function answer(request: Request, peer: Peer): void {
  peer.send(plainReply(request.tag, peer));
}

function plainReply(tag: number, peer: Peer): Uint8Array {
  switch (tag) {
    case Tag.Ping:
      return empty(Tag.Pong);
    case Tag.Pub:
      return pubAck(peer.nextOffset++);
    case Tag.Sub:
    case Tag.Unsub:
      return empty(Tag.Ok);
    case Tag.Fetch:
      return flowEnd(0);
    case Tag.Ack:
      return ackStatus(1);
    default:
      return errorFrame("", "unknown frame type");
  }
}

export function info(credit = 2048, creditBytes = 8_388_608n): Uint8Array {
  const writer = new Writer();
  encodeInfo(writer, {
    credit: { negotiated: credit, cap: 2048 },
    creditBytes: { negotiated: creditBytes, cap: 8_388_608n },
    gapMarker: true,
    streaming: false,
    deliverBatch: false,
    streams: false,
    flags2: 0,
  });
  return frame(Tag.Info, writer.toBytes());
}

export function frame(tag: number, body: Uint8Array = new Uint8Array(0)): Uint8Array {
  const bytes = new Uint8Array(5 + body.length);
  bytes.set(body, writeFrameHeader(bytes, 0, tag, body.length));
  return bytes;
}

export function empty(tag: number): Uint8Array {
  return written(5, (out) => writeEmpty(out, 0, tag));
}

export function pubAck(offset: number): Uint8Array {
  return written(13, (out) => writePubAck(out, 0, offset));
}

export function ackStatus(status: number): Uint8Array {
  return written(6, (out) => writeAckStatus(out, 0, status));
}

export function flowEnd(delivered: number): Uint8Array {
  return written(9, (out) => writeFlowEnd(out, 0, delivered));
}

export function errorFrame(code: ErrorCode | "", message: string): Uint8Array {
  return codedErrFrame(code, message);
}

export interface Delivery {
  readonly offset: number;
  readonly generation?: bigint;
  readonly timestampMs?: bigint;
  readonly key?: string;
  readonly headers?: string;
  readonly payload?: string;
}

export function deliver(delivery: Delivery): Uint8Array {
  const key = Buffer.from(delivery.key ?? "");
  const headers = Buffer.from(delivery.headers ?? "");
  const payload = Buffer.from(delivery.payload ?? "");
  const stamp = new Uint8Array(8);
  writeU64Exact(stamp, 0, delivery.timestampMs ?? 0n);
  const out = new Uint8Array(34 + key.length + headers.length + payload.length);
  let at = writeDeliverHeader(out, 0, delivery.offset, 0, 0, stamp, 0, key.length, headers.length, payload.length);
  writeU64Exact(out, 13, delivery.generation ?? 1n);
  out.set(key, at);
  at = writeU16(out, at + key.length, headers.length);
  out.set(headers, at);
  out.set(payload, at + headers.length);
  return out;
}

function written(length: number, write: (out: Uint8Array) => void): Uint8Array {
  const out = new Uint8Array(length);
  write(out);
  return out;
}

/** Turns of the event loop until `condition` holds; a safety net of ten seconds. */
export async function until(condition: () => boolean, what = "the condition"): Promise<void> {
  const limit = Date.now() + 10_000;
  while (!condition()) {
    if (Date.now() > limit) throw new Error(`${what} did not come true`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
