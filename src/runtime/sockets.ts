/** The network seam: the same session code runs on Bun's sockets, on Node's, and on the simulated network. */

export interface Connection {
  readonly remoteAddress: string;
  /** Where the handler keeps its state of this connection. */
  state: unknown;
  /**
   * Sends buffer[start, end). Returns how many bytes were taken; the rest is the caller's to keep and to send after
   * `drain`. 0 when full, -1 once closed. The buffer may be reused as soon as this returns. After a short write nothing
   * else may be written before `drain` (a later small write could overtake the rest).
   */
  write(buffer: Uint8Array, start: number, end: number): number;
  /** Stops reading: no `data` is called until resume(). A peer's FIN is not seen while paused. */
  pause(): void;
  resume(): void;
  /** Sends a FIN after everything taken by write(). Reading goes on until `end`. */
  shutdown(): void;
  /** Closes now; what the kernel has not sent yet may be lost. */
  close(): void;
  /** Resets the connection. */
  terminate(): void;
}

/** A throw out of any of these terminates that connection and nothing else. */
export interface ConnectionHandler {
  open(connection: Connection): void;
  /** The chunk belongs to the handler; nobody writes to it again. */
  data(connection: Connection, chunk: Uint8Array): void;
  /** Room again after a short write. */
  drain(connection: Connection): void;
  /** The peer sent a FIN; we may still write. */
  end(connection: Connection): void;
  /** The last call for this connection, exactly once. */
  close(connection: Connection): void;
}

export interface Listener {
  /** The actual address, port 0 resolved. */
  readonly host: string;
  readonly port: number;
  /** Stops accepting; established connections live on. */
  stop(): void;
}

export interface Network {
  /** Rejects with an Error whose `code` is the errno name (`EADDRINUSE`, ...). TCP_NODELAY is set on every connection. */
  listen(address: { readonly host: string; readonly port: number }, handler: ConnectionHandler): Promise<Listener>;
}
