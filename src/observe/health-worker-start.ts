import { Worker } from "node:worker_threads";
import type { HealthWorkerData } from "./health-messages.ts";

/** Starts the health worker from its source file. A build puts a module in this one's place that starts what it bundled. */
export function startHealthWorker(workerData: HealthWorkerData): Worker {
  return new Worker(new URL("./health-worker.ts", import.meta.url), { workerData });
}
