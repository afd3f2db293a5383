import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { DIRECTORIES, readImage, shown } from "./image.ts";
import { IMAGES } from "./images.ts";

const MIB = 1024 * 1024;

describe("the corpus", () => {
  it("is what its script makes, byte for byte", () => {
    expect(readdirSync(DIRECTORIES).sort()).toEqual(Object.keys(IMAGES).sort());
    for (const [name, build] of Object.entries(IMAGES)) {
      expect(shown(readImage(join(DIRECTORIES, name))), name).toEqual(shown(build()));
    }
  });

  it("is small", () => {
    let bytes = 0;
    for (const entry of readImage(DIRECTORIES).values()) bytes += entry instanceof Uint8Array ? entry.length : 0;
    expect(bytes).toBeLessThan(MIB / 2);
  });
});
