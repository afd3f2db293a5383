import type { Verb } from "./verb.ts";
import { dumpVerb } from "./verbs/dump.ts";
import { createHelpVerb } from "./verbs/help.ts";
import { peekVerb } from "./verbs/peek.ts";
import { pubVerb } from "./verbs/pub.ts";
import { serveVerb } from "./verbs/serve.ts";
import { subVerb } from "./verbs/sub.ts";
import { versionVerb } from "./verbs/version.ts";

/** Every verb, in the order in which help lists them. */
export const VERBS: readonly Verb[] = [
  serveVerb,
  pubVerb,
  subVerb,
  peekVerb,
  dumpVerb,
  createHelpVerb(() => VERBS),
  versionVerb,
];
