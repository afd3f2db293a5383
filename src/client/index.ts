/**
 * The IronBus client, for Bun and Node 20 and later.
 *
 * ```ts
 * import { connect } from "ironbus/client";
 *
 * await using client = await connect("127.0.0.1:7777");
 * const offset = await client.produce("hello edge", { key: "sensor-12" });
 * for await (const message of client.consume({ group: "orders" })) {
 *   console.log(message.offset, message.text());
 *   await client.ack(message);
 * }
 * ```
 */
export { type CallOptions, Client, connect, type NackOptions, type ProduceOptions } from "./client.ts";
export type { ConsumeOptions } from "./consume.ts";
export {
  BrokerError,
  ConnectError,
  ConnectionClosedError,
  IronbusError,
  NotLeaderError,
  ProduceError,
  type ProduceProgress,
  ProtocolError,
  TimeoutError,
} from "./errors.ts";
export type { FetchOptions } from "./fetch.ts";
export { type Advisory, type Batch, Message, type Settlement, type Settlements } from "./message.ts";
export { type ConnectOptions, DEFAULT_HOST, DEFAULT_PORT, parseAddress } from "./options.ts";
export type { ProduceAllOptions, Producible } from "./produce.ts";
export type { Bytes, ProduceRecord, RecordOptions } from "./record.ts";
export type { Limits } from "./requests.ts";
