// Writes the damaged directories of test/corpus anew: `bun scripts/make-corpus.ts`. The same sources give the same bytes.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { DIRECTORIES, writeImage } from "../test/corpus/image.ts";
import { IMAGES } from "../test/corpus/images.ts";

rmSync(DIRECTORIES, { recursive: true, force: true });
for (const [name, build] of Object.entries(IMAGES)) writeImage(join(DIRECTORIES, name), build());
