import { statSync } from "node:fs";
import { tmpdir } from "node:os";
import { posix } from "node:path";
import { describe, expect, it } from "vitest";
import { detectBlockDevice, deviceNumbers, type Sysfs, systemSysfs } from "../../src/runtime/block-device.ts";

/** A /sys in memory: `files` by path, `links` from a path to the directory it stands for. */
function sysfs(files: Record<string, string>, links: Record<string, string>): Sysfs {
  const paths = [...Object.keys(files), ...Object.keys(links)];
  const missing = (path: string) => Object.assign(new Error(`ENOENT: ${path}`), { code: "ENOENT" });
  const exists = (path: string) => paths.some((each) => each === path || each.startsWith(`${path}/`));
  return {
    canonical(path) {
      const target = links[path] ?? path;
      if (!exists(target)) throw missing(path);
      return target;
    },
    read(path) {
      if (files[path] === undefined) throw missing(path);
      return files[path];
    },
    list(path) {
      if (!exists(path)) throw missing(path);
      const names = paths.filter((each) => each.startsWith(`${path}/`)).map((each) => each.slice(path.length + 1));
      return [...new Set(names.map((name) => name.split("/")[0]))].filter((name) => name !== ".keep").sort();
    },
    exists,
  };
}

const DISK = "/sys/devices/pci0000:00/0000:00:1f.0/nvme/nvme1/nvme1n1";
const EBS = "Amazon Elastic Block Store              ";
/** Major 259, minor 2. */
const DEVICE = 259 * 256 + 2;
const NUMBERS = "/sys/dev/block/259:2";

function disk(model: string | undefined, directory = DISK): Record<string, string> {
  return {
    ...(model === undefined ? {} : { [`${directory}/device/model`]: `${model}\n` }),
    [`${directory}/queue/rotational`]: "0\n",
    [`${directory}/queue/write_cache`]: "write through\n",
    [`${directory}/slaves/.keep`]: "",
  };
}

const kindOf = (tree: Sysfs) => detectBlockDevice(DEVICE, tree).kind;

describe("storage.md 26.35: the device below a data directory", () => {
  it.each([
    [EBS, "network-durable"],
    ["AMAZON ELASTIC BLOCK STORE", "network-durable"],
    ["Amazon EC2 NVMe Instance Storage        ", "local-volatile"],
    ["some Instance Storage", "local-volatile"],
    // The volatile one comes first where a model claims both.
    ["Amazon Elastic Block Store on instance storage", "local-volatile"],
    ["Samsung SSD 970 EVO", "unknown"],
    ["Elastic Block Store", "unknown"],
    ["", "unknown"],
    [undefined, "unknown"],
  ] as const)("model %j is %s", (model, kind) => {
    expect(kindOf(sysfs(disk(model), { [NUMBERS]: DISK }))).toBe(kind);
  });

  it("tells name, model and what is logged only", () => {
    expect(detectBlockDevice(DEVICE, sysfs(disk(EBS), { [NUMBERS]: DISK }))).toEqual({
      kind: "network-durable",
      name: "nvme1n1",
      model: EBS.trim(),
      rotational: "0",
      writeCache: "write through",
    });
  });

  it("goes from a partition to its disk", () => {
    const partition = `${DISK}/nvme1n1p1`;
    const tree = sysfs({ ...disk(EBS), [`${partition}/partition`]: "1\n" }, { [NUMBERS]: partition });
    expect(detectBlockDevice(DEVICE, tree)).toMatchObject({ kind: "network-durable", name: "nvme1n1" });
  });

  it("goes down through mappings, the first slave each time, to a partition's disk", () => {
    const dm = "/sys/devices/virtual/block/dm-3";
    const md = "/sys/devices/virtual/block/md0";
    const partition = `${DISK}/nvme1n1p1`;
    const tree = sysfs(
      { ...disk(EBS), [`${partition}/partition`]: "1\n", [`${md}/size`]: "1", [`${dm}/size`]: "1" },
      {
        [NUMBERS]: dm,
        [`${dm}/slaves/md0`]: md,
        [`${md}/slaves/nvme1n1p1`]: partition,
        [`${md}/slaves/sdb`]: "/sys/devices/virtual/block/sdb",
      },
    );
    expect(kindOf(tree)).toBe("network-durable");
  });

  it.each(["dm-0", "md127", "loop4"])("%s without slaves is unknown, whatever else it says", (name) => {
    const directory = `/sys/devices/virtual/block/${name}`;
    const tree = sysfs({ ...disk(EBS, directory) }, { [NUMBERS]: directory });
    expect(kindOf(tree)).toBe("unknown");
    const bare = sysfs({ [`${directory}/device/model`]: EBS }, { [NUMBERS]: directory });
    expect(kindOf(bare)).toBe("unknown");
  });

  it("any device with slaves stands on them", () => {
    const bcache = "/sys/devices/virtual/block/bcache0";
    const tree = sysfs(
      { ...disk("Samsung"), [`${bcache}/device/model`]: EBS },
      { [NUMBERS]: bcache, [`${bcache}/slaves/nvme1n1`]: DISK },
    );
    expect(kindOf(tree)).toBe("unknown");
  });

  it("devices that stand on each other in a circle are unknown", () => {
    const one = "/sys/devices/virtual/block/dm-1";
    const two = "/sys/devices/virtual/block/dm-2";
    const tree = sysfs(
      { [`${one}/size`]: "1", [`${two}/size`]: "1" },
      { [NUMBERS]: one, [`${one}/slaves/dm-2`]: two, [`${two}/slaves/dm-1`]: one },
    );
    expect(kindOf(tree)).toBe("unknown");
  });

  it("no /sys, and one that fails, are unknown", () => {
    expect(kindOf(sysfs({}, {}))).toBe("unknown");
    const refuse = () => {
      throw Object.assign(new Error("EACCES"), { code: "EACCES" });
    };
    expect(kindOf({ canonical: refuse, read: refuse, list: refuse, exists: refuse })).toBe("unknown");
    expect(detectBlockDevice(Number.NaN, sysfs({}, {})).kind).toBe("unknown");
  });

  it("takes device numbers apart as the C library puts them together", () => {
    expect(deviceNumbers(259 * 256 + 2)).toEqual({ major: 259, minor: 2 });
    expect(deviceNumbers(0x0801)).toEqual({ major: 8, minor: 1 });
    // Minor numbers above 255 go on at bit 20, majors above 4095 at bit 44.
    expect(deviceNumbers((0x34567 - 0x67) * 2 ** 12 + (0x123 << 8) + 0x67)).toEqual({ major: 0x123, minor: 0x34567 });
    expect(deviceNumbers(0x1000 * 2 ** 32 + 0x01)).toEqual({ major: 0x1000, minor: 1 });
  });

  it("finds the disk of this machine's temporary directory, or nothing, and never fails", () => {
    const found = detectBlockDevice(statSync(tmpdir()).dev, systemSysfs);
    expect(["network-durable", "local-volatile", "unknown"]).toContain(found.kind);
    if (found.name !== undefined) expect(systemSysfs.list("/sys/block")).toContain(posix.basename(found.name));
  });
});
