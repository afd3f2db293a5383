import type { BrokerOptions } from "../../src/broker/options.ts";

/** The storage part of a broker's options with everything optional switched off. */
export const PLAIN_STORAGE: Pick<
  BrokerOptions,
  | "storage"
  | "ioMode"
  | "compression"
  | "recovery"
  | "fullScan"
  | "maxTotalBytes"
  | "diskFullPolicy"
  | "minFreeBytes"
  | "dailyWriteBudgetBytes"
  | "retention"
> = {
  storage: "disk",
  ioMode: "buffered",
  compression: "none",
  recovery: "salvage",
  fullScan: false,
  maxTotalBytes: 0,
  diskFullPolicy: "drop-new",
  minFreeBytes: 0,
  dailyWriteBudgetBytes: 0,
  retention: { maxRetainedBytes: 0, maxAgeMs: 0, maxMessages: 0 },
};
