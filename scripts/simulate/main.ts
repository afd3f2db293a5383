/*
 * The runs of test/simulation/power-cuts.test.ts, any number of them; a failing seed is told with the way to replay it.
 *
 *     node scripts/simulate.mjs --seeds N [--from S]     N seeds from S on (default 1000 from 1)
 *     node scripts/simulate.mjs --seed S                 one seed, with its whole journal
 */

import { parseArgs } from "node:util";
import { loadCodec } from "../../src/runtime/native/codec.ts";
import { runSeed } from "../../test/simulation/run.ts";

const { values } = parseArgs({
  options: { seeds: { type: "string" }, from: { type: "string" }, seed: { type: "string" } },
});

function wholeNumber(name: "seeds" | "from" | "seed", absent: number): number {
  const text = values[name];
  const value = Number(text ?? absent);
  if (Number.isSafeInteger(value) && value >= 0 && text !== "") return value;
  process.stderr.write(`--${name} is no whole number: ${text}\n`);
  process.exit(1);
}

const single = values.seed !== undefined;
const first = single ? wholeNumber("seed", 1) : wholeNumber("from", 1);
const count = single ? 1 : wholeNumber("seeds", 1000);
const { codec } = loadCodec();
const startMs = performance.now();
let failed = 0;
let acknowledged = 0;
let cuts = 0;
for (let seed = first; seed < first + count; seed++) {
  try {
    const result = await runSeed(seed, {
      codec,
      onEvent: single ? (line) => process.stdout.write(`${line}\n`) : undefined,
    });
    acknowledged += result.acknowledged;
    cuts += result.cuts;
  } catch (error) {
    failed += 1;
    process.stdout.write(`${(error as Error).message}\n`);
  }
}
const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
process.stdout.write(
  `${count} seed(s) from ${first}: ${failed} failed, ${acknowledged} records acknowledged, ${cuts} power cuts, ${seconds} s\n`,
);
process.exitCode = failed === 0 ? 0 : 1;
