import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatManifest, type Manifest, parseManifest, unrepresentable } from "../../src/offline/manifest.ts";
import { OfflineError } from "../../src/offline/offline-error.ts";
import { ascii, thrown } from "../log/fixtures.ts";

const MANIFEST: Manifest = {
  earliestRetained: 3,
  durableHead: 10,
  cursors: 2,
  dlqRecords: 1,
  files: [
    { crc: 0, lengthBytes: 0, path: "LOCK.not" },
    { crc: 4294967295, lengthBytes: 234, path: "seg-0000000000000000.log" },
    { crc: 17, lengthBytes: 9, path: "dlq/a name  with blanks " },
  ],
};

const TEXT = [
  "IBBKP 1",
  "range 3 10 cursors 2 dlq 1",
  "files 3",
  "0 0 LOCK.not",
  "4294967295 234 seg-0000000000000000.log",
  "17 9 dlq/a name  with blanks ",
  "",
].join("\n");

const part = fc
  .string({ unit: "grapheme", minLength: 1, maxLength: 12 })
  .filter((name) => !name.includes("/") && name !== "." && name !== ".." && unrepresentable(name) === undefined);
/** Names below d0/, d1/, ... so that none is a directory of another one. */
const files = fc
  .uniqueArray(fc.tuple(fc.nat(3), part), { selector: ([directory, name]) => `d${directory}/${name}`, maxLength: 8 })
  .chain((paths) =>
    fc.tuple(
      ...paths.map(([directory, name]) =>
        fc.record({
          crc: fc.nat(0xffff_ffff),
          lengthBytes: fc.maxSafeNat(),
          path: fc.constant(`d${directory}/${name}`),
        }),
      ),
    ),
  );
const manifests = fc
  .record({ a: fc.maxSafeNat(), b: fc.maxSafeNat(), cursors: fc.nat(), dlqRecords: fc.nat(), files })
  .map(({ a, b, ...rest }): Manifest => ({ earliestRetained: Math.min(a, b), durableHead: Math.max(a, b), ...rest }));

describe("the manifest of a backup", () => {
  it("storage.md 21.1: has the frozen form", () => {
    expect(new TextDecoder().decode(formatManifest(MANIFEST))).toBe(TEXT);
    expect(parseManifest(ascii(TEXT))).toEqual(MANIFEST);
  });

  it("is read as it was written, whatever it holds", () => {
    fc.assert(
      fc.property(manifests, (manifest) => {
        expect(parseManifest(formatManifest(manifest))).toEqual(manifest);
      }),
    );
  });

  it.each([
    ["nothing", "", "does not begin with IBBKP"],
    ["another magic", TEXT.replace("IBBKP", "IBBKQ"), "does not begin with IBBKP"],
    ["version 0", TEXT.replace("IBBKP 1", "IBBKP 0"), "no format version 0"],
    ["no range", TEXT.replace("range", "reach"), "no range on line 2"],
    ["a range backwards", TEXT.replace("3 10", "11 10"), "ends before it begins"],
    ["no count", TEXT.replace("files 3", "files"), "no file count on line 3"],
    ["a line too few", TEXT.replace(/[^\n]*\n$/, ""), "announces 3 file(s) and lists 2"],
    ["a line too many", `${TEXT}1 1 x\n`, "announces 3 file(s) and lists 4"],
    ["a cut last line", TEXT.slice(0, -1), "the last line is cut"],
    ["a huge count", TEXT.replace("files 3", "files 99999999999999999999"), "99999999999999999999"],
    ["a length above 2^53", TEXT.replace(" 234 ", " 9007199254740993 "), "line 5 has the number"],
    ["a leading zero", TEXT.replace(" 234 ", " 0234 "), "line 5 has the number 0234"],
    ["a checksum above 32 bits", TEXT.replace("4294967295", "4294967296"), "line 5 has no 32-bit checksum"],
    ["a double blank", TEXT.replace("17 9 ", "17  9 "), "line 6 names no file"],
    ["an absolute path", TEXT.replace("dlq/", "/dlq/"), "line 6 is refused"],
    ["a path out of the directory", TEXT.replace("dlq/", "../"), "line 6 is refused"],
    ["a path through a dot", TEXT.replace("dlq/", "dlq/./"), "line 6 is refused"],
    ["an empty part", TEXT.replace("dlq/", "dlq//"), "line 6 is refused"],
    ["a control character", TEXT.replace("dlq/", "dlq/\u0000"), "line 6 is refused"],
    ["nothing behind the length", TEXT.replace("17 9 dlq/a name  with blanks ", "17 9 "), "line 6 names no file"],
    ["the lock", TEXT.replace("LOCK.not", "LOCK"), "lists LOCK"],
    ["a file twice", TEXT.replace("LOCK.not", "seg-0000000000000000.log"), "twice"],
    ["a file that is a directory", TEXT.replace("LOCK.not", "dlq"), "dlq is both a file and a directory"],
  ])("refuses %s", (_, text, message) => {
    const error = thrown(() => parseManifest(ascii(text)));
    expect(error).toMatchObject({ name: "OfflineError", kind: "InvalidManifest" });
    expect(error.message).toMatch(/^invalid backup manifest: /);
    expect(error.message).toContain(message);
  });

  it("storage.md 21.2: names a newer version", () => {
    expect(thrown(() => parseManifest(ascii(TEXT.replace("IBBKP 1", "IBBKP 2")))).message).toBe(
      "backup format version 2 is newer than this build supports (1)",
    );
  });

  it("refuses bytes that are not UTF-8, and more of them than it would hold", () => {
    expect(thrown(() => parseManifest(new Uint8Array([...ascii("IBBKP 1\n"), 0xff]))).message).toContain("not UTF-8");
    expect(thrown(() => parseManifest(new Uint8Array(17 * 1024 * 1024))).message).toContain("are more than");
  });

  it("any bytes are either a manifest that is written back the same, or a typed error", () => {
    const original = formatManifest(MANIFEST);
    const damaged = fc
      .array(fc.tuple(fc.nat(original.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 })
      .map((changes) => {
        const bytes = original.slice();
        for (const [at, value] of changes) bytes[at] = value;
        return bytes;
      });
    const inputs = fc.oneof(damaged, fc.uint8Array({ maxLength: 200 }), fc.string().map(ascii));
    fc.assert(
      fc.property(inputs, (bytes) => {
        let manifest: Manifest;
        try {
          manifest = parseManifest(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(OfflineError);
          return;
        }
        expect(Buffer.from(formatManifest(manifest))).toEqual(Buffer.from(bytes));
      }),
      { numRuns: 2000 },
    );
  });
});
