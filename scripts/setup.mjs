// Makes a fresh checkout usable: packages, Bun, the native addon, the host's binary. Each step is skipped when it is
// done already, and names itself when it fails.
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, linkSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { exists, hashOf, root, run, StepError, say, unlessDone } from "./steps.mjs";

/** The Bun that everything is run with: the version that package.json pins. */
export const bun = path.join(root, "node_modules", ".bin", "bun");

function bunAnswers() {
  return spawnSync(bun, ["--version"], { encoding: "utf8" }).stdout?.trim();
}

/** The npm package `bun` puts its binary in place in a postinstall script, which may be switched off: do it here. */
function ensureBun() {
  const wanted = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")).devDependencies.bun;
  if (bunAnswers() === wanted) {
    return;
  }
  const cpu = { x64: "x64", arm64: "aarch64" }[process.arch];
  const packaged = path.join(root, "node_modules", "@oven", `bun-${process.platform}-${cpu}`, "bin", "bun");
  if (!existsSync(packaged)) {
    throw new StepError(`bun: no Bun ${wanted} for ${process.platform} ${process.arch} among the packages`);
  }
  const target = path.join(root, "node_modules", "bun", "bin", "bun.exe");
  rmSync(target, { force: true });
  try {
    linkSync(packaged, target);
  } catch {
    copyFileSync(packaged, target);
  }
  chmodSync(target, 0o755);
  const answer = bunAnswers();
  if (answer !== wanted) {
    throw new StepError(`bun: ${packaged} answers ${answer ?? "nothing"} instead of ${wanted}`);
  }
}

/** Whether the installed tree is the locked one: npm keeps a copy of what it installed. */
function packagesAreInstalled() {
  const installed = path.join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installed)) {
    return false;
  }
  const { packages } = JSON.parse(readFileSync(path.join(root, "package-lock.json"), "utf8"));
  const present = JSON.parse(readFileSync(installed, "utf8")).packages;
  return Object.entries(packages).every(
    ([name, { version, optional }]) => name === "" || (present[name] ? present[name].version === version : optional),
  );
}

/** Installs the locked packages where they are missing or stale, and Bun among them. */
export function ensurePackages() {
  if (!packagesAreInstalled()) {
    say("ironbus: installing packages");
    run("packages", "npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
  }
  ensureBun();
}

/** The host's addon, or undefined where there is none for it. */
export const addonPath = path.join(root, "dist", "native", `ironbus-${process.platform}-${process.arch}.node`);

/** Of a failed build: its last lines name the cause. */
const CARGO_LINES = 20;

/**
 * Builds the native addon for this machine. The program runs without it, so where that fails a warning is all, unless
 * the environment has IRONBUS_REQUIRE_ADDON=1: then it is an error.
 */
export function ensureAddon() {
  let without = "no working cargo found: building without the native addon (slower, same data)";
  let advice = "install Rust 1.85 or later and run this again for it";
  try {
    unlessDone("addon", hashOf(["native", "scripts/build-native.sh"]), [addonPath], () => {
      if (!exists("cargo")) {
        throw new StepError("addon: no working cargo found");
      }
      without = "WARNING: the native addon could not be built: going on without it (slower, same data)";
      advice = "cargo's words are above; it needs Rust 1.85 or later, and the network once";
      say("ironbus: building the native addon");
      run("addon", "bash", ["scripts/build-native.sh"], { quiet: true, lastLines: CARGO_LINES });
    });
  } catch (error) {
    if (!(error instanceof StepError) || process.env.IRONBUS_REQUIRE_ADDON === "1") {
      throw error;
    }
    say(`ironbus: ${without}; ${advice}`);
    // One that was built from other sources must not end up in the binary.
    rmSync(addonPath, { force: true });
  }
}

/** What the bundles are made from. */
const bundleInputs = () => [
  "src",
  "scripts/build",
  "package.json",
  "package-lock.json",
  path.relative(root, addonPath),
];

function ensureBundle(name, file) {
  const outfile = path.join(root, "dist", file);
  unlessDone(name, hashOf(bundleInputs(), [process.platform, process.arch]), [outfile], () => {
    say(`ironbus: building dist/${file}`);
    run(file, bun, ["scripts/build/main.ts", name]);
  });
}

/** Builds dist/ironbus, this machine's executable. */
export function ensureHost() {
  ensureBundle("host", "ironbus");
}

/** Builds dist/ironbus-node.cjs, the same program for Node 20. */
export function ensureNodeBundle() {
  ensureBundle("node", "ironbus-node.cjs");
}

/** Builds dist/client, the package's `ironbus/client` with its types. */
export function ensureClient() {
  const inputs = ["src/client", "src/wire", "tsconfig.json", "tsconfig.client.json", "package-lock.json"];
  unlessDone("client", hashOf(inputs), [path.join(root, "dist", "client", "client", "index.js")], () => {
    say("ironbus: building the client");
    run("client", path.join(root, "node_modules", ".bin", "tsc"), ["--project", "tsconfig.client.json"]);
  });
}
