import { execFileSync, spawn, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { ADDON_VERSION, toAddon } from "../../src/runtime/native/addon.ts";
import { addonPath as addonFile, runtimes } from "./native-fixtures.ts";

const root = join(import.meta.dirname, "../..");

/** Prints what loading the file given as an argument, as if it were embedded, came to. */
const PROGRAM = `
  import { readFileSync } from "node:fs";
  import { loadBytes } from ${JSON.stringify(join(root, "src/runtime/native/load.ts"))};
  try {
    const { version } = loadBytes(readFileSync(process.argv[2]), process.argv.slice(3)) as { version(): string };
    console.log("version " + version());
  } catch (error) {
    console.log("error " + (error as Error).message);
  }`;

it("the version of the sources is that of the crate", () => {
  const manifest = fs.readFileSync(join(root, "native/Cargo.toml"), "utf8");
  expect(/^version = "(.*)"/m.exec(manifest)?.[1]).toBe(ADDON_VERSION);
});

it("an addon of another version is refused", () => {
  expect(() => toAddon({ version: () => "0.0.9" })).toThrow(
    `the native addon is of version 0.0.9, not ${ADDON_VERSION}: build it again`,
  );
  for (const none of [{}, null, undefined, 5]) expect(() => toAddon(none)).toThrow("of version unknown");
});

describe("loadAddon and loadCodec", () => {
  afterEach(() => {
    vi.doUnmock("../../src/runtime/native/embedded.ts");
    vi.resetModules();
  });

  async function loadWith(embedded: { embeddedAddon?: () => Uint8Array; addonFile?: string }) {
    vi.resetModules();
    vi.doMock("../../src/runtime/native/embedded.ts", () => ({
      embeddedAddon: undefined,
      addonFile: undefined,
      ...embedded,
    }));
    const { loadAddon } = await import("../../src/runtime/native/addon.ts");
    const { loadCodec } = await import("../../src/runtime/native/codec.ts");
    return { loadAddon, loadCodec };
  }

  it("a missing file leaves the TypeScript codec with one line that names it", async () => {
    const { loadAddon, loadCodec } = await loadWith({ addonFile: "/nowhere/ironbus.node" });
    const { codec, warning } = loadCodec();
    expect(codec.kind).toBe("typescript");
    expect(warning).toContain("running without the native addon");
    expect(warning).toContain("/nowhere/ironbus.node");
    expect(warning).not.toContain("\n");
    expect(loadAddon().error).toBe(loadAddon().error);
  });

  it("a program without any addon says so", async () => {
    const { loadAddon } = await loadWith({});
    expect(loadAddon().error?.message).toBe("this build has no native addon");
  });

  it("damaged bytes are an error each time, never an empty addon", async () => {
    const { loadAddon } = await loadWith({ embeddedAddon: () => new Uint8Array(5000) });
    const first = loadAddon();
    expect(first.error?.message).toContain("cannot unpack the native addon");
    expect(first.error?.message).toContain(tmpdir());
    expect(loadAddon()).toBe(first);
  });

  it.skipIf(!fs.existsSync(addonFile))(
    "embedded bytes give the addon (skipped only where none was built)",
    async () => {
      const { loadAddon, loadCodec } = await loadWith({ embeddedAddon: () => fs.readFileSync(addonFile) });
      const { addon, error } = loadAddon();
      expect(error).toBeUndefined();
      expect(addon?.crc32c(Buffer.from("123456789"), 0, 9)).toBe(0xe3069283);
      expect(loadCodec()).toEqual({ codec: expect.objectContaining({ kind: "addon" }) });
    },
  );
});

describe.skipIf(!fs.existsSync(addonFile))("unpacking (skipped only where no addon was built)", () => {
  let directory: string;
  beforeAll(() => {
    directory = fs.mkdtempSync(join(tmpdir(), "ironbus-test-"));
    fs.writeFileSync(join(directory, "program.ts"), PROGRAM);
    // What Node runs is a bundle, as in a release.
    const bundler = join(root, "node_modules/.bin/bun");
    const bundle = [
      "build",
      "--target=node",
      `--outfile=${join(directory, "program.mjs")}`,
      join(directory, "program.ts"),
    ];
    expect(spawnSync(bundler, bundle).status).toBe(0);
  });
  afterAll(() => fs.rmSync(directory, { recursive: true, force: true }));

  const place = (name: string) => fs.mkdtempSync(join(directory, `${name}-`));

  /** Mounts a small file system with `options`. */
  function mount(options: string): { path: string; unmount(): void } {
    const path = place("mount");
    execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", path]);
    return { path, unmount: () => execFileSync("umount", [path]) };
  }

  describe.each(runtimes)("under $name", ({ runtime }) => {
    const argumentsOf = (file: string, fallbacks: string[]) => [join(directory, "program.mjs"), file, ...fallbacks];
    const load = (temporary: string, { file = addonFile, fallbacks = [] as string[], cwd = directory } = {}) => {
      const env = { ...process.env, TMPDIR: temporary };
      const ended = spawnSync(runtime, argumentsOf(file, fallbacks), { env, cwd, encoding: "utf8", timeout: 30_000 });
      expect(ended.stderr).toBe("");
      return ended.stdout.trim();
    };
    const works = `version ${ADDON_VERSION}`;

    it("works and leaves nothing behind", () => {
      const temporary = place("tmp");
      expect(load(temporary)).toBe(works);
      expect(fs.readdirSync(temporary)).toEqual([]);
    });

    it("twenty starts at once work", async () => {
      const temporary = place("tmp");
      const starts = Array.from({ length: 20 }, () => {
        const child = spawn(runtime, argumentsOf(addonFile, []), { env: { ...process.env, TMPDIR: temporary } });
        let output = "";
        child.stdout.on("data", (data) => {
          output += data;
        });
        return new Promise<string>((resolve) => child.on("close", () => resolve(output.trim())));
      });
      expect(await Promise.all(starts)).toEqual(starts.map(() => works));
      expect(fs.readdirSync(temporary)).toEqual([]);
    });

    it("damaged leftovers of any name are neither used nor in the way", () => {
      const temporary = place("tmp");
      fs.mkdirSync(join(temporary, "ironbus-addon-abc123"));
      fs.writeFileSync(join(temporary, "ironbus-addon-abc123/addon.node"), "damaged");
      fs.writeFileSync(join(temporary, "ironbus-addon-"), "damaged");
      expect(load(temporary)).toBe(works);
    });

    it("a missing temporary directory gives way to the given ones", () => {
      const fallback = place("fallback");
      expect(load(join(directory, "absent"), { fallbacks: [fallback] })).toBe(works);
      expect(fs.readdirSync(fallback)).toEqual([]);
    });

    it.skipIf(process.geteuid?.() !== 0).each([
      ["read-only", "ro"],
      ["noexec", "noexec"],
      ["full", "size=4096"],
    ])("a %s temporary directory gives way to shared memory (needs root)", (_name, options) => {
      const mounted = mount(options);
      try {
        expect(load(mounted.path)).toBe(works);
        expect(fs.readdirSync(mounted.path)).toEqual([]);
      } finally {
        mounted.unmount();
      }
    });

    it("a directory in which others may rename files is not used", () => {
      const shared = place("shared");
      fs.chmodSync(shared, 0o777);
      expect(load(shared)).toBe(works);
      expect(load(shared, { file: "/dev/null" })).toContain(`${shared}: others may rename files in it (no sticky bit)`);
      fs.chmodSync(shared, 0o1777);
      expect(load(shared, { file: "/dev/null" })).not.toContain("sticky");
    });

    it.skipIf(process.geteuid?.() !== 0)("a directory of another user is not used (needs root)", () => {
      const foreign = place("foreign");
      fs.chownSync(foreign, 12345, 12345);
      expect(load(foreign)).toBe(works);
      expect(load(foreign, { file: "/dev/null" })).toContain(`${foreign}: belongs to another user`);
    });

    it("a damaged addon is refused everywhere, in one line that says where and why", () => {
      const damaged = join(directory, "damaged.node");
      const bytes = fs.readFileSync(addonFile);
      bytes.fill(0, 0, 4096);
      fs.writeFileSync(damaged, bytes);
      const temporary = place("tmp");
      const cwd = place("cwd");
      const said = load(temporary, { file: damaged, cwd });
      expect(said).toMatch(/^error cannot unpack the native addon \(.*\)$/);
      for (const tried of [temporary, "/dev/shm", cwd]) expect(said).toContain(`${tried}: `);
      expect(fs.readdirSync(temporary)).toEqual([]);
    });
  });
});
