import { createRequire } from "node:module";
import { createDiskFileSystem } from "../../src/runtime/file-system-disk.ts";
import { toAddon } from "../../src/runtime/native/addon.ts";

/**
 * A process for tests to watch: `<verb> <path> [<addon>]`.
 * - `lock` prints `held` and stays until it is killed, or prints `busy` and ends;
 * - `job` submits one job, prints `done` from its callback and ends by itself;
 * - `idle` makes a queue, prints `idle` and ends by itself.
 */
const [, , verb, path, addonPath] = process.argv;
const addon = addonPath === undefined ? undefined : toAddon(createRequire(addonPath)(addonPath));
const files = createDiskFileSystem(addon);
const say = (text: string) => process.stdout.write(`${text}\n`);

if (verb === "lock") {
  if (files.lock(path) === undefined) {
    say("busy");
  } else {
    say("held");
    setInterval(() => {}, 1000);
  }
} else if (verb === "job") {
  const file = files.open(path, "create");
  const write = { buffer: new Uint8Array(1 << 20), offset: 0, length: 1 << 20, position: 0 };
  files.createQueue().submit({ file, write, barrier: "full", done: (error) => say(error?.message ?? "done") });
} else {
  files.createQueue();
  say("idle");
}
