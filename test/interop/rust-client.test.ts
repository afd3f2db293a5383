import { cpSync, existsSync, mkdtempSync, openSync, readdirSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cargo, DEADLINE_MS, endCargo, missing, type Outcome } from "./cargo.ts";

/** The command under test; relative paths in it start at the checkout's root. */
const COMMAND = process.env.IRONBUS_COMMAND ?? '["dist/ironbus"]';

const drive = (directory: string, command: string) =>
  cargo(["run", "--bin", "ironbus-interop", "--", directory], { IRONBUS_COMMAND: command });
const readSegments = (directory: string) => cargo(["run", "--bin", "ironbus-segments", "--", directory]);

/** All checks passed, and there were at least `least` of them. */
function expectAllPassed({ code, lines, stderr }: Outcome, least: number): void {
  expect(lines.filter((line) => line.startsWith("FAIL"))).toEqual([]);
  expect(code, `${lines.at(-1)}\n${stderr}`).toBe(0);
  const [, passed, failed] = /^(\d+) passed, (\d+) failed$/.exec(lines.at(-1) ?? "") ?? [];
  expect(Number(passed)).toBe(lines.filter((line) => line.startsWith("ok ")).length);
  expect(Number(passed)).toBeGreaterThanOrEqual(least);
  expect(failed).toBe("0");
}

describe.skipIf(missing !== "")(`upstream's published Rust client${missing}`, () => {
  let directory: string;
  let left: string;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "ironbus-interop-"));
    left = join(directory, "left");
    const { code, stderr } = await cargo(["build"]);
    expect(code, stderr).toBe(0);
  }, DEADLINE_MS);

  afterAll(() => {
    endCargo();
    rmSync(directory, { recursive: true, force: true });
  });

  it(
    "wire.md 22.75, the Rust client: works unchanged, and goes on after kill -9 of the broker",
    async () => {
      expectAllPassed(await drive(left, COMMAND), 120);
    },
    DEADLINE_MS,
  );

  it(
    "storage.md 3, 6, 8: upstream's codecs read what the broker left on the disk",
    async () => {
      expectAllPassed(await readSegments(left), 20);
    },
    DEADLINE_MS,
  );

  it(
    "a flipped bit in a segment is found",
    async () => {
      const damaged = join(directory, "damaged");
      for (const name of ["volume", "volume.ledger"]) {
        cpSync(join(left, name), join(damaged, name), { recursive: true });
      }
      const segments = readdirSync(join(damaged, "volume")).filter((name) => /^seg-.*\.log$/.test(name));
      const file = openSync(join(damaged, "volume", segments.sort()[1]), "r+");
      const byte = new Uint8Array(1);
      readSync(file, byte, 0, 1, 5_000);
      byte[0] ^= 0x10;
      writeSync(file, byte, 0, 1, 5_000);
      const { code, lines } = await readSegments(damaged);
      expect(code).toBe(1);
      expect(lines[0]).toMatch(/^FAIL volume: every segment decodes/);
    },
    DEADLINE_MS,
  );

  it(
    "a broker that does not start fails the run, with the reason",
    async () => {
      const { code, lines } = await drive(join(directory, "no-broker"), '["false"]');
      expect(code).toBe(1);
      expect(lines[0]).toMatch(/^FAIL session: the broker starts: .*false did not say where it listens/);
      expect(lines.at(-1)).toMatch(/^0 passed, \d+ failed$/);
      expect(existsSync(join(directory, "no-broker", "session"))).toBe(false);
    },
    DEADLINE_MS,
  );
});
