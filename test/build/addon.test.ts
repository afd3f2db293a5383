import { copyFileSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { BINARY, CAN_MOUNT, cleanUp, HAS_ADDON, ROOT, run, serve, temporaryDirectory } from "./program.ts";

afterEach(cleanUp);

const WITHOUT = "running without the native addon";

/** Runs the rest of a command in a mount namespace of its own, prepared by shell commands. */
const mounted = (...commands: string[]) => [
  "unshare",
  "--mount",
  "sh",
  "-c",
  `set -e; ${commands.join("; ")}; exec "$@"`,
  "sh",
];

// Without cargo there is no addon to unpack; mounts need root.
describe.skipIf(!HAS_ADDON)("the addon inside the executable", () => {
  it("loads, and leaves nothing in the temporary directory", async () => {
    const TMPDIR = temporaryDirectory();
    const { address, stderr } = await serve([BINARY], { environment: { TMPDIR } });
    expect(address).toBeDefined();
    expect(stderr).not.toContain(WITHOUT);
    expect(readdirSync(TMPDIR)).toEqual([]);
  });

  it("damaged leftovers of an earlier start do not matter", async () => {
    const TMPDIR = temporaryDirectory();
    mkdirSync(path.join(TMPDIR, "ironbus-addon-x"));
    for (const name of ["ironbus-addon-x/addon.node", "addon.node", ".bun-0-0000000000000000.node"]) {
      writeFileSync(path.join(TMPDIR, name), Buffer.alloc(400_000));
    }
    const { stderr } = await serve([BINARY], { environment: { TMPDIR } });
    expect(stderr).not.toContain(WITHOUT);
  });

  it("twenty starts at once all load it", async () => {
    const TMPDIR = temporaryDirectory();
    const starts = Array.from({ length: 20 }, () => serve([BINARY], { environment: { TMPDIR } }));
    for (const { address, stderr } of await Promise.all(starts)) {
      expect(address).toBeDefined();
      expect(stderr).not.toContain(WITHOUT);
    }
    expect(readdirSync(TMPDIR)).toEqual([]);
  });

  it.skipIf(!CAN_MOUNT)("a read-only temporary directory: another place is found", async () => {
    const TMPDIR = temporaryDirectory();
    const wrapper = mounted(`mount -t tmpfs -o ro none ${TMPDIR}`);
    const { address, stderr } = await serve([...wrapper, BINARY], { environment: { TMPDIR } });
    expect(address).toBeDefined();
    expect(stderr).not.toContain(WITHOUT);
  });

  it.skipIf(!CAN_MOUNT)("a noexec temporary directory: another place is found", async () => {
    const TMPDIR = temporaryDirectory();
    const wrapper = mounted(`mount -t tmpfs -o noexec none ${TMPDIR}`);
    const { address, stderr } = await serve([...wrapper, BINARY], { environment: { TMPDIR } });
    expect(address).toBeDefined();
    expect(stderr).not.toContain(WITHOUT);
  });

  it.skipIf(!CAN_MOUNT)("nowhere to load it from: one warning says so, and the broker serves", async () => {
    const place = temporaryDirectory();
    const copy = path.join(temporaryDirectory(), "ironbus");
    copyFileSync(BINARY, copy);
    // Every place that is tried lies on something that cannot execute; only the program's own directory stays as it is.
    const wrapper = mounted(
      `mount -t tmpfs -o noexec none ${place}`,
      "mount -t tmpfs -o noexec none /dev/shm",
      `mkdir ${place}/tmp ${place}/data`,
      `cd ${place}`,
    );
    const surroundings = { environment: { TMPDIR: `${place}/tmp` }, dataDir: `${place}/data` };
    const { address, stderr } = await serve([...wrapper, copy], surroundings);
    expect(address).toBeDefined();
    const warnings = stderr.split("\n").filter((line) => line.includes(WITHOUT));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain(`${place}/tmp`);
    expect(warnings[0]).toContain("/dev/shm");
  });

  it.skipIf(!CAN_MOUNT)("works with the source tree out of reach", async () => {
    const copy = path.join(temporaryDirectory(), "ironbus");
    copyFileSync(BINARY, copy);
    const wrapper = mounted(`mount -t tmpfs none ${ROOT}`);
    expect(run([...wrapper, "ls", "-A", ROOT]).stdout).toBe("");
    const { address, stderr } = await serve([...wrapper, copy], { cwd: "/" });
    expect(address).toBeDefined();
    expect(stderr).not.toContain(WITHOUT);
  });
});
