// `npm start [-- flags of serve]`: sets up and builds what is missing, then runs the broker on ./data.
import { spawn } from "node:child_process";
import path from "node:path";
import { ensureAddon, ensureClient, ensureHost, ensurePackages } from "./setup.mjs";
import { root, runMain, say } from "./steps.mjs";

const HINT = `
Try next, in a second terminal:

  dist/ironbus pub 'hello edge'
  dist/ironbus sub --group orders --max 10 --ack
`;

/** By then the broker has printed what it prints at its start. */
const HINT_AFTER_MS = 200;

/** Runs the broker until it ends and gives its exit code. */
function serve(args) {
  return new Promise((resolve, reject) => {
    const broker = spawn(path.join(root, "dist", "ironbus"), ["serve", ...args], {
      cwd: root,
      stdio: ["inherit", "pipe", "inherit"],
    });
    // Whatever asks this process to end asks the broker, which may need a while; this process ends after it. A terminal
    // sends its signals to both: the broker takes a second one as the first.
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
      process.on(signal, () => broker.kill("SIGTERM"));
    }
    let hint;
    broker.stdout.on("data", (chunk) => {
      process.stdout.write(chunk);
      if (chunk.includes("listening on")) {
        hint ??= setTimeout(() => say(HINT), HINT_AFTER_MS);
      }
    });
    broker.on("error", reject);
    broker.on("close", (code, signal) => {
      clearTimeout(hint);
      if (signal) {
        say(`ironbus: the broker was ended by ${signal}`);
      }
      resolve(code ?? 1);
    });
  });
}

await runMain(async () => {
  ensurePackages();
  ensureAddon();
  ensureClient();
  ensureHost();
  // Of a flag that is given twice the last one counts.
  const defaults = ["--data-dir", "./data", "--addr", "127.0.0.1:7777"];
  process.exitCode = await serve([...defaults, ...process.argv.slice(2)]);
});
