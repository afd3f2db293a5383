import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { scrubVerb } from "../../src/cli/verbs/scrub.ts";
import { verifyVerb } from "../../src/cli/verbs/verify.ts";
import { LAYOUT_CAPACITY } from "../../src/log/checkpoint-payloads.ts";
import { recoverLog } from "../../src/log/recovery.ts";
import { StorageError } from "../../src/log/storage-error.ts";
import { Tag } from "../../src/wire/tags.ts";
import { pub, World } from "../broker/world.ts";
import { ascii, codec } from "../log/fixtures.ts";
import { consume, examine, inMemory, runVerb } from "./examine.ts";
import { checkpoint } from "./healthy.ts";
import { captureImage, DIRECTORIES, readImage, shown } from "./image.ts";
import { smallText } from "./images.ts";

const SMALL = Array.from({ length: 11 }, (_, offset) => smallText(offset));

/** No cursor can be read, so the default group begins anew. */
const NO_CURSOR = { served: SMALL, cursors: [], resumesAt: 0 } as const;

/** What a broker says about the directory when it starts. */
async function warnings(name: string): Promise<readonly string[]> {
  const world = await World.start({ files: inMemory(readImage(join(DIRECTORIES, name))) });
  await world.stop();
  return world.warnings;
}

const damaged = (name: string) => `checkpoint /data/${name} is damaged: what was settled is delivered again`;

describe("checkpoints", () => {
  it("storage.md 8.1: a file shorter than two slots holds nothing, which is told", async () => {
    await examine("cut-checkpoint", NO_CURSOR);
    expect(await warnings("cut-checkpoint")).toEqual([damaged("cursor.ckpt")]);
  });

  it("README ruling 13: zeros are damage: loud, and then as empty", async () => {
    await examine("zeroed-checkpoint", NO_CURSOR);
    expect(await warnings("zeroed-checkpoint")).toEqual([damaged("cursor.ckpt")]);
  });

  it("storage.md 26.19: with one damaged slot the other one's value is taken", async () => {
    await examine("one-damaged-slot", { served: SMALL, cursors: [["", 0, true]], resumesAt: 0 });
    expect(await warnings("one-damaged-slot")).toEqual([]);
  });

  it("storage.md 26.19: with both damaged the group begins anew, and everybody is told", async () => {
    await examine("damaged-slots", NO_CURSOR);
    expect(await warnings("damaged-slots")).toEqual([damaged("cursor.ckpt"), damaged("attempts.ckpt")]);
  });

  it("storage.md 8.3: a cursor behind the log's end is brought back to it", async () => {
    await examine("cursor-behind-the-end", {
      served: SMALL,
      cursors: [
        ["g", 99, false],
        ["", 5, true],
      ],
    });
    const world = await World.start({ files: inMemory(readImage(join(DIRECTORIES, "cursor-behind-the-end"))) });
    expect(consume(world, "g")).toEqual([]);
    const peer = world.client();
    peer.send(pub("next"));
    peer.expectTags(Tag.PubAck);
    expect(consume(world, "g")).toEqual([11]);
    await world.stop();
  });
});

describe("the layout marker", () => {
  it("storage.md 26.22: a later layout is refused in every mode, and no byte changes", async () => {
    const directory = join(DIRECTORIES, "future-layout");
    const image = readImage(directory);
    const message = (root: string) => `${root} has directory layout 2, newer than this build supports (1)`;
    for (const recovery of ["salvage", "strict"] as const) {
      const files = inMemory(image);
      const open = () => recoverLog(files, codec, "/data", { maxSegmentBytes: 1024, recovery });
      expect(open).toThrow(StorageError);
      expect(open).toThrow(message("/data"));
      expect(shown(captureImage(files, "/data"))).toEqual(shown(image));
      for (const verb of [scrubVerb, verifyVerb]) {
        expect(await runVerb(verb, ["--data-dir", directory, "--json", "--recovery", recovery])).toEqual({
          code: 4,
          stdout: "",
          stderr: `corrupt data directory at ${directory}: ${message(directory)}`,
        });
      }
    }
    await expect(World.start({ files: inMemory(image) })).rejects.toThrow(message("/data"));
    expect(shown(readImage(directory))).toEqual(shown(image));
  });

  it("storage.md 26.22: a marker with another magic is none, and is written anew", async () => {
    const foreign = ascii("XBDD\x02\0\0\0");
    const ours = ascii("IBDD\x01\0\0\0");
    await examine("foreign-layout", {
      served: SMALL,
      layoutVersion: null,
      rewritten: { "layout.meta": checkpoint(LAYOUT_CAPACITY, [foreign, ours]) },
    });
  });
});
