/** Base of everything the SDK throws on its own account. Branch on the class and on `code`, never on the message. */
export class IronbusError extends Error {
  override readonly name: string = "IronbusError";
  /**
   * For a reply of the broker: its error token (wire.md 7.2, `ERR_AT_CAPACITY`, ...), undefined when the broker sent
   * none. For what the SDK found itself: `CONNECT_FAILED`, `CONNECTION_CLOSED`, `TIMEOUT`, `PROTOCOL`.
   */
  readonly code: string | undefined;

  constructor(message: string, code: string | undefined, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** The broker refused one request. The connection stays usable, unless the broker closes it right after. */
export class BrokerError extends IronbusError {
  override readonly name: string = "BrokerError";
  /** The same request may be sent again as it is (wire.md 7.2, column R). */
  readonly retryable: boolean;
  /** Position of the refused record or message in the call's input, for calls that take many. */
  readonly index: number | undefined;

  constructor(message: string, code: string | undefined, retryable: boolean, index?: number) {
    super(message, code);
    this.retryable = retryable;
    this.index = index;
  }
}

/** A publish reached a broker that is not the leader (wire.md 15). Nothing was appended. */
export class NotLeaderError extends BrokerError {
  override readonly name: string = "NotLeaderError";
  /** `host:port` of the leader, undefined when the broker does not know it. */
  readonly leader: string | undefined;

  constructor(leader: string | undefined, index?: number) {
    super(leader === undefined ? "not the leader" : `not the leader, try ${leader}`, "NOT_LEADER", false, index);
    this.leader = leader;
  }
}

/** The connection is gone, or was never there. What had been sent and was not answered may or may not have happened. */
export class ConnectionClosedError extends IronbusError {
  override readonly name: string = "ConnectionClosedError";

  constructor(message: string, options?: { cause?: unknown; code?: string }) {
    super(message, options?.code ?? "CONNECTION_CLOSED", options);
  }
}

/** No connection could be made; nothing was sent. */
export class ConnectError extends ConnectionClosedError {
  override readonly name: string = "ConnectError";

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, { ...options, code: "CONNECT_FAILED" });
  }
}

/** The broker did not answer, or did not take bytes, in time. The connection is closed: its replies can no longer be paired. */
export class TimeoutError extends IronbusError {
  override readonly name: string = "TimeoutError";

  constructor(message: string) {
    super(message, "TIMEOUT");
  }
}

/** The broker sent something this protocol does not allow here. The connection is closed. */
export class ProtocolError extends IronbusError {
  override readonly name: string = "ProtocolError";

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, "PROTOCOL", options);
  }
}

/** How far a produceAll() came. Records are settled in input order, so the first `acknowledged + rejected` ones are. */
export interface ProduceProgress {
  /** Records the broker holds durably, duplicates included. */
  readonly acknowledged: number;
  /** Records the broker refused. */
  readonly rejected: number;
  /** Offset of the last acknowledged record, undefined when there is none. */
  readonly lastOffset: number | undefined;
}

/** A produceAll() that could not be finished: `cause` says why, `progress` what is safe. */
export class ProduceError extends IronbusError {
  override readonly name: string = "ProduceError";
  readonly progress: ProduceProgress;

  constructor(cause: unknown, progress: ProduceProgress) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const code = cause instanceof IronbusError ? cause.code : undefined;
    super(`${reason} (after ${progress.acknowledged} acknowledged records)`, code, { cause });
    this.progress = progress;
  }
}
