import { describe, expect, it } from "vitest";
import {
  Dictionaries,
  DictionaryError,
  dictionaryId,
  installDictionary,
  listDictionaries,
  MAX_DICTIONARY_BYTES,
  parseDictionaryName,
} from "../../src/log/dictionaries.ts";
import { ascii, ROOT } from "./fixtures.ts";
import { newDisk } from "./open-log.ts";

const content = ascii("temperature=21.5;humidity=40;");

function put(files: ReturnType<typeof newDisk>, name: string, bytes: Uint8Array): void {
  if (files.stat(`${ROOT}/dicts`) === undefined) files.makeDirectory(`${ROOT}/dicts`);
  const file = files.open(`${ROOT}/dicts/${name}`, "create");
  file.truncate(0);
  file.write(bytes, 0, bytes.length, 0);
  file.close();
}

describe("dictionaries", () => {
  it("the id is the head of the content's BLAKE3", () => {
    // BLAKE3 of nothing begins with af1349b9 (the hash's own test vectors).
    expect(dictionaryId(new Uint8Array(0))).toBe(0xb94913af);
    expect(dictionaryId(content)).not.toBe(dictionaryId(content.subarray(1)));
  });

  it("storage.md 13: what is installed is found, by another reader and after a power cut", () => {
    const files = newDisk();
    const id = installDictionary(files, ROOT, content);
    expect(new Dictionaries(files, ROOT).get(id)).toEqual(content);
    const image = files.imageAfterPowerCut({ style: "lost" });
    expect(new Dictionaries(image, ROOT).get(id)).toEqual(content);
    expect(listDictionaries(image, ROOT)).toEqual([id]);
  });

  it("storage.md 13: a file that does not hash to its name counts as absent, and is replaced by the one that does", () => {
    const files = newDisk();
    const id = dictionaryId(content);
    put(files, `${id}.zstd`, content.subarray(1));
    expect(new Dictionaries(files, ROOT).get(id)).toBeUndefined();
    expect(listDictionaries(files, ROOT)).toEqual([]);
    expect(installDictionary(files, ROOT, content)).toBe(id);
    expect(new Dictionaries(files, ROOT).get(id)).toEqual(content);
  });

  it("storage.md 13: write-once: one that is there is not written again", () => {
    const files = newDisk();
    const id = installDictionary(files, ROOT, content);
    const before = files.stat(`${ROOT}/dicts/${id}.zstd`)?.inode;
    expect(installDictionary(files, ROOT, content)).toBe(id);
    expect(files.stat(`${ROOT}/dicts/${id}.zstd`)?.inode).toBe(before);
  });

  it("one that a killed process left without its barriers, or whose barrier failed, is durable once it is installed again", () => {
    const path = `${ROOT}/dicts/${dictionaryId(content)}.zstd`;
    for (const killedAfter of ["make-directory", "write", "sync", "never"]) {
      const killed = newDisk();
      let next = killed;
      killed.onOperation = (operation) => {
        if (operation === killedAfter) next = killed.kill({ turns: "manual" });
      };
      if (killedAfter === "never") killed.fail({ operation: "sync", code: "EIO" });
      expect(() => installDictionary(killed, ROOT, content)).toThrow();
      const id = installDictionary(next, ROOT, content);
      expect(next.stat(path)).toBeDefined();
      const image = next.imageAfterPowerCut({ style: "lost" });
      expect(new Dictionaries(image, ROOT).get(id), killedAfter).toEqual(content);
    }
  });

  it("an absent id is undefined, without a directory too, and stays so while the reader lives", () => {
    const files = newDisk();
    const reader = new Dictionaries(files, ROOT);
    const id = dictionaryId(content);
    expect(reader.get(id)).toBeUndefined();
    installDictionary(files, ROOT, content);
    expect(reader.get(id)).toBeUndefined();
    expect(new Dictionaries(files, ROOT).get(id)).toEqual(content);
  });

  it("storage.md 13: nothing above 16 MiB is loaded or installed, nothing empty either", () => {
    const files = newDisk();
    const large = new Uint8Array(MAX_DICTIONARY_BYTES + 1);
    put(files, `${dictionaryId(large)}.zstd`, large);
    expect(new Dictionaries(files, ROOT).get(dictionaryId(large))).toBeUndefined();
    expect(() => installDictionary(files, ROOT, large)).toThrow(DictionaryError);
    expect(() => installDictionary(files, ROOT, new Uint8Array(0))).toThrow(DictionaryError);
  });

  it("keeps 16 MiB of them: what went is loaded again", () => {
    const files = newDisk();
    const ids = [1, 2, 3].map((fill) => installDictionary(files, ROOT, new Uint8Array(7_000_000).fill(fill)));
    const reader = new Dictionaries(files, ROOT);
    const [first, second] = [reader.get(ids[0]), reader.get(ids[1])];
    expect(reader.get(ids[0])).toBe(first);
    expect(reader.get(ids[2])?.[0]).toBe(3);
    expect(reader.get(ids[0])).toBe(first);
    const again = reader.get(ids[1]);
    expect([again === second, again?.[0]]).toEqual([false, 2]);
  });

  it.each([
    ["1.zstd", 1],
    ["4294967295.zstd", 4294967295],
    ["4294967296.zstd", undefined],
    ["0.zstd", undefined],
    ["01.zstd", undefined],
    ["-1.zstd", undefined],
    ["1.zstd.tmp", undefined],
    ["x1.zstd", undefined],
    ["99999999999.zstd", undefined],
  ])("the name %s is that of %s", (name, id) => {
    expect(parseDictionaryName(name)).toBe(id);
  });
});
