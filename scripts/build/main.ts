// `bun scripts/build/main.ts host | node | all | <target>...`: builds dist/. Started by scripts/build.mjs.
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { addonPath, bun } from "../setup.mjs";
import { root, runMain, say } from "../steps.mjs";
import { buildAddon } from "./addon.ts";
import { bundleForBun, bundleForNode } from "./bundle.ts";
import { fetchRuntime } from "./cache.ts";
import { silenceEnvironment } from "./environment-names.ts";
import { buildNodeExecutable } from "./node-executable.ts";
import { type Target, targetNamed, targets } from "./targets.ts";

const dist = path.join(root, "dist");

function temporaryDirectory(): string {
  mkdirSync(dist, { recursive: true });
  return mkdtempSync(path.join(dist, ".build-"));
}

/** Bundles over a copy of a Bun that no longer listens to the environment. */
async function buildBunExecutable(runtime: string, bunTarget: string, addon: string | undefined, outfile: string) {
  const work = temporaryDirectory();
  const template = path.join(work, "bun");
  const bytes = readFileSync(runtime);
  silenceEnvironment(bytes, "bun");
  writeFileSync(template, bytes);
  chmodSync(template, 0o755);
  // The outfile's base name ends up in the executable: always the same one.
  const built = path.join(work, "ironbus");
  await bundleForBun({ template, bunTarget, addon, outfile: built });
  renameSync(`${built}.map`, `${outfile}.map`);
  renameSync(built, outfile);
  rmSync(work, { recursive: true });
}

const hostAddon = () => (existsSync(addonPath) ? addonPath : undefined);

/** dist/ironbus: for this machine, with the addon when it has been built. */
async function buildHost() {
  const bunTarget = `bun-${process.platform}-${process.arch}`;
  await buildBunExecutable(bun, bunTarget, hostAddon(), path.join(dist, "ironbus"));
}

/** dist/ironbus-node.cjs: the same program for Node 20, what the 32-bit ARM executable is made of. */
async function buildNode() {
  await bundleForNode({ addon: hostAddon(), outfile: path.join(dist, "ironbus-node.cjs") });
}

async function buildTarget(target: Target) {
  const runtime = fetchRuntime(target);
  const addon = buildAddon(target);
  const outfile = path.join(dist, target.file);
  say(`ironbus: building ${target.file}`);
  if (target.runtime.kind === "bun") {
    await buildBunExecutable(runtime, target.runtime.bun_target as string, addon, outfile);
  } else {
    const work = temporaryDirectory();
    const bundle = path.join(work, "ironbus-node.cjs");
    await bundleForNode({ addon, outfile: bundle });
    buildNodeExecutable(target, runtime, bundle, path.join(work, "ironbus"));
    renameSync(path.join(work, "ironbus"), outfile);
    rmSync(work, { recursive: true });
  }
}

/** In the form that `sha256sum --check` reads. */
function writeChecksums() {
  const lines = targets
    .map(({ file }) => file)
    .filter((file) => existsSync(path.join(dist, file)))
    .map((file) => {
      const hash = createHash("sha256").update(readFileSync(path.join(dist, file)));
      return `${hash.digest("hex")}  ${file}\n`;
    });
  writeFileSync(path.join(dist, "SHA256SUMS"), lines.join(""));
}

await runMain(async () => {
  const [what, ...more] = process.argv.slice(2);
  if (what === "host") {
    await buildHost();
  } else if (what === "node") {
    await buildNode();
  } else {
    for (const target of what === "all" ? targets : [what, ...more].map(targetNamed)) {
      await buildTarget(target);
    }
    writeChecksums();
  }
});
