import { spawn } from "node:child_process";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import { afterEach, expect, it } from "vitest";
import { cleanUp, ROOT, temporaryDirectory } from "./program.ts";

afterEach(cleanUp);

/** Runs `npm start` until the hint is out, then ends it as a supervisor does. */
function start(args: readonly string[]) {
  return new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve, reject) => {
    const child = spawn("node", ["scripts/start.mjs", ...args], { cwd: ROOT });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
    });
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
      if (stderr.includes("dist/ironbus sub")) {
        child.kill("SIGTERM");
      }
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
}

it("npm start says where the broker listens and what to try next, and stops with it", async () => {
  const directory = path.join(temporaryDirectory(), "data");
  const { code, stdout, stderr } = await start(["--data-dir", directory, "--addr", "127.0.0.1:0"]);
  expect(stdout).toMatch(/^ironbus listening on 127\.0\.0\.1:\d+, data dir /);
  expect(stderr).toContain("dist/ironbus pub 'hello edge'");
  expect(code).toBe(0);
});

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
