import { describe, it } from "vitest";
import { examine } from "./examine.ts";
import { smallText } from "./images.ts";

const SMALL = Array.from({ length: 11 }, (_, offset) => smallText(offset));

describe("what does not belong to the log", () => {
  it("storage.md 26.16: names that are nearly right, directories, and what lies in them stay as they are", async () => {
    await examine("foreign-files", { served: SMALL });
  });

  it("storage.md 2 rule 2: links are no segments and no cursors, wherever they lead", async () => {
    await examine("links", { served: SMALL });
  });
});
