// `node scripts/check-built-ins.mjs [tsconfig]`: names every built-in that src/ uses and Node 20.11 does not have. Most
// development happens under Bun, which has them all; the 32-bit ARM executable and many users of the client have not.
// The type checker reads the sources once more, against the types of that Node; what it says about anything but
// missing names is a difference between the two versions of the types and is left to `npm run types`.
import { spawnSync } from "node:child_process";
import path from "node:path";
import { root, runMain, StepError, say } from "./steps.mjs";

// "Cannot find name", "has no exported member", "cannot find module", "property does not exist", with their variants.
const MISSING = /^(\S+?)\(\d+,\d+\): error TS(?:2304|2305|2307|2339|2550|2551|2552|2568|2583|2584|2591|2724|2868): /;

/** What only runs where Bun does: file and the name in the message. */
const BUN_ONLY = [
  ["src/runtime/sockets-bun.ts", ""],
  ["src/runtime/native/codec-typescript.ts", "'Bun'"],
  ["src/runtime/file-lock.ts", "'getBuiltinModule'"],
];

await runMain(() => {
  const project = process.argv[2] ?? path.join("scripts", "node-20", "tsconfig.json");
  const tsc = path.join(root, "node_modules", ".bin", "tsc");
  const { stdout, error } = spawnSync(tsc, ["--project", project, "--pretty", "false"], {
    cwd: root,
    encoding: "utf8",
  });
  if (error) {
    throw new StepError(`built-ins: ${error.message}`);
  }
  const missing = stdout.split("\n").filter((line) => {
    const file = MISSING.exec(line)?.[1];
    return file !== undefined && !BUN_ONLY.some(([each, name]) => each === file && line.includes(name));
  });
  if (missing.length > 0) {
    say(missing.join("\n"));
    throw new StepError(`built-ins: ${missing.length} use(s) of what Node 20.11 does not have`);
  }
});
