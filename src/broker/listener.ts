import type { Connection, ConnectionHandler } from "../runtime/sockets.ts";
import type { BrokerContext } from "./context.ts";
import { Session } from "./session.ts";

/** Accepts connections up to the cap and passes what their sockets report to their sessions. */
export class Listener implements ConnectionHandler {
  readonly #broker: BrokerContext;
  readonly #sessions = new Set<Session>();
  #draining = false;

  constructor(broker: BrokerContext) {
    this.#broker = broker;
  }

  get connections(): number {
    return this.#sessions.size;
  }

  open(connection: Connection): void {
    // Over the cap: closed without a byte (wire.md 6.1).
    if (this.#draining || this.#sessions.size >= this.#broker.options.maxConnections) {
      this.#broker.stream.counters.connectionsRefused += 1;
      connection.close();
      return;
    }
    this.#broker.stream.counters.connectionsAccepted += 1;
    const session = new Session(connection, this.#broker);
    connection.state = session;
    this.#sessions.add(session);
  }

  data(connection: Connection, chunk: Uint8Array): void {
    (connection.state as Session | undefined)?.received(chunk);
  }

  drain(connection: Connection): void {
    (connection.state as Session | undefined)?.drained();
  }

  end(connection: Connection): void {
    const session = connection.state as Session | undefined;
    if (session === undefined) connection.close();
    else session.peerEnded();
  }

  close(connection: Connection): void {
    const session = connection.state as Session | undefined;
    if (session === undefined) return;
    connection.state = undefined;
    this.#sessions.delete(session);
    this.#broker.stream.counters.connectionsClosed += 1;
    session.closed();
  }

  /** A few times a second. */
  tick(): void {
    const nowMs = this.#broker.clock.monotonicMs();
    for (const session of this.#sessions) session.tick(nowMs);
  }

  /** No request is taken any more; what was appended is still acknowledged, then the connections close. */
  drainAll(): void {
    this.#draining = true;
    for (const session of this.#sessions) session.finish();
  }

  /** Closes what is still there. */
  closeAll(): void {
    for (const session of this.#sessions) session.connection.close();
  }
}
