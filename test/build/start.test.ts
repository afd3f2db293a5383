import { spawn } from "node:child_process";
import { type AddressInfo, connect, createServer } from "node:net";
import path from "node:path";
import { afterEach, expect, it } from "vitest";
import { cleanUp, ROOT, temporaryDirectory } from "./program.ts";

afterEach(cleanUp);

/** Whether somebody listens there. */
function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The broker still listened when `npm start` had ended. */
  readonly outlived: boolean;
}

/** Runs `npm start` until the hint is out, then ends it as a supervisor does. */
function start(args: readonly string[], signal: NodeJS.Signals = "SIGTERM") {
  return new Promise<Ended>((resolve, reject) => {
    // npm passes on SIGINT and SIGTERM only; of a SIGHUP, which a terminal sends to all, it just dies.
    const command = signal === "SIGHUP" ? ["node", "scripts/start.mjs"] : ["npm", "--silent", "start", "--"];
    const child = spawn(command[0], [...command.slice(1), ...args], { cwd: ROOT });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
    });
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
      if (stderr.includes("dist/ironbus sub")) {
        child.kill(signal);
      }
    });
    child.on("error", reject);
    let outlived: Promise<boolean> | undefined;
    child.on("exit", () => {
      const port = /listening on 127\.0\.0\.1:(\d+)/.exec(stdout)?.[1];
      outlived = port === undefined ? Promise.resolve(false) : listens(Number(port));
    });
    child.on("close", async (code) => resolve({ code, stdout, stderr, outlived: (await outlived) === true }));
  });
}

it.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
  "npm start says where the broker listens and what to try next, and on %s ends after it",
  async (signal) => {
    const directory = path.join(temporaryDirectory(), "data");
    const { code, stdout, stderr, outlived } = await start(["--data-dir", directory, "--addr", "127.0.0.1:0"], signal);
    expect(stdout).toMatch(/^ironbus listening on 127\.0\.0\.1:\d+, data dir /);
    expect(stderr).toContain("dist/ironbus pub 'hello edge'");
    expect(outlived).toBe(false);
    expect(code).toBe(0);
  },
);

it("npm start ends with the broker's own exit code when it cannot serve", async () => {
  const occupant = createServer();
  const port = await new Promise<number>((resolve) => {
    occupant.listen(0, "127.0.0.1", () => resolve((occupant.address() as AddressInfo).port));
  });
  const directory = path.join(temporaryDirectory(), "data");
  const { code, stderr } = await start(["--data-dir", directory, "--addr", `127.0.0.1:${port}`]);
  occupant.close();
  expect(stderr).toContain(`127.0.0.1:${port}`);
  expect(code).toBe(70);
});
