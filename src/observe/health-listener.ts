import type { Clock, Timer } from "../runtime/clock.ts";
import type { Connection, ConnectionHandler } from "../runtime/sockets.ts";
import { HealthExchange } from "./health-exchange.ts";
import {
  type Answer,
  liveness,
  METHOD_NOT_ALLOWED,
  NO_PROGRESS,
  NOT_FOUND,
  parseRequestLine,
  readiness,
  SHUTTING_DOWN,
} from "./probes.ts";
import type { HealthState } from "./shared-health.ts";

/** Requests at once; what comes above them is closed unheard. */
const MOST_EXCHANGES = 32;
/** How long a scrape waits for the broker's numbers. */
const SNAPSHOT_MS = 3_000;

/** What the listener asks of the broker. */
export interface HealthSource {
  readonly state: HealthState;
  /** The broker's event loop turned lately. */
  readonly progressing: boolean;
  /** Asks for the text of /metrics; `done` may never be called. */
  scrape(done: (text: string) => void): void;
}

/** The health endpoints: GET, one request a connection, answered from its first line (observability.md 1.2, 1.3). */
export class HealthListener implements ConnectionHandler {
  /** Connections that were closed because too many were open. */
  shed = 0;
  readonly #clock: Clock;
  readonly #source: HealthSource;
  #open = 0;

  constructor(clock: Clock, source: HealthSource) {
    this.#clock = clock;
    this.#source = source;
  }

  open(connection: Connection): void {
    if (this.#open >= MOST_EXCHANGES) {
      this.shed += 1;
      connection.close();
      return;
    }
    this.#open += 1;
    connection.state = new HealthExchange(connection, this.#clock, (line, exchange) => this.#respond(line, exchange));
  }

  data(connection: Connection, chunk: Uint8Array): void {
    (connection.state as HealthExchange | undefined)?.received(chunk);
  }

  drain(connection: Connection): void {
    (connection.state as HealthExchange | undefined)?.drained();
  }

  end(connection: Connection): void {
    (connection.state as HealthExchange | undefined)?.peerEnded();
  }

  close(connection: Connection): void {
    const exchange = connection.state as HealthExchange | undefined;
    if (exchange === undefined) return;
    this.#open -= 1;
    exchange.closed();
  }

  #respond(line: string, exchange: HealthExchange): void {
    const { method, path } = parseRequestLine(line);
    const { state, progressing } = this.#source;
    if (method !== "GET") exchange.answer(METHOD_NOT_ALLOWED);
    else if (path === "/healthz") exchange.answer(liveness(state, progressing));
    else if (path === "/readyz") exchange.answer(readiness(state));
    else if (path === "/metrics") this.#metrics((answer) => exchange.answer(answer));
    else exchange.answer(NOT_FOUND);
  }

  #metrics(answer: (answer: Answer) => void): void {
    if (this.#source.state.stopped) {
      answer(SHUTTING_DOWN);
      return;
    }
    const late: Timer = this.#clock.after(SNAPSHOT_MS, () => answer(NO_PROGRESS));
    this.#source.scrape((body) => {
      late.cancel();
      answer({ code: 200, body });
    });
  }
}
