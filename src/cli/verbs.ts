import type { Verb } from "./verb.ts";
import { backupVerb } from "./verbs/backup.ts";
import { dictVerb } from "./verbs/dict.ts";
import { dumpVerb } from "./verbs/dump.ts";
import { createHelpVerb } from "./verbs/help.ts";
import { migrateVerb } from "./verbs/migrate.ts";
import { peekVerb } from "./verbs/peek.ts";
import { pubVerb } from "./verbs/pub.ts";
import { repairVerb } from "./verbs/repair.ts";
import { restoreVerb } from "./verbs/restore.ts";
import { scrubVerb } from "./verbs/scrub.ts";
import { serveVerb } from "./verbs/serve.ts";
import { subVerb } from "./verbs/sub.ts";
import { verifyVerb } from "./verbs/verify.ts";
import { versionVerb } from "./verbs/version.ts";

/** Every verb, in the order in which help lists them. */
export const VERBS: readonly Verb[] = [
  serveVerb,
  pubVerb,
  subVerb,
  peekVerb,
  dumpVerb,
  scrubVerb,
  verifyVerb,
  repairVerb,
  backupVerb,
  restoreVerb,
  migrateVerb,
  dictVerb,
  createHelpVerb(() => VERBS),
  versionVerb,
];
