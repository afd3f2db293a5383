import { describe, expect, it } from "vitest";
import { chooseIoMode, resolveIoMode } from "../../src/log/io-mode.ts";
import { type BlockDevice, UNKNOWN_DEVICE } from "../../src/runtime/block-device.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { ROOT, thrown } from "./fixtures.ts";

const KINDS = ["network-durable", "local-volatile", "unknown"] as const;
const device = (kind: BlockDevice["kind"]): BlockDevice => ({ ...UNKNOWN_DEVICE, kind, name: "sda", model: "M" });

function newFiles(): SimulatedFileSystem {
  const files = new SimulatedFileSystem({ turns: "manual" });
  files.makeDirectory(ROOT);
  return files;
}

/** A file system that opens no file for direct writes, as tmpfs of old kernels and FUSE. */
function withoutDirectWrites(code = "EINVAL"): SimulatedFileSystem {
  const files = newFiles();
  const openDirect = files.openDirect.bind(files);
  files.openDirect = (path, mode) => {
    // Linux creates the file before it finds that it cannot be opened like that.
    openDirect(path, mode).close();
    files.fail({ operation: "open", code });
    return openDirect(path, "write");
  };
  return files;
}

const neverAsked = (): BlockDevice => {
  throw new Error("the device does not matter here");
};

describe("storage.md 16, 26.35: the table of I/O modes", () => {
  it("buffered is buffered, without a look at anything and without a word", () => {
    const files = newFiles();
    const { operations } = files;
    expect(resolveIoMode("buffered", files, ROOT, neverAsked)).toEqual({ mode: "buffered", note: undefined });
    expect(files.operations).toBe(operations);
  });

  it.each([
    ["direct", "WARN"],
    ["auto", "INFO"],
  ] as const)("%s where nothing is written directly is buffered, with %s", (requested, level) => {
    for (const code of ["EINVAL", "EOPNOTSUPP"]) {
      const files = withoutDirectWrites(code);
      const resolved = resolveIoMode(requested, files, ROOT, neverAsked);
      expect(resolved.mode).toBe("buffered");
      expect(resolved.note?.level).toBe(level);
      expect(resolved.note?.message).toMatch(`--io-mode ${requested}`);
      expect(resolved.note?.message).toMatch(code);
      expect(files.list(ROOT)).toEqual([]);
    }
  });

  it.each([
    ["direct", "direct INFO", "direct WARN", "direct WARN"],
    ["auto", "direct INFO", "buffered INFO", "buffered INFO"],
  ] as const)("%s by kind of device", (requested, ...expected) => {
    const found = KINDS.map((kind) => {
      const { mode, note } = chooseIoMode(requested, device(kind));
      expect(note?.message).toMatch(/sda, model "M"/);
      expect(note?.message).toMatch(`writing ${mode}`);
      return `${mode} ${note?.level}`;
    });
    expect(found).toEqual(expected);
  });

  it("probes with a block of its own and leaves nothing, also of a probe before it that was cut off", () => {
    const files = newFiles();
    files.open(`${ROOT}/.ironbus-write-probe`, "create").close();
    const { mode } = resolveIoMode("direct", files, ROOT, () => device("unknown"));
    expect(mode).toBe("direct");
    expect(files.list(ROOT)).toEqual([]);
  });

  it("a refusal at the first write, not at the open, is one too", () => {
    const files = newFiles();
    files.fail({ operation: "write", code: "EINVAL" });
    expect(resolveIoMode("direct", files, ROOT, neverAsked).mode).toBe("buffered");
    expect(files.list(ROOT)).toEqual([]);
  });

  it("README ruling 11: a full disk says nothing about the mode and does not stop the start", () => {
    const files = newFiles();
    files.limitSpace(0);
    expect(resolveIoMode("direct", files, ROOT, () => device("network-durable")).mode).toBe("direct");
    expect(files.list(ROOT)).toEqual([]);
  });

  it("a disk that fails is not mistaken for one without direct writes", () => {
    const files = newFiles();
    files.fail({ operation: "write", code: "EIO" });
    expect(thrown(() => resolveIoMode("auto", files, ROOT, neverAsked)).message).toMatch(/EIO/);
  });
});
