import { connect as openSocket, type Socket } from "node:net";
import { expect } from "vitest";
import { ack, codedBody, connect, type PubFields, ping, pub, TAG, type Token, u8 } from "./messages.ts";

/** Nothing is judged by it: only a test that would otherwise wait for ever ends here. */
const SAFETY_NET_MS = 30_000;

export interface Frame {
  readonly tag: number;
  readonly body: Buffer;
}

export interface Delivered extends Token {
  readonly flags: number;
  readonly timestampMs: bigint;
  readonly key: Buffer;
  readonly headers: Buffer;
  readonly payload: Buffer;
}

/** Speaks bytes over one TCP connection: sends what it is told, and hands out whole frames as they come. */
export class RawClient {
  readonly socket: Socket;
  #received = Buffer.alloc(0);
  #at = 0;
  #finished = false;
  #wake: (() => void) | undefined;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received.subarray(this.#at), chunk]);
      this.#at = 0;
      this.#wake?.();
    });
    const finish = () => {
      this.#finished = true;
      this.#wake?.();
    };
    socket.on("end", finish);
    socket.on("close", finish);
    socket.on("error", finish);
  }

  /** A TCP connection on which nothing was said yet. */
  static async dial(port: number): Promise<RawClient> {
    const socket = openSocket({ host: "127.0.0.1", port, allowHalfOpen: true });
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return new RawClient(socket);
  }

  /** After the handshake. */
  static async open(port: number, hello: Uint8Array = connect()): Promise<RawClient> {
    const client = await RawClient.dial(port);
    client.send(hello);
    expect((await client.frame()).tag).toBe(TAG.info);
    return client;
  }

  send(...parts: Uint8Array[]): void {
    this.socket.write(Buffer.concat(parts));
  }

  /** The next frame. Fails when the connection ends instead. */
  async frame(): Promise<Frame> {
    for (;;) {
      const unread = this.#received.length - this.#at;
      if (unread >= 4) {
        const length = this.#received.readUInt32LE(this.#at);
        if (unread >= 4 + length) {
          const tag = this.#received[this.#at + 4];
          const body = this.#received.subarray(this.#at + 5, this.#at + 4 + length);
          this.#at += 4 + length;
          return { tag, body };
        }
      }
      if (this.#finished) throw new Error(`the connection ended with ${unread} bytes left instead of a frame`);
      await this.#more();
    }
  }

  async frames(count: number): Promise<Frame[]> {
    const frames: Frame[] = [];
    while (frames.length < count) frames.push(await this.frame());
    return frames;
  }

  /** Waits for the end of the connection; returns what came before it and was not read. */
  async ended(): Promise<Buffer> {
    while (!this.#finished) await this.#more();
    return this.#received.subarray(this.#at);
  }

  /** Sends a FIN; replies can still arrive. */
  halfClose(): void {
    this.socket.end();
  }

  /** Closes in an orderly way and waits until the peer has, too. */
  async close(): Promise<void> {
    this.socket.end();
    await this.ended();
    this.socket.destroy();
  }

  async expectFrame(tag: number, body: Uint8Array | string = Buffer.alloc(0)): Promise<void> {
    const got = await this.frame();
    expect({ tag: got.tag, body: got.body.toString("latin1") }).toEqual({
      tag,
      body: Buffer.from(body as string).toString("latin1"),
    });
  }

  async expectErr(text: string): Promise<void> {
    await this.expectFrame(TAG.err, text);
  }

  async expectCodedErr(code: string, text: string): Promise<void> {
    await this.expectFrame(TAG.err, codedBody(code, text));
  }

  /** "open": a Ping is answered, and by nothing but a Pong. */
  async expectOpen(): Promise<void> {
    this.send(ping());
    await this.expectFrame(TAG.pong);
  }

  async expectPubAck(): Promise<number> {
    const { tag, body } = await this.frame();
    expect({ tag, length: body.length }).toEqual({ tag: TAG.pubAck, length: 8 });
    return Number(body.readBigUInt64LE());
  }

  async publish(...records: PubFields[]): Promise<number[]> {
    this.send(...records.map((record) => pub(record)));
    const offsets: number[] = [];
    for (const _ of records) offsets.push(await this.expectPubAck());
    return offsets;
  }

  async expectStatus(status: number): Promise<void> {
    await this.expectFrame(TAG.ackStatus, u8(status));
  }

  async status(): Promise<number> {
    const { tag, body } = await this.frame();
    expect({ tag, length: body.length }).toEqual({ tag: TAG.ackStatus, length: 1 });
    return body[0];
  }

  /** Reads Deliver frames up to FlowEnd, whose count must agree. Any other frame fails. */
  async delivery(): Promise<Delivered[]> {
    const records: Delivered[] = [];
    for (;;) {
      const { tag, body } = await this.frame();
      if (tag === TAG.flowEnd) {
        expect(body.length).toBe(4);
        expect(body.readUInt32LE()).toBe(records.length);
        return records;
      }
      expect(tag === TAG.err ? body.toString() : tag).toBe(TAG.deliver);
      records.push(decodeDeliver(body));
    }
  }

  /** Sends a Flow or Fetch and reads its response. */
  async poll(request: Uint8Array): Promise<Delivered[]> {
    this.send(request);
    return await this.delivery();
  }

  /** Acks all and expects status 1 for each. */
  async ackAll(records: readonly Token[]): Promise<void> {
    this.send(...records.map(ack));
    for (const _ of records) await this.expectStatus(1);
  }

  async #more(): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    await new Promise<void>((resolve, reject) => {
      this.#wake = resolve;
      timer = setTimeout(() => reject(new Error("nothing came from the broker")), SAFETY_NET_MS);
    });
    clearTimeout(timer);
    this.#wake = undefined;
  }
}

function decodeDeliver(body: Buffer): Delivered {
  const keyLength = body.readUInt16LE(25);
  const headersAt = 27 + keyLength;
  const headersLength = body.readUInt16LE(headersAt);
  const payloadAt = headersAt + 2 + headersLength;
  return {
    offset: Number(body.readBigUInt64LE(0)),
    generation: body.readBigUInt64LE(8),
    flags: body[16],
    timestampMs: body.readBigUInt64LE(17),
    key: body.subarray(27, headersAt),
    headers: body.subarray(headersAt + 2, payloadAt),
    payload: body.subarray(payloadAt),
  };
}

export function offsetsOf(records: readonly Token[]): number[] {
  return records.map((record) => record.offset);
}

export function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, index) => from + index);
}
