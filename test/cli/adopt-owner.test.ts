import { chownSync, linkSync, lstatSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { OwnerAdoption } from "../../src/cli/adopt-owner.ts";

const NOBODY = 65_534;

// Only root can give files away, and only what root makes is given away.
describe.runIf(process.geteuid?.() === 0)("what root makes in a data directory of somebody else", () => {
  let place: string;
  let directory: string;
  const ownerOf = (path: string): number => lstatSync(path).uid;

  beforeEach(() => {
    place = mkdtempSync(join(tmpdir(), "ironbus-owner-"));
    directory = join(place, "data");
    mkdirSync(directory);
    chownSync(directory, NOBODY, NOBODY);
  });
  afterEach(() => rmSync(place, { recursive: true }));

  it("becomes the owner's, in subdirectories too", () => {
    const adoption = new OwnerAdoption(directory);
    mkdirSync(join(directory, "quarantine"));
    writeFileSync(join(directory, "quarantine", "blob"), "x");
    writeFileSync(join(directory, "LOCK"), "");
    adoption.finish();
    const made = ["quarantine", "quarantine/blob", "LOCK"].map((name) => ownerOf(join(directory, name)));
    expect(made).toEqual([NOBODY, NOBODY, NOBODY]);
  });

  it("does not take what was there before with it", () => {
    mkdirSync(join(directory, "private"));
    writeFileSync(join(directory, "private", "key"), "secret");
    const adoption = new OwnerAdoption(directory);
    writeFileSync(join(directory, "private", "new"), "");
    adoption.finish();
    const owners = ["private", "private/key", "private/new"].map((name) => ownerOf(join(directory, name)));
    expect(owners).toEqual([0, 0, NOBODY]);
  });

  it("does not take along what the owner linked into it meanwhile", () => {
    const outside = join(place, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "shadow"), "secret");
    const adoption = new OwnerAdoption(directory);
    linkSync(join(outside, "shadow"), join(directory, "hard"));
    symlinkSync(join(outside, "shadow"), join(directory, "soft"));
    symlinkSync(outside, join(directory, "elsewhere"));
    adoption.finish();
    expect([ownerOf(outside), ownerOf(join(outside, "shadow"))]).toEqual([0, 0]);
  });

  it("stays root's in root's own directory, and a directory that is not there is no error", () => {
    chownSync(directory, 0, 0);
    const adoption = new OwnerAdoption(directory);
    const absent = new OwnerAdoption(join(place, "absent"));
    writeFileSync(join(directory, "LOCK"), "");
    adoption.finish();
    absent.finish();
    expect(ownerOf(join(directory, "LOCK"))).toBe(0);
  });
});
