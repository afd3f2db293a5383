// The facts of targets/*.toml, as the build reads them.
import { readFileSync } from "node:fs";
import path from "node:path";
import { root, StepError } from "../steps.mjs";

/** One file of targets/: what a binary is built from and with. */
export interface Target {
  readonly name: string;
  readonly file: string;
  readonly runtime: {
    readonly kind: "bun" | "node";
    readonly bun_target?: string;
    readonly package: string;
    readonly version: string;
    readonly integrity: string;
    readonly executable: string;
    readonly strip?: string;
  };
  readonly addon: {
    readonly compiler: string;
    readonly linker: string;
    readonly rust_target: string;
    readonly node_name: string;
  };
  readonly needs: {
    readonly glibc: string;
    readonly cpu: string;
    readonly kernel: string;
    readonly packages: readonly string[];
  };
  readonly emulator: { readonly command: readonly string[] };
}

/** A file that is fetched by name and version and checked by its hash. */
export interface PinnedPackage {
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
}

/** targets/toolchain.toml. */
export interface Toolchain {
  readonly rust: { readonly version: string; readonly packages: readonly PinnedPackage[] };
  readonly linker: { readonly packages: readonly PinnedPackage[] };
  readonly host: { readonly packages: readonly string[] };
}

function read(name: string): object {
  return Bun.TOML.parse(readFileSync(path.join(root, "targets", `${name}.toml`), "utf8"));
}

/** All targets, in the order in which they are built. */
export const targets: readonly Target[] = ["x86_64", "aarch64", "armv7"].map((name) => read(name) as Target);

/** The tool chain of the cross builds. */
export const toolchain = read("toolchain") as Toolchain;

/** The target with this name ("linux-amd64"). */
export function targetNamed(name: string): Target {
  const found = targets.find((each) => each.name === name);
  if (found === undefined) {
    throw new StepError(`build: no target ${name}; there are ${targets.map((each) => each.name).join(", ")}`);
  }
  return found;
}
