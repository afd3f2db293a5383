/** What the health worker is started with. */
export interface HealthWorkerData {
  readonly health: SharedArrayBuffer;
  readonly host: string;
  readonly port: number;
  readonly livenessWindowMs: number;
}

export type FromWorker =
  | { readonly kind: "listening"; readonly host: string; readonly port: number }
  | { readonly kind: "refused"; readonly code: string; readonly message: string }
  /** Asks for the text of /metrics; `shed` is how many connections the worker closed unheard. */
  | { readonly kind: "scrape"; readonly id: number; readonly shed: number };

export type FromBroker =
  | { readonly kind: "scraped"; readonly id: number; readonly text: string }
  | { readonly kind: "stop" };
