import type { Clock, Timer } from "../runtime/clock.ts";
import type { Connection } from "../runtime/sockets.ts";
import { type Answer, encodeAnswer, LINE_TOO_LONG, LINE_TOO_SLOW } from "./probes.ts";

/** Bounds of observability.md 1.2. */
const MOST_LINE_BYTES = 8192;
const LINE_DEADLINE_MS = 5_000;
const WRITE_DEADLINE_MS = 5_000;
/** How long a peer that has its answer may take to close: what it still sends is read, or a reset could take the answer away. */
const LINGER_MS = 500;
const NEWLINE = 0x0a;

/** One connection: one request line in, one answer out, end. */
export class HealthExchange {
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #respond: (line: string, exchange: HealthExchange) => void;
  #line: Buffer = Buffer.alloc(0);
  #asked = false;
  #response: Uint8Array | undefined;
  #sent = 0;
  #timer: Timer;
  #closed = false;

  /** `respond` is called once with the request line; it leads to answer(), at once or later. */
  constructor(connection: Connection, clock: Clock, respond: (line: string, exchange: HealthExchange) => void) {
    this.#connection = connection;
    this.#clock = clock;
    this.#respond = respond;
    this.#timer = clock.after(LINE_DEADLINE_MS, () => this.#lineLate());
  }

  received(chunk: Uint8Array): void {
    if (this.#asked) return;
    const room = MOST_LINE_BYTES - this.#line.length;
    this.#line = Buffer.concat([this.#line, chunk.subarray(0, room)]);
    const end = this.#line.indexOf(NEWLINE);
    if (end >= 0) this.#ask(() => this.#respond(this.#line.toString("utf8", 0, end), this));
    else if (this.#line.length === MOST_LINE_BYTES) this.#ask(() => this.answer(LINE_TOO_LONG));
  }

  /** The peer sent a FIN. It still gets the answer to a whole line. */
  peerEnded(): void {
    if (!this.#asked) this.#connection.close();
  }

  drained(): void {
    this.#send();
  }

  closed(): void {
    this.#closed = true;
    this.#timer.cancel();
  }

  answer(answer: Answer): void {
    if (this.#closed || this.#response !== undefined) return;
    this.#response = encodeAnswer(answer);
    this.#within(WRITE_DEADLINE_MS);
    this.#send();
  }

  #ask(ask: () => void): void {
    this.#asked = true;
    this.#timer.cancel();
    ask();
  }

  #lineLate(): void {
    if (this.#line.length === 0) this.#connection.close();
    else this.#ask(() => this.answer(LINE_TOO_SLOW));
  }

  #within(durationMs: number): void {
    this.#timer.cancel();
    this.#timer = this.#clock.after(durationMs, () => this.#connection.close());
  }

  #send(): void {
    const response = this.#response;
    if (response === undefined || this.#sent === response.length) return;
    const taken = this.#connection.write(response, this.#sent, response.length);
    if (taken < 0) return;
    this.#sent += taken;
    if (this.#sent < response.length) return;
    this.#within(LINGER_MS);
    this.#connection.shutdown();
  }
}
