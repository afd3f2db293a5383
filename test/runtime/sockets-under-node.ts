import { createNodeNetwork } from "../../src/runtime/sockets-node.ts";
import { connectPeer } from "./sockets-peer.ts";
import { scenarios } from "./sockets-scenarios.ts";

/** Runs every scenario in the runtime that runs this file; one line of JSON each. */
for (const { title, run } of scenarios) {
  let failure: string | undefined;
  try {
    await run({ createNetwork: createNodeNetwork, connect: (_network, listener) => connectPeer(listener) });
  } catch (error) {
    failure = error instanceof Error ? (error.stack ?? error.message) : String(error);
  }
  process.stdout.write(
    `${JSON.stringify({ title, failure, runtime: process.versions.node, bun: process.versions.bun })}\n`,
  );
}
