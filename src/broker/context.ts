import type { Clock } from "../runtime/clock.ts";
import { type Codec, FIELDS } from "../runtime/codec.ts";
import { type ConnectionLimits, PUBLISH_TABLE_ROWS } from "./limits.ts";
import type { BrokerOptions } from "./options.ts";
import type { Scratch } from "./output.ts";
import type { Stream } from "./stream.ts";

/** What every session of a broker shares. */
export interface BrokerContext {
  readonly options: BrokerOptions;
  readonly limits: ConnectionLimits;
  readonly clock: Clock;
  readonly codec: Codec;
  readonly stream: Stream;
  readonly scratch: Scratch;
  readonly publishTable: PublishTable;
}

/** Rows of the publishes of the turn that is being processed; one table serves all connections. */
export class PublishTable {
  readonly rows = new Int32Array(PUBLISH_TABLE_ROWS * FIELDS);
  /** 1 for a row that wants no acknowledgement. */
  readonly silent = new Uint8Array(PUBLISH_TABLE_ROWS);
}
