import type { Network } from "./sockets.ts";
import { createBunNetwork, type ReportHandlerError } from "./sockets-bun.ts";
import { createNodeNetwork } from "./sockets-node.ts";

/** The sockets of the runtime that this is. By default what a handler throws becomes a warning of the process. */
export function createNetwork(report: ReportHandlerError = warn): Network {
  return "Bun" in globalThis ? createBunNetwork(report) : createNodeNetwork(report);
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}
