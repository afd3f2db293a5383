import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { BUN, cleanUp, ROOT, run, temporaryDirectory } from "./program.ts";

afterEach(cleanUp);

const VALUE = "export const value = 1;\nexport interface Shape {\n  readonly x: number;\n}\n";

/** Runs the import rule over a tree in which one file imports another; gives the names of the rules that fired. */
function broken(file: string, imports: string, target?: string): string[] {
  const directory = temporaryDirectory();
  for (const name of [".dependency-cruiser.mjs", "package.json"]) {
    copyFileSync(path.join(ROOT, name), path.join(directory, name));
  }
  symlinkSync(path.join(ROOT, "node_modules"), path.join(directory, "node_modules"));
  const write = (name: string, text: string) => {
    mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
    writeFileSync(path.join(directory, name), text);
  };
  if (target !== undefined) {
    write(target, VALUE);
  }
  write(file, `${imports}\n`);
  const cruiser = path.join(ROOT, "node_modules", ".bin", "depcruise");
  const command = [BUN, "--bun", cruiser, "--config", ".dependency-cruiser.mjs", "--output-type", "json", "src"];
  const { stdout } = run(command, { cwd: directory });
  const violations: { rule: { name: string } }[] = JSON.parse(stdout).summary.violations;
  return violations.map(({ rule }) => rule.name).sort();
}

describe("the import rule", () => {
  const allowed = [
    ["src/main.ts", "src/cli/x.ts"],
    ["src/cli/a.ts", "src/broker/x.ts"],
    ["src/cli/a.ts", "src/client/x.ts"],
    ["src/broker/a.ts", "src/queue/x.ts"],
    ["src/broker/a.ts", "src/log/x.ts"],
    ["src/cli/a.ts", "src/observe/x.ts"],
    ["src/observe/a.ts", "src/broker/x.ts"],
    ["src/log/a.ts", "src/wire/x.ts"],
    ["src/log/a.ts", "src/runtime/x.ts"],
    ["src/queue/a.ts", "src/wire/x.ts"],
    ["src/client/a.ts", "src/wire/x.ts"],
  ];
  it.each(allowed)("%s may import %s", (from, to) => {
    const specifier = path.posix.relative(path.posix.dirname(from), to);
    expect(broken(from, `export { value } from "${specifier.startsWith(".") ? "" : "./"}${specifier}";`, to)).toEqual(
      [],
    );
  });

  const forbidden = [
    ["src/wire/a.ts", "src/log/x.ts", "wire-imports"],
    ["src/wire/a.ts", "src/runtime/x.ts", "wire-imports"],
    ["src/runtime/a.ts", "src/log/x.ts", "runtime-imports"],
    ["src/queue/a.ts", "src/log/x.ts", "queue-imports"],
    ["src/queue/a.ts", "src/runtime/x.ts", "queue-and-wire-are-pure"],
    ["src/log/a.ts", "src/queue/x.ts", "log-imports"],
    ["src/log/a.ts", "src/broker/x.ts", "log-imports"],
    ["src/broker/a.ts", "src/client/x.ts", "broker-imports"],
    ["src/broker/a.ts", "src/cli/x.ts", "nothing-imports-cli"],
    ["src/broker/a.ts", "src/observe/x.ts", "nothing-imports-observe"],
    ["src/observe/a.ts", "src/config/x.ts", "observe-imports"],
    ["src/client/a.ts", "src/runtime/x.ts", "client-imports"],
    ["src/client/a.ts", "src/broker/x.ts", "client-imports"],
    ["src/config/a.ts", "src/broker/x.ts", "config-imports-types-only"],
    ["src/config/a.ts", "src/log/x.ts", "config-imports"],
  ];
  it.each(forbidden)("%s may not import %s", (from, to, rule) => {
    const specifier = path.posix.relative(path.posix.dirname(from), to);
    expect(broken(from, `export { value } from "${specifier}";`, to)).toContain(rule);
    const lazily = `export const later = () => import("${specifier}");`;
    expect(broken(from, lazily, to)).toContain(rule);
  });

  it("config may take types from broker", () => {
    expect(broken("src/config/a.ts", 'export type { Shape } from "../broker/x.ts";', "src/broker/x.ts")).toEqual([]);
  });

  it("queue and wire may not use a built-in", () => {
    expect(broken("src/queue/a.ts", 'import "node:fs";')).toEqual(["queue-and-wire-use-no-built-ins"]);
    expect(broken("src/wire/a.ts", 'import "node:crypto";')).toEqual(["queue-and-wire-use-no-built-ins"]);
  });

  it("Bun's own modules stay in runtime", () => {
    expect(broken("src/log/a.ts", 'import "bun:ffi";')).toEqual(["no-bun-modules"]);
    expect(broken("src/runtime/a.ts", 'import "bun:ffi";')).toEqual([]);
  });

  it("the client uses no package, the rest only packages that are pinned", () => {
    expect(broken("src/client/a.ts", 'import "crc-32";')).toEqual(["package-without-dependencies"]);
    expect(broken("src/log/a.ts", 'import "crc-32";')).toEqual([]);
    expect(broken("src/log/a.ts", 'import "no-such-package";')).not.toEqual([]);
  });

  it("two files may not import each other", () => {
    const circle = 'export * from "./a.ts";';
    expect(broken("src/log/a.ts", circle)).toEqual(["no-cycles"]);
  });
});
