import type { Worker } from "node:worker_threads";
import type { BrokerHealth } from "../broker/health.ts";
import type { Clock } from "../runtime/clock.ts";
import type { FromBroker, FromWorker } from "./health-messages.ts";
import { startHealthWorker } from "./health-worker-start.ts";
import { SharedHealth } from "./shared-health.ts";

/** Longest time between two ticks of the beacon. */
const TICK_MS = 250;
/** A worker that died is followed by another one, not sooner than this. */
const RESTART_MS = 1_000;

export interface HealthEndpointsOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** /healthz fails after this time without a turn of the event loop; 0 = never. */
  readonly livenessWindowMs: number;
  /** /healthz and /readyz fail while one write takes longer; 0 = never. */
  readonly watchdogBoundMs: number;
}

export interface HealthEndpoints {
  /** The actual address, port 0 resolved. */
  readonly host: string;
  readonly port: number;
  /** Ends the listener; answers that are under way may be cut. */
  stop(): void;
}

/**
 * Serves health and metrics on a thread of its own, so that a stuck broker is reported rather than silent (docs/decisions).
 * `metrics` gives the text of /metrics; `shed` is how many health connections were closed unheard. Rejects with the error of
 * a failed bind, whose `code` is the errno name.
 */
export async function startHealthEndpoints(
  options: HealthEndpointsOptions,
  health: BrokerHealth,
  clock: Clock,
  metrics: (shed: number) => string,
  warned: (message: string) => void,
  startWorker: typeof startHealthWorker = startHealthWorker,
): Promise<HealthEndpoints> {
  const shared = new SharedHealth();
  const publish = (): void => {
    const { draining, stopped, batchStartedMs } = health;
    const { watchdogBoundMs } = options;
    const wedged =
      watchdogBoundMs > 0 && batchStartedMs !== undefined && clock.monotonicMs() - batchStartedMs > watchdogBoundMs;
    shared.set({ draining, stopped, frozen: health.frozen !== undefined, wedged });
  };
  health.onChange = publish;
  publish();
  const windowMs = options.livenessWindowMs;
  const ticks = clock.every(windowMs > 0 ? Math.max(10, Math.min(TICK_MS, windowMs / 4)) : TICK_MS, () => {
    publish();
    shared.tick();
  });
  let stopping = false;
  let worker: Worker;
  let shedBefore = 0;

  const start = (port: number): Promise<{ host: string; port: number }> =>
    new Promise((resolve, reject) => {
      let shed = 0;
      let listening = false;
      const started = startWorker({
        health: shared.buffer,
        host: options.host,
        port,
        livenessWindowMs: windowMs,
      });
      worker = started;
      started.on("message", (message: FromWorker) => {
        if (message.kind === "listening") {
          // From here on the broker's own sockets keep the process alive.
          listening = true;
          started.unref();
          resolve(message);
        } else if (message.kind === "refused") {
          reject(Object.assign(new Error(message.message), { code: message.code }));
          reply(started, { kind: "stop" });
        } else {
          shed = message.shed;
          // Whoever looks on must not bring the broker down: without a reply the worker answers 503.
          try {
            reply(started, { kind: "scraped", id: message.id, text: metrics(shedBefore + shed) });
          } catch (error) {
            warned(`metrics cannot be given: ${error}`);
          }
        }
      });
      started.on("error", (error: Error) => {
        reject(error);
        warned(`the health endpoints failed: ${error.message}`);
      });
      started.on("exit", () => {
        shedBefore += shed;
        reject(new Error("the health worker ended"));
        if (listening && !stopping) clock.after(RESTART_MS, () => restart());
      });
    });
  let bound: { host: string; port: number } | undefined;
  const restart = (): void => {
    if (stopping || bound === undefined) return;
    start(bound.port).catch((error: Error) => warned(`the health endpoints cannot be served again: ${error.message}`));
  };
  try {
    bound = await start(options.port);
  } catch (error) {
    stopping = true;
    ticks.cancel();
    throw error;
  }
  return {
    host: bound.host,
    port: bound.port,
    stop() {
      stopping = true;
      ticks.cancel();
      reply(worker, { kind: "stop" });
    },
  };
}

function reply(worker: Worker, message: FromBroker): void {
  worker.postMessage(message);
}
