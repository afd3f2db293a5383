import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { restoreVerb } from "../../src/cli/verbs/restore.ts";
import { copyOf, runVerb } from "./examine.ts";
import { small } from "./healthy.ts";
import { DIRECTORIES, readImage, shown, writeImage } from "./image.ts";
import { backup, MANIFESTS } from "./images.ts";

function target(): string {
  const directory = mkdtempSync(join(tmpdir(), "ironbus-corpus-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return join(directory, "data");
}

describe("backups", () => {
  it("storage.md 26.49: one that is whole restores to the same files", async () => {
    const from = target();
    writeImage(from, backup());
    const to = target();
    expect(await runVerb(restoreVerb, ["--from", from, "--data-dir", to, "--json"])).toMatchObject({ code: 0 });
    const restored = readImage(to);
    const original = small();
    for (const image of [restored, original]) image.delete("LOCK");
    expect(shown(restored)).toEqual(shown(original));
  });

  it("storage.md 26.49: a flipped bit is refused, with the name of the file, and nothing is written", async () => {
    const from = join(DIRECTORIES, "backup-with-a-flipped-bit");
    const to = target();
    const { code, stdout, stderr } = await runVerb(restoreVerb, ["--from", from, "--data-dir", to, "--json"]);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(
      /^corrupt or incomplete backup: data\/seg-0000000000000001\.log: its checksum is \d+ instead of \d+$/,
    );
    expect(readdirSync(join(to, ".."))).toEqual([]);
  });

  const REFUSALS: Readonly<Record<keyof typeof MANIFESTS, string>> = {
    "no magic": "it does not begin with IBBKP and a version",
    "version 2": "backup format version 2 is newer than this build supports (1)",
    "no range": "no range on line 2",
    "range that ends before it begins": "the range ends before it begins",
    "file that is not listed": "it announces 1 file(s) and lists 0",
    "last line without its end": "the last line is cut",
    "path that leads out": "the path on line 4 is refused: it has an unsafe part",
    "absolute path": "the path on line 4 is refused: it has an unsafe part",
    "path twice": "it lists a twice",
    "number with a leading zero": "line 4 has the number 00",
    "checksum of 33 bits": "line 4 has no 32-bit checksum",
  };
  it.each(Object.keys(MANIFESTS))("storage.md 26.49: a manifest is refused: %s", async (name) => {
    const from = copyOf("backup-with-a-flipped-bit");
    writeFileSync(join(from, "MANIFEST"), MANIFESTS[name]);
    const to = target();
    const refusal = name === "version 2" ? REFUSALS[name] : `invalid backup manifest: ${REFUSALS[name]}`;
    expect(await runVerb(restoreVerb, ["--from", from, "--data-dir", to])).toEqual({
      code: 1,
      stdout: "",
      stderr: refusal,
    });
    expect(readdirSync(join(to, ".."))).toEqual([]);
  });
});
