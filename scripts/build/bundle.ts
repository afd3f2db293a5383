// Bundles src/main.ts for one runtime, with the native addon inside.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { BunPlugin } from "bun";
import { root, StepError } from "../steps.mjs";

const entry = path.join("src", "main.ts");
/** The thread of the health endpoints; its place in the result is the one below src/. */
const worker = path.join("src", "observe", "health-worker.ts");
const define = { "process.env.NODE_ENV": '"production"' };

/** A name, not a path: the module's text is in the source map, and the result must not tell where it was built. */
const ADDON_SPECIFIER = "embedded-addon";

/** Neither an addon inside nor a path to one: a shipped program loads its own addon or none. */
const NOTHING_EMBEDDED = "export const embeddedAddon = undefined;\nexport const addonFile = undefined;";

/**
 * Writes the addon where the bundler takes it from and gives the path. The extension is another one, since the bundler
 * treats .node files on its own terms. The path below the checkout enters the result: it may depend on the contents only.
 */
function placeForEmbedding(addon: Uint8Array): string {
  const hash = createHash("sha256").update(addon).digest("hex");
  const file = path.join(root, "dist", "build", `${hash}.bin`);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(`${file}.${process.pid}`, addon);
  renameSync(`${file}.${process.pid}`, file);
  return file;
}

/** Starts the second entry point of an executable. */
const START_ENTRY_POINT = `
import { Worker } from "node:worker_threads";
export function startHealthWorker(workerData) {
  return new Worker(new URL("./observe/health-worker.js", import.meta.url), { workerData });
}`;

/** A single executable has no files: the worker is text in it. */
function startText(text: string): string {
  return `
import { Worker } from "node:worker_threads";
export function startHealthWorker(workerData) {
  return new Worker(${JSON.stringify(text)}, { eval: true, workerData });
}`;
}

/** Puts generated modules in the place of the two that point into the source tree. */
function embedding(contents: string, addon: string, startWorker: string): BunPlugin[] {
  return [
    {
      name: "worker",
      setup(build) {
        build.onLoad({ filter: /[\\/]observe[\\/]health-worker-start\.ts$/ }, () => ({
          loader: "ts",
          contents: startWorker,
        }));
      },
    },
    {
      name: "embedded-addon",
      setup(build) {
        build.onResolve({ filter: new RegExp(`^${ADDON_SPECIFIER}$`) }, () => ({ path: addon }));
        build.onLoad({ filter: /[\\/]runtime[\\/]native[\\/]embedded\.ts$/ }, () => ({ loader: "ts", contents }));
      },
    },
  ];
}

function check(result: { success: boolean; logs: readonly unknown[] }): void {
  if (!result.success) {
    throw new StepError(`bundle: ${result.logs.map(String).join("\n")}`);
  }
}

/**
 * Builds one executable: a Bun with the bundle, its bytecode and the addon behind it.
 * @param options `template`: the Bun that becomes the executable ; `bunTarget`: its
 *   name for the bundler; `addon`: the addon's path, undefined for none; `outfile`: absolute; its base name is inside
 *   the result
 */
export async function bundleForBun(options: {
  readonly template: string;
  readonly bunTarget: string;
  readonly addon: string | undefined;
  readonly outfile: string;
}): Promise<void> {
  let contents = NOTHING_EMBEDDED;
  let file = "";
  if (options.addon !== undefined) {
    file = placeForEmbedding(readFileSync(options.addon));
    contents = [
      `import file from "${ADDON_SPECIFIER}" with { type: "file" };`,
      'import { readFileSync } from "node:fs";',
      "export const embeddedAddon = () => readFileSync(file);",
      "export const addonFile = undefined;",
    ].join("\n");
  }
  // Paths in the result are relative to here.
  process.chdir(root);
  check(
    await Bun.build({
      entrypoints: [entry, worker],
      throw: false,
      target: "bun",
      // Without it, bytecode freezes import.meta.url to the path of this checkout.
      format: "esm",
      bytecode: true,
      minify: { whitespace: true, syntax: true },
      sourcemap: "linked",
      plugins: embedding(contents, file, START_ENTRY_POINT),
      define,
      compile: {
        target: options.bunTarget as Bun.Build.CompileTarget,
        outfile: options.outfile,
        executablePath: options.template,
        autoloadDotenv: false,
        autoloadBunfig: false,
        // No code but ours: nothing from eval, from a preload or from a file beside the executable.
        execArgv: ["--disallow-code-generation-from-strings=strict"],
      },
    }),
  );
}

/** Builds one CommonJS file for Node 20 with the addon in it as text; `outfile` is absolute. */
export async function bundleForNode(options: { readonly addon: string | undefined; readonly outfile: string }) {
  let contents = NOTHING_EMBEDDED;
  if (options.addon !== undefined) {
    const text = readFileSync(options.addon).toString("base64");
    contents = `export const embeddedAddon = () => Buffer.from("${text}", "base64");\nexport const addonFile = undefined;`;
  }
  process.chdir(root);
  const workerBundle = await Bun.build({
    entrypoints: [worker],
    throw: false,
    target: "node",
    format: "cjs",
    minify: { whitespace: true, syntax: true },
    define,
  });
  check(workerBundle);
  const startWorker = startText(await workerBundle.outputs[0].text());
  check(
    await Bun.build({
      entrypoints: [entry],
      throw: false,
      target: "node",
      format: "cjs",
      minify: { whitespace: true, syntax: true },
      plugins: embedding(contents, "", startWorker),
      define,
      outdir: path.dirname(options.outfile),
      naming: path.basename(options.outfile),
    }),
  );
}
