import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { BUN, cleanUp, ROOT, run, temporaryDirectory } from "./program.ts";

afterEach(cleanUp);

/** Packs the package and unpacks it as a dependency of a fresh project. */
function install(): string {
  const project = temporaryDirectory();
  // --ignore-scripts: `npm test` has built the client.
  const packed = run(["npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", project], {
    cwd: ROOT,
    environment: { HOME: project },
  });
  expect(packed.code).toBe(0);
  const target = path.join(project, "node_modules", "ironbus");
  mkdirSync(target, { recursive: true });
  const archive = path.join(project, packed.stdout.trim());
  expect(run(["tar", "-xzf", archive, "-C", target, "--strip-components=1"]).code).toBe(0);
  writeFileSync(path.join(project, "package.json"), '{ "type": "module" }\n');
  return project;
}

describe("the npm package", () => {
  it("holds the client, its types and the papers, and nothing else", () => {
    const project = install();
    const { stdout } = run(["find", ".", "-type", "f"], { cwd: path.join(project, "node_modules", "ironbus") });
    const files = stdout.trim().split("\n").sort();
    expect(files).toContain("./dist/client/client/index.js");
    expect(files).toContain("./dist/client/client/index.d.ts");
    const papers = ["./CHANGELOG.md", "./LICENSE-APACHE", "./LICENSE-MIT", "./README.md", "./package.json"];
    expect(files.filter((each) => !each.startsWith("./dist/client/"))).toEqual(papers);
    expect(
      files.filter((each) => !/^\.\/dist\/client\/(client|wire)\/.*(\.js|\.d\.ts)$|^\.\/[^/]+$/.test(each)),
    ).toEqual([]);
  });

  it("is imported by Node and by Bun without any dependency", () => {
    const project = install();
    const program = 'import { connect } from "ironbus/client";\nconsole.log(typeof connect);\n';
    writeFileSync(path.join(project, "program.mjs"), program);
    for (const runtime of ["node", BUN]) {
      expect(run([runtime, "program.mjs"], { cwd: project })).toEqual({ code: 0, stdout: "function\n", stderr: "" });
    }
  });

  it.each([
    { knows: "Node and not Bun", lib: ["ES2022"], types: ["node"] },
    { knows: "a browser", lib: ["ES2022", "DOM"], types: [] },
    { knows: "the language alone", lib: ["ES2022"], types: [] },
  ])("its types hold in a strict project that knows $knows", ({ lib, types }) => {
    const project = install();
    writeFileSync(
      path.join(project, "program.ts"),
      [
        'import { type CallOptions, connect } from "ironbus/client";',
        'await using client = await connect("127.0.0.1:7777");',
        'const offset: number = await client.produce("x", { key: "k" });',
        "// @ts-expect-error an offset is a number",
        'const wrong: string = await client.produce("x");',
        "// @ts-expect-error a signal is no text",
        'const options: CallOptions = { signal: "x" };',
        ...(lib.includes("DOM") || types.length > 0 ? ["await client.ping({ signal: AbortSignal.timeout(1) });"] : []),
        "export { offset, options, wrong };",
      ].join("\n"),
    );
    if (types.length > 0) {
      symlinkSync(path.join(ROOT, "node_modules", "@types"), path.join(project, "node_modules", "@types"));
    }
    const compilerOptions = {
      strict: true,
      noEmit: true,
      skipLibCheck: false,
      target: "ES2022",
      lib,
      module: "NodeNext",
      moduleResolution: "NodeNext",
      types,
    };
    writeFileSync(path.join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["program.ts"] }));
    const tsc = path.join(ROOT, "node_modules", ".bin", "tsc");
    expect(run([tsc, "--project", "tsconfig.json"], { cwd: project })).toEqual({ code: 0, stdout: "", stderr: "" });
  });
});
