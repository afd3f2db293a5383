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

/** Runs the broker until it ends and gives its exit code. */
function serve(args) {
  return new Promise((resolve, reject) => {
    const broker = spawn(path.join(root, "dist", "ironbus"), ["serve", ...args], {
      cwd: root,
      stdio: ["inherit", "pipe", "inherit"],
    });
    // The terminal sends an interrupt to both of us, a supervisor its signal to this process only.
    process.on("SIGINT", () => {});
    process.on("SIGTERM", () => broker.kill("SIGTERM"));
    let hinted = false;
    broker.stdout.on("data", (chunk) => {
      process.stdout.write(chunk);
      if (!hinted && chunk.includes("listening on")) {
        hinted = true;
        say(HINT);
      }
    });
    broker.on("error", reject);
    broker.on("close", (code, signal) => {
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
  const defaults = ["--data-dir", "./data", "--addr", "127.0.0.1:7777"];
  const given = process.argv.slice(2);
  const names = new Set(given.map((each) => each.split("=")[0]));
  // A flag that is given twice is an error: leave out the defaults that are overridden.
  const kept = defaults.filter((_, index) => !names.has(defaults[index - (index % 2)]));
  process.exitCode = await serve([...kept, ...given]);
});
