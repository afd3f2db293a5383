// Bundles src/main.ts for one runtime, with the native addon inside.
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { BunPlugin } from "bun";
import { root, StepError } from "../steps.mjs";

const embeddedModule = path.join(root, "src", "runtime", "native", "embedded.ts");
const entry = path.join("src", "main.ts");
const define = { "process.env.NODE_ENV": '"production"' };

/** Puts a generated module in the place of src/runtime/native/embedded.ts, which embeds nothing. */
function embedding(contents: string | undefined): BunPlugin[] {
  if (contents === undefined) {
    return [];
  }
  return [
    {
      name: "embedded-addon",
      setup(build) {
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
 * @param options `template`: the Bun that becomes the executable (undefined: the one that runs this); `bunTarget`: its
 *   name for the bundler; `addon`: the addon's path, undefined for none; `outfile`: absolute; its base name is inside
 *   the result
 */
export async function bundleForBun(options: {
  readonly template: string;
  readonly bunTarget: string;
  readonly addon: string | undefined;
  readonly outfile: string;
}): Promise<void> {
  let contents: string | undefined;
  if (options.addon !== undefined) {
    // Another extension, since the bundler treats .node files on its own terms; a relative path, since the module's
    // text ends up in the source map and the result must not depend on where the checkout is.
    const copy = path.join(root, "dist", "build", "addon.bin");
    mkdirSync(path.dirname(copy), { recursive: true });
    copyFileSync(options.addon, copy);
    const specifier = path.relative(path.dirname(embeddedModule), copy).replaceAll(path.sep, "/");
    contents = [
      `import file from "${specifier}" with { type: "file" };`,
      'import { readFileSync } from "node:fs";',
      "export const embeddedAddon = () => readFileSync(file);",
    ].join("\n");
  }
  // Paths in the result are relative to here.
  process.chdir(root);
  mkdirSync(path.dirname(options.outfile), { recursive: true });
  check(
    await Bun.build({
      entrypoints: [entry],
      target: "bun",
      // Without it, bytecode freezes import.meta.url to the path of this checkout.
      format: "esm",
      bytecode: true,
      minify: { whitespace: true, syntax: true },
      sourcemap: "linked",
      plugins: embedding(contents),
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
  const text = options.addon === undefined ? undefined : readFileSync(options.addon).toString("base64");
  const contents = text && `export const embeddedAddon = () => Buffer.from("${text}", "base64");`;
  process.chdir(root);
  check(
    await Bun.build({
      entrypoints: [entry],
      target: "node",
      format: "cjs",
      minify: { whitespace: true, syntax: true },
      plugins: embedding(contents),
      define,
      outdir: path.dirname(options.outfile),
      naming: path.basename(options.outfile),
    }),
  );
}
