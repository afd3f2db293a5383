// The cross compiler: a Rust with the standard library of every target, and zig as the linker for a low glibc floor.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { run, say } from "../steps.mjs";
import { cacheDirectory, cached, checkHash } from "./cache.ts";
import { type PinnedPackage, toolchain } from "./targets.ts";

/** Debian's file name of a package: the epoch's colon is escaped. */
function debFile({ name, version }: PinnedPackage): string {
  const [plain, architecture = "amd64"] = name.split(":");
  return `${plain}_${version.replace(":", "%3a")}_${architecture}.deb`;
}

function fetchRust(into: string): void {
  const { packages } = toolchain.rust;
  const lists = path.join(into, "lists");
  const debs = path.join(into, "debs");
  mkdirSync(path.join(lists, "partial"), { recursive: true });
  mkdirSync(debs);
  // Package lists of our own: the machine's set of architectures stays as it is.
  const options = [
    `Dir::State::lists=${lists}`,
    "APT::Architectures::=amd64",
    "APT::Architectures::=arm64",
    "APT::Architectures::=armhf",
    "Dir::Cache::pkgcache=",
    "Dir::Cache::srcpkgcache=",
    "APT::Sandbox::User=root",
    "Acquire::Retries=3",
  ].flatMap((each) => ["-o", each]);
  const names = packages.map(({ name, version }) => `${name}=${version}`);
  // Its verdict does not count: one list out of many may be in the middle of a change on the server. Whether the ones
  // that matter are there, the download tells.
  spawnSync("apt-get", [...options, "-qq", "update"], { stdio: "ignore" });
  run("compiler", "apt-get", [...options, "-qq", "download", ...names], { cwd: debs, quiet: true });
  for (const each of packages) {
    const file = path.join(debs, debFile(each));
    checkHash(file, "sha256", "hex", each.sha256);
    run("compiler", "dpkg-deb", ["-x", file, into]);
  }
  rmSync(lists, { recursive: true });
  rmSync(debs, { recursive: true });
}

/** The unpacked compiler finds its own libraries only when it is told where they are. */
function writeWrappers(rust: string): string {
  const bin = path.join(rust, "bin");
  mkdirSync(bin, { recursive: true });
  for (const tool of ["rustc", "cargo"]) {
    const file = path.join(bin, tool);
    const libraries = ["usr/lib", "lib"].map((each) => path.join(rust, each, "x86_64-linux-gnu")).join(":");
    if (!existsSync(file)) {
      writeFileSync(
        file,
        `#!/bin/sh\nLD_LIBRARY_PATH="${libraries}" exec "${path.join(rust, "usr", "bin", tool)}" "$@"\n`,
      );
      chmodSync(file, 0o755);
    }
  }
  return bin;
}

function fetchLinker(into: string): void {
  const wheels = path.join(into, "wheels");
  mkdirSync(wheels);
  const names = toolchain.linker.packages.map(({ name, version }) => `${name}==${version}`);
  const pip = ["-m", "pip", "--disable-pip-version-check", "--quiet"];
  run("linker", "python3", [...pip, "download", "--no-deps", "--only-binary=:all:", "--dest", wheels, ...names]);
  for (const { name, version, sha256 } of toolchain.linker.packages) {
    const start = `${name.replace("-", "_")}-${version}-`;
    const file = readdirSync(wheels).find((each) => each.startsWith(start));
    checkHash(path.join(wheels, file ?? start), "sha256", "hex", sha256);
  }
  const files = readdirSync(wheels).map((each) => path.join(wheels, each));
  // A plain directory, not a virtual environment: nothing in it names the place where it was made.
  run("linker", "python3", [
    ...pip,
    "install",
    "--root-user-action=ignore",
    "--no-deps",
    "--no-index",
    "--target",
    into,
    ...files,
  ]);
  rmSync(wheels, { recursive: true });
}

/**
 * The environment in which `cargo zigbuild --target <triple>.<glibc>` works for every target of targets/: fetches the
 * compiler and the linker when they are not in the cache. Needs an x86-64 Debian 12 (apt-get, dpkg-deb) and python3.
 */
export function crossEnvironment(): Record<string, string | undefined> {
  const rust = cached(`rust-${toolchain.rust.version}`, (into) => {
    say(`ironbus: fetching Rust ${toolchain.rust.version} with the standard libraries of all targets`);
    fetchRust(into);
  });
  const [zig, zigbuild] = toolchain.linker.packages;
  const linker = cached(`zig-${zig.version}-zigbuild-${zigbuild.version}`, (into) => {
    say(`ironbus: fetching zig ${zig.version} and cargo-zigbuild ${zigbuild.version}`);
    fetchLinker(into);
  });
  return {
    PATH: [writeWrappers(rust), path.join(linker, "bin"), process.env.PATH].join(":"),
    PYTHONPATH: linker,
    RUSTC: undefined,
    RUSTFLAGS: undefined,
    CARGO_HOME: path.join(cacheDirectory, "cargo"),
    CARGO_TARGET_DIR: path.join(cacheDirectory, "target"),
    CARGO_ZIGBUILD_CACHE_DIR: path.join(cacheDirectory, "zigbuild"),
    ZIG_GLOBAL_CACHE_DIR: path.join(cacheDirectory, "zig-global"),
    ZIG_LOCAL_CACHE_DIR: path.join(cacheDirectory, "zig-local"),
  };
}
