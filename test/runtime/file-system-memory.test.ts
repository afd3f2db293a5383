import { describe, expect, it } from "vitest";
import { EphemeralFileSystem } from "../../src/runtime/file-system-ephemeral.ts";
import { MemoryFileSystem } from "../../src/runtime/file-system-memory.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { fileScenarios } from "./file-system-scenarios.ts";

const kinds = {
  memory: () => new MemoryFileSystem(),
  "simulated disk": () => new SimulatedFileSystem(),
  "storage of a broker in memory": () => new EphemeralFileSystem(),
};

describe.each(Object.entries(kinds))("%s", (_name, create) => {
  for (const { title, run } of fileScenarios) {
    it(title, async () => {
      const files = create();
      files.makeDirectory("/data/a");
      await expect(run(files, "/data/a")).resolves.toBeUndefined();
    });
  }

  it("takes relative paths from the root", () => {
    const files = create();
    files.makeDirectory("data");
    files.open("data/x", "create").close();
    expect(files.list("/data/../data/.")).toEqual([{ name: "x", kind: "file" }]);
  });

  it("keeps a copy of what is written, also of a Buffer", () => {
    const files = create();
    const buffer = Buffer.from("abc");
    const file = files.open("/x", "create");
    file.write(buffer, 0, 3, 0);
    buffer.fill(0);
    const read = new Uint8Array(3);
    file.read(read, 0, 3, 0);
    expect(read).toEqual(new Uint8Array([97, 98, 99]));
  });
});
