import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunningBroker, startBroker } from "../../src/broker/broker.ts";
import type { BrokerOptions } from "../../src/broker/options.ts";
import { createRuntime } from "../../src/runtime/runtime.ts";
import { PLAIN_STORAGE } from "../support/storage-options.ts";

/** A real broker on a directory of its own, which is gone with it. */
export class RealBroker implements AsyncDisposable {
  readonly #dataDir = mkdtempSync(join(tmpdir(), "ironbus-client-"));
  readonly #options: Partial<BrokerOptions>;
  #running!: RunningBroker;

  private constructor(options: Partial<BrokerOptions>) {
    this.#options = options;
  }

  static async start(options: Partial<BrokerOptions> = {}): Promise<RealBroker> {
    const broker = new RealBroker(options);
    await broker.#start(0);
    return broker;
  }

  get port(): number {
    return this.#running.port;
  }

  /** Stops and starts again, on the same directory and port. */
  async restart(): Promise<void> {
    await this.stop();
    await this.resume();
  }

  stop(): Promise<void> {
    return this.#running.stop();
  }

  resume(): Promise<void> {
    return this.#start(this.port);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#running.stop();
    rmSync(this.#dataDir, { recursive: true, force: true });
  }

  async #start(port: number): Promise<void> {
    const options: BrokerOptions = {
      dataDir: this.#dataDir,
      host: "127.0.0.1",
      port,
      durability: { level: "sync", flushIntervalMs: 0, flushMaxBytes: 0 },
      maxConnections: 64,
      visibilityTimeoutMs: 30_000,
      maxSegmentBytes: 8 * 1024 * 1024,
      checkpointInterval: 1024,
      consumerCredit: 2048,
      consumerCreditBytes: 8 * 1024 * 1024,
      maxInFlight: 1024,
      maxGroups: 16,
      backoffMs: [20],
      maxPendingBytes: 4 * 1024 * 1024,
      drainTimeoutMs: 5_000,
      ...PLAIN_STORAGE,
      ...this.#options,
    };
    this.#running = await startBroker(options, createRuntime().runtime, {
      warned: () => undefined,
      froze: () => undefined,
    });
  }
}
