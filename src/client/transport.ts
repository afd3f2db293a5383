import type { Signal } from "./signal.ts";
/** What a connection hears from its socket. None of these is called from within a call of Transport, except as said. */
export interface TransportEvents {
  /** Bytes arrived. The chunk belongs to the receiver; nobody writes to it again. */
  data(chunk: Uint8Array): void;
  /** The kernel took bytes that were waiting. */
  progress(): void;
  /** A buffer for which send() returned false may be used again. */
  released(buffer: Uint8Array): void;
  /** The last call, exactly once: the socket is gone, for whichever reason. */
  closed(cause: Error | undefined): void;
}

/** One socket, as thin as each runtime allows. */
export interface Transport {
  /**
   * Sends buffer[0, length), after everything sent before. True: the buffer may be used again at once. False: it stays
   * the transport's until `released`.
   */
  send(buffer: Uint8Array, length: number): boolean;
  /** Closes in order (FIN). Meant for when nothing is unsent and nothing is owed; `closed` follows. */
  end(): void;
  /** Closes now, whatever is unsent; `closed` follows. */
  destroy(): void;
}

/** Opens a connection. Rejects with the runtime's error, or with `signal.reason`; the events begin after it resolved. */
export type Dial = (host: string, port: number, events: TransportEvents, signal: Signal) => Promise<Transport>;
