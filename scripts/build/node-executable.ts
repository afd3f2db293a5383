// A Node single executable: Node with the bundle injected as a resource.
import { chmodSync, copyFileSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { root, run } from "../steps.mjs";
import { silenceEnvironment } from "./environment-names.ts";
import type { Target } from "./targets.ts";

// The marker that Node looks for in itself; fixed by Node.
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";

/**
 * Makes `outfile` from a target's Node and a CommonJS bundle, with helper files beside it.
 * @param node the target's Node executable, as fetched
 */
export function buildNodeExecutable(target: Target, node: string, bundle: string, outfile: string): void {
  const work = path.dirname(outfile);
  const blob = path.join(work, "blob");
  const config = path.join(work, "config.json");
  // The blob keeps the name of its main file, so it must not be a path of this build's own; a code cache differs each time.
  const main = "ironbus-node.cjs";
  if (bundle !== path.join(work, main)) copyFileSync(bundle, path.join(work, main));
  writeFileSync(
    config,
    JSON.stringify({ main, output: "blob", disableExperimentalSEAWarning: true, useCodeCache: false }),
  );
  // Only the very Node that will read the blob can write it: another word size writes another layout.
  const [emulator, ...flags] = target.emulator.command;
  run("blob", emulator, [...flags, node, "--experimental-sea-config", config], { quiet: true, cwd: work });

  copyFileSync(node, outfile);
  chmodSync(outfile, 0o755);
  if (target.runtime.strip !== undefined) {
    run("strip", target.runtime.strip, [outfile]);
  }
  const bytes = readFileSync(outfile);
  silenceEnvironment(bytes, "node");
  writeFileSync(outfile, bytes);
  const postject = path.join(root, "node_modules", "postject", "dist", "cli.js");
  run("inject", "node", [postject, outfile, "NODE_SEA_BLOB", blob, "--sentinel-fuse", FUSE], { quiet: true });
}
