import { parentPort, workerData } from "node:worker_threads";
import { systemClock } from "../runtime/clock-system.ts";
import { createNetwork } from "../runtime/network.ts";
import type { Listener } from "../runtime/sockets.ts";
import { HealthListener } from "./health-listener.ts";
import type { FromBroker, FromWorker, HealthWorkerData } from "./health-messages.ts";
import { Progress } from "./progress.ts";
import { Scrapes } from "./scrapes.ts";
import { SharedHealth } from "./shared-health.ts";

/** The thread of the health endpoints: it answers while the broker's own thread is stuck, and says so. */

const { health: buffer, host, port, livenessWindowMs } = workerData as HealthWorkerData;
const health = new SharedHealth(buffer);
const progress = new Progress(systemClock, livenessWindowMs, () => health.beacon);

const tell = (message: FromWorker): void => parentPort?.postMessage(message);
const scrapes = new Scrapes(systemClock, (id) => tell({ kind: "scrape", id, shed: endpoints.shed }));

const endpoints = new HealthListener(systemClock, {
  state: health,
  get progressing() {
    return progress.progressing;
  },
  scrape: (done) => scrapes.ask(done),
});

let listener: Listener | undefined;

parentPort?.on("message", (message: FromBroker) => {
  if (message.kind === "scraped") {
    scrapes.answered(message.id, message.text);
    return;
  }
  listener?.stop();
  progress.stop();
  parentPort?.close();
});

createNetwork()
  .listen({ host, port }, endpoints)
  .then(
    (opened) => {
      listener = opened;
      tell({ kind: "listening", host: opened.host, port: opened.port });
    },
    (error: Error & { code?: string }) => tell({ kind: "refused", code: error.code ?? "EIO", message: error.message }),
  );
